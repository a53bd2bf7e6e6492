package relaying

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/jackc/pgx/v5"
)

// TestSnapshot measures the time from a commit to the consumer while a transaction has an old snapshot open, as a report or a backup does:
// PostgreSQL then keeps all rows that were deleted since, and whoever looks for new ones passes over them.
func TestSnapshot(t *testing.T) {
	b := newBench(t)
	type kind struct {
		keys     int
		snapshot bool
	}
	kinds := []kind{{0, false}, {0, true}, {manyKeys, false}, {manyKeys, true}}
	p50 := make(map[kind][]float64)
	for round := range *rounds {
		for _, k := range kinds {
			took, err := b.behind(t.Context(), fmt.Sprintf("snapshot-%d-%d-%v", round, k.keys, k.snapshot), k.keys, k.snapshot)
			if err != nil {
				t.Fatalf("%+v: %v", k, err)
			}
			p50[k] = append(p50[k], milliseconds(took[len(took)/2]))
			t.Logf("round %d: %+v: p50 %.1f ms, p99 %.1f ms", round+1, k, milliseconds(took[len(took)/2]), milliseconds(took[len(took)*99/100]))
		}
	}
	fmt.Printf("\nFrom a commit to the consumer, at %d transactions in a second, after %d messages were relayed. %d rounds of %v.\n", *rate, *dead, *rounds, *lasting)
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "messages\tp50 ms\twith an old snapshot open\t×\t")
	for _, keys := range []int{0, manyKeys} {
		without, with := median(p50[kind{keys, false}]), median(p50[kind{keys, true}])
		name := "without an order"
		if keys > 0 {
			name = fmt.Sprintf("of %d order keys", keys)
		}
		fmt.Fprintf(w, "%s\t%.1f\t%.1f\t%.2f\t\n", name, without, with, with/without)
		if *judge && with > 3*without {
			t.Errorf("%s: got %.1f times as long with a snapshot, want at most 3 times", name, with/without)
		}
	}
	_ = w.Flush()
}

const manyKeys = 1000

// behind measures latencies after many messages were relayed, while a snapshot from before them is open or not.
func (b *bench) behind(ctx context.Context, queue string, keys int, snapshot bool) (sorted []time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, timeLimit)
	defer cancel()
	c, err := openRehop(b, queue)
	if err != nil {
		return nil, err
	}
	line := c.(*rehopLine)
	line.keys = keys
	if _, err := b.pool.Exec(ctx, "TRUNCATE rehop_outbox"); err != nil {
		return nil, err
	}
	if snapshot {
		tx, err := b.pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, tx.Rollback(ctx)) }()
		if _, err := tx.Exec(ctx, "SELECT COUNT(*) FROM rehop_outbox"); err != nil {
			return nil, err
		}
	}
	count := newTally()
	all := count.reaches(*dead)
	stop, err := line.carry(ctx, count.got)
	if err != nil {
		return nil, err
	}
	err = putAll(ctx, line, 0, *dead)
	if err == nil {
		err = await(ctx, "messages that were relayed before", all)
	}
	if err := errors.Join(err, stop()); err != nil {
		return nil, err
	}
	return latencies(ctx, line)
}
