package relaying

import (
	"context"
	"database/sql"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop/integration/lab"
	"github.com/rehop/rehop/outbox/outboxpgx"
)

// Without flags this is a smoke test of a few seconds, whose numbers mean nothing. To measure, run make bench, or
//
//	go test ./relaying -run '^TestRelaying$' -count=1 -v -timeout=60m -args -rounds=5 -messages=20000 -lasting=10s -judge
//	go test ./relaying -run '^TestBacklog$' -count=1 -v -timeout=60m -args -rounds=5 -messages=50000 -backlog=1000000 -judge
//	go test ./relaying -run '^TestBarrier$' -count=1 -v -timeout=60m -args -rounds=5 -messages=20000 -lasting=5s -judge
//	go test ./relaying -run '^TestSnapshot$' -count=1 -v -timeout=60m -args -rounds=3 -dead=100000 -rate=100 -lasting=5s -judge
//	go test ./relaying -run '^TestInbox$' -count=1 -v -timeout=60m -args -rounds=5 -handled=5000
//
// and compare the ratios rather than the absolute numbers: broker, database and clients share the machine.
var (
	rounds   = flag.Int("rounds", 1, "how often everything is measured; tables show medians")
	messages = flag.Int("messages", 500, "messages per round that are carried")
	size     = flag.Int("size", 256, "size of a body in bytes, about")
	rate     = flag.Int("rate", 500, "transactions in a second while latency is measured")
	lasting  = flag.Duration("lasting", 500*time.Millisecond, "for how long latency is measured in a round")
	backlog  = flag.Int("backlog", 20_000, "rows of the long backlog")
	dead     = flag.Int("dead", 2_000, "rows that were published while an old snapshot was open")
	handled  = flag.Int("handled", 100, "messages per round that are handled with and without an inbox")
	only     = flag.String("only", "", "comma-separated contenders to measure; default all")
	judge    = flag.Bool("judge", false, "fail where a goal is missed")
)

// carrier takes messages from a transaction to their consumer.
type carrier interface {
	// put writes messages with these numbers in one transaction, and returns when that is committed.
	put(ctx context.Context, numbers []int) error
	// carry begins to carry messages to a consumer, which calls got with the number of each. stop ends that, and releases everything.
	carry(ctx context.Context, got func(n int)) (stop func() error, err error)
}

// contender is a library as a competent user would use it.
type contender struct {
	name string
	open func(b *bench, queue string) (carrier, error)
}

func contenders() []contender {
	return []contender{{"rehop", openRehop}, {"watermill forwarder", openWatermill}, {"river", openRiver}}
}

func selected(t *testing.T) []contender {
	t.Helper()
	all := contenders()
	if *only == "" {
		return all
	}
	names := strings.Split(*only, ",")
	some := slices.DeleteFunc(all, func(c contender) bool { return !slices.Contains(names, c.name) })
	if len(some) != len(names) {
		t.Fatalf("-only=%s: there are only %d of these", *only, len(some))
	}
	return some
}

// bench is what the contenders share.
type bench struct {
	url  string // of the broker
	pool *pgxpool.Pool
	db   *sql.DB // the same pool
	conn *amqp.Connection
}

func newBench(t *testing.T) *bench {
	t.Helper()
	r, d := lab.Single(t), lab.Postgres(t)
	config, err := pgxpool.ParseConfig(d.Source)
	if err != nil {
		t.Fatal(err)
	}
	config.MaxConns = 30
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	conn, err := amqp.Dial(r.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	b := &bench{url: r.URL, pool: pool, db: outboxpgx.DB(pool), conn: conn}
	t.Cleanup(func() { _ = b.db.Close() })
	return b
}

// order is the content of a message.
type order struct {
	N   int    `json:"n"`
	Pad string `json:"pad"`
}

func newOrder(n int) order { return order{n, strings.Repeat("x", max(0, *size-20))} }

func body(n int) []byte {
	text, err := json.Marshal(newOrder(n))
	if err != nil {
		panic(err) // it is a number and a string
	}
	return text
}

func number(body []byte) (int, error) {
	var o order
	err := json.Unmarshal(body, &o)
	return o.N, err
}

// consume declares a queue and consumes it, in the same way for all contenders that have a broker.
func (b *bench) consume(queue string, got func(n int)) (stop func() error, err error) {
	ch, err := b.conn.Channel()
	if err != nil {
		return nil, err
	}
	deliveries, err := ch.Consume(queue, "", true, false, false, false, nil)
	if err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	go func() {
		var bad error
		for d := range deliveries {
			n, err := number(d.Body)
			if err != nil {
				bad = fmt.Errorf("body %q: %w", d.Body, err)
				continue
			}
			got(n)
		}
		ended <- bad
	}()
	return func() error {
		if err := ch.Close(); err != nil {
			return err
		}
		return <-ended
	}, nil
}

// declare makes a quorum queue.
func (b *bench) declare(queue string) error {
	ch, err := b.conn.Channel()
	if err != nil {
		return err
	}
	defer ch.Close()
	_, err = ch.QueueDeclare(queue, true, false, false, false, amqp.Table{"x-queue-type": "quorum"})
	return err
}

// tally counts messages, each once, and notifies when all are there.
type tally struct {
	mu      sync.Mutex
	seen    map[int]time.Time
	targets map[int]chan struct{}
}

func newTally() *tally {
	return &tally{seen: make(map[int]time.Time), targets: make(map[int]chan struct{})}
}

func (c *tally) got(n int) {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, again := c.seen[n]; again {
		return
	}
	c.seen[n] = now
	if target := c.targets[len(c.seen)]; target != nil {
		close(target)
	}
}

// reaches is closed when n different messages have come.
func (c *tally) reaches(n int) <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	target := make(chan struct{})
	if len(c.seen) >= n {
		close(target)
	} else {
		c.targets[n] = target
	}
	return target
}

// at is when a message has come.
func (c *tally) at(n int) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.seen[n]
}

func (c *tally) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.seen)
}

// timeLimit is how long a measurement may take.
const timeLimit = 10 * time.Minute

func await(ctx context.Context, what string, event <-chan struct{}) error {
	select {
	case <-event:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", what, ctx.Err())
	}
}

// batch is how many messages are written in one transaction where that is not what is measured.
const batch = 100

func putAll(ctx context.Context, c carrier, from, n int) error {
	for ; n > 0; n -= batch {
		numbers := make([]int, min(n, batch))
		for i := range numbers {
			numbers[i] = from
			from++
		}
		if err := c.put(ctx, numbers); err != nil {
			return fmt.Errorf("write messages: %w", err)
		}
	}
	return nil
}

// throughput is how many messages that wait in the table reach the consumer in a second.
func throughput(ctx context.Context, c carrier) (perSecond float64, err error) {
	warm := max(1, *messages/10)
	if err := putAll(ctx, c, 0, warm+*messages); err != nil {
		return 0, err
	}
	count := newTally()
	warmed, all := count.reaches(warm), count.reaches(warm+*messages)
	stop, err := c.carry(ctx, count.got)
	if err != nil {
		return 0, err
	}
	err = await(ctx, "first messages", warmed)
	began := time.Now()
	if err == nil {
		err = await(ctx, "messages", all)
	}
	took := time.Since(began)
	if err != nil {
		err = fmt.Errorf("%w after %d messages", err, count.count())
	}
	if stopErr := stop(); err == nil {
		err = stopErr
	}
	return float64(*messages) / took.Seconds(), err
}

// latencies are the times from a commit to the consumer while transactions commit at the rate of the flags.
func latencies(ctx context.Context, c carrier) (sorted []time.Duration, err error) {
	const writers = 10
	n := max(writers, int(float64(*rate)*lasting.Seconds()))
	const warm = 50
	count := newTally()
	warmed, all := count.reaches(warm), count.reaches(warm+n)
	stop, err := c.carry(ctx, count.got)
	if err != nil {
		return nil, err
	}
	defer func() {
		if stopErr := stop(); err == nil {
			err = stopErr
		}
	}()
	if err := putAll(ctx, c, 0, warm); err != nil {
		return nil, err
	}
	if err := await(ctx, "first messages", warmed); err != nil {
		return nil, err
	}
	committed, err := pace(ctx, c, warm, n, writers)
	if err != nil {
		return nil, err
	}
	if err := await(ctx, "messages", all); err != nil {
		return nil, fmt.Errorf("%w after %d of %d", err, count.count(), warm+n)
	}
	for i, at := range committed {
		sorted = append(sorted, max(0, count.at(warm+i).Sub(at))) // one may come before its writer knows
	}
	slices.Sort(sorted)
	return sorted, nil
}

// pace commits messages one by one, evenly over time, and returns when each was committed.
func pace(ctx context.Context, c carrier, from, n, writers int) ([]time.Time, error) {
	committed, errs := make([]time.Time, n), make([]error, writers)
	var next atomic.Int64
	began := time.Now()
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				timer := time.NewTimer(time.Until(began.Add(time.Duration(i) * time.Second / time.Duration(*rate))))
				<-timer.C
				if errs[w] = c.put(ctx, []int{from + i}); errs[w] != nil {
					return
				}
				committed[i] = time.Now()
			}
		})
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return committed, nil
}

// result is what was measured of a contender, a value for each round.
type result struct{ rates, p50, p99 []float64 }

func TestRelaying(t *testing.T) {
	b := newBench(t)
	all := selected(t)
	results := make(map[string]*result)
	for round := range *rounds {
		turn := round % len(all)
		for _, c := range slices.Concat(all[turn:], all[:turn]) {
			if results[c.name] == nil {
				results[c.name] = &result{}
			}
			if err := b.measure(t.Context(), c, round, results[c.name]); err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			r := results[c.name]
			t.Logf("round %d: %s: %.0f messages/s, p50 %.1f ms, p99 %.1f ms", round+1, c.name, r.rates[round], r.p50[round], r.p99[round])
		}
	}
	fmt.Printf("\nPostgreSQL to a consumer of RabbitMQ (river has no broker). Bodies of %d B, quorum queue; %d rounds of %d messages, and of %v with %d transactions in a second, in rotated order.\n",
		*size, *rounds, *messages, *lasting, *rate)
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "contender\tmessages/s\t(min–max)\t× forwarder\tcommit to consumer p50 ms\tp99 ms\t")
	for _, c := range all {
		r := results[c.name]
		fmt.Fprintf(w, "%s\t%.0f\t(%.0f–%.0f)\t%s\t%.1f\t%.1f\t\n", c.name, median(r.rates), slices.Min(r.rates), slices.Max(r.rates),
			times(r, results["watermill forwarder"]), median(r.p50), median(r.p99))
	}
	_ = w.Flush()
	if *judge {
		judgeRelaying(t, results)
	}
}

func (b *bench) measure(ctx context.Context, c contender, round int, r *result) error {
	ctx, cancel := context.WithTimeout(ctx, timeLimit)
	defer cancel()
	line, err := c.open(b, fmt.Sprintf("throughput-%d", round))
	if err != nil {
		return err
	}
	perSecond, err := throughput(ctx, line)
	if err != nil {
		return err
	}
	if line, err = c.open(b, fmt.Sprintf("latency-%d", round)); err != nil {
		return err
	}
	took, err := latencies(ctx, line)
	if err != nil {
		return err
	}
	r.rates = append(r.rates, perSecond)
	r.p50 = append(r.p50, milliseconds(took[len(took)/2]))
	r.p99 = append(r.p99, milliseconds(took[len(took)*99/100]))
	return nil
}

// judgeRelaying holds what was measured against the goals.
func judgeRelaying(t *testing.T, results map[string]*result) {
	t.Helper()
	ours, theirs := results["rehop"], results["watermill forwarder"]
	if ours == nil || theirs == nil {
		t.Fatal("-judge needs rehop and the forwarder")
	}
	if factor := ratio(ours, theirs); factor < 3 {
		t.Errorf("rate: got %.2f times that of the forwarder, want at least 3", factor)
	}
	if p50 := median(ours.p50); p50 >= 20 {
		t.Errorf("p50 from commit to consumer: got %.1f ms, want less than 20 ms", p50)
	}
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// ratio is the median of the ratios within each round, which noise that lasts longer than a round does not touch.
func ratio(r, base *result) float64 {
	ratios := make([]float64, len(r.rates))
	for i := range ratios {
		ratios[i] = r.rates[i] / base.rates[i]
	}
	return median(ratios)
}

func times(r, base *result) string {
	if base == nil {
		return "–"
	}
	return fmt.Sprintf("%.2f", ratio(r, base))
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}
