package relaying

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
	"text/tabwriter"
	"time"
)

// shortBacklog is how many rows wait when few do.
const shortBacklog = 1000

// TestBacklog measures how many messages a relay carries in a second while few and while many rows wait. What it has carried is
// written again, so that there are always as many. While few wait the writer is part of the limit: compare TestRelaying, in which nobody
// writes meanwhile.
func TestBacklog(t *testing.T) {
	b := newBench(t)
	sizes := []int{shortBacklog, *backlog}
	rates := make(map[int][]float64)
	for round := range *rounds {
		for _, n := range sizes {
			perSecond, err := b.steady(t.Context(), n, round)
			if err != nil {
				t.Fatalf("%d rows: %v", n, err)
			}
			rates[n] = append(rates[n], perSecond)
			t.Logf("round %d: %d rows wait: %.0f messages/s", round+1, n, perSecond)
		}
		slices.Reverse(sizes)
	}
	fmt.Printf("\nA relay on PostgreSQL while rows wait. Bodies of %d B; %d rounds of %d messages.\n", *size, *rounds, *messages)
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "rows\tmessages/s\t(min–max)\t")
	for _, n := range []int{shortBacklog, *backlog} {
		fmt.Fprintf(w, "%d\t%.0f\t(%.0f–%.0f)\t\n", n, median(rates[n]), slices.Min(rates[n]), slices.Max(rates[n]))
	}
	_ = w.Flush()
	shares := make([]float64, *rounds)
	for i := range shares {
		shares[i] = rates[*backlog][i] / rates[shortBacklog][i]
	}
	share := median(shares)
	fmt.Printf("with many it is %.2f of that with few\n", share)
	if *judge && share < 0.8 {
		t.Errorf("rate with %d rows: got %.2f of that with %d, want at least 0.8", *backlog, share, shortBacklog)
	}
}

// steady is the rate while the given number of rows waits.
func (b *bench) steady(ctx context.Context, rows, round int) (perSecond float64, err error) {
	ctx, cancel := context.WithTimeout(ctx, timeLimit)
	defer cancel()
	c, err := openRehop(b, fmt.Sprintf("backlog-%d-%d", rows, round))
	if err != nil {
		return 0, err
	}
	line := c.(*rehopLine)
	if _, err := b.pool.Exec(ctx, "TRUNCATE rehop_outbox"); err != nil {
		return 0, err
	}
	if err := line.fill(ctx, rows); err != nil {
		return 0, err
	}
	warm := max(1, *messages/10)
	carried := make(chan struct{}, rows+2**messages+batch)
	count := newTally()
	warmed, all := count.reaches(warm), count.reaches(warm+*messages)
	stop, err := line.carry(ctx, func(n int) {
		count.got(n)
		select {
		case carried <- struct{}{}:
		default:
		}
	})
	if err != nil {
		return 0, err
	}
	feeding, rest := context.WithCancel(ctx)
	fed := make(chan error, 1)
	go func() { fed <- line.feed(feeding, carried, rows) }()
	err = await(ctx, "first messages", warmed)
	began := time.Now()
	if err == nil {
		err = await(ctx, "messages", all)
	}
	took := time.Since(began)
	rest()
	return float64(*messages) / took.Seconds(), errors.Join(err, <-fed, stop())
}

// fill writes rows without asking the outbox, which would take long for a million.
func (l *rehopLine) fill(ctx context.Context, rows int) error {
	_, err := l.pool.Exec(ctx, `INSERT INTO rehop_outbox (state, shard, due, created, size, message_id, exchange, routing_key, order_key, properties, headers, body)
		SELECT 0, n % 16, 0, 0, $2::int, 'row-' || n, '', $1, '', '{"timestamp":0}', '', convert_to('{"n":' || n || ',"pad":"' || repeat('x', $2::int - 20) || '"}', 'UTF8')
		FROM generate_series(0, $3::int - 1) AS n`, l.queue, *size, rows)
	if err != nil {
		return err
	}
	_, err = l.pool.Exec(ctx, "VACUUM ANALYZE rehop_outbox")
	return err
}

// feed writes as many messages as are carried.
func (l *rehopLine) feed(ctx context.Context, carried <-chan struct{}, next int) error {
	for {
		numbers := make([]int, batch)
		for i := range numbers {
			select {
			case <-carried:
			case <-ctx.Done():
				return nil
			}
			numbers[i] = next
			next++
		}
		if err := l.put(ctx, numbers); err != nil && ctx.Err() == nil {
			return err
		}
	}
}
