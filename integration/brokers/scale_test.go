package brokers

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// The sizes of the scale tests. Without flags they are small; make scale has the real ones.
var (
	waiting   = flag.Int("waiting", 20_000, "messages of 1 KiB that wait in a durable queue")
	delayed   = flag.Int("delayed", 5_000, "delayed messages")
	returns   = flag.Int("returns", 10_000, "delayed messages that return per second")
	manyQueue = flag.Int("queues", 200, "queues at most")
	manyConn  = flag.Int("connections", 50, "connections at most")
	judge     = flag.Bool("judge", false, "judge times and memory, which needs a machine that does nothing else")
)

// fill publishes n messages of a size and returns when all are confirmed.
func fill(ctx context.Context, cl *client, n int, message func(i int) (key string, msg amqp.Publishing)) error {
	if err := cl.ch.Confirm(false); err != nil {
		return err
	}
	const window = 4096
	pending := make(chan *amqp.DeferredConfirmation, window)
	failed := make(chan error, 1)
	go func() {
		defer close(failed)
		for c := range pending {
			if acked, err := c.WaitContext(ctx); err != nil || !acked {
				failed <- errors.Join(fmt.Errorf("message %d is not confirmed", c.DeliveryTag), err)
				return
			}
		}
	}()
	for i := range n {
		key, msg := message(i)
		c, err := cl.ch.PublishWithDeferredConfirmWithContext(ctx, "", key, true, false, msg)
		if err != nil {
			close(pending)
			return errors.Join(err, <-failed)
		}
		select {
		case pending <- c:
		case err := <-failed:
			return err
		}
	}
	close(pending)
	return <-failed
}

// TestWaiting: a long queue is on disk, and a restart does not take long.
func TestWaiting(t *testing.T) {
	b := start(t)
	cl, err := dial(t.Context(), b.url)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cl.ch.QueueDeclare("waiting", true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	body := make([]byte, 1<<10)
	began := time.Now()
	if err := fill(t.Context(), cl, *waiting, func(int) (string, amqp.Publishing) {
		return "waiting", amqp.Publishing{DeliveryMode: amqp.Persistent, Body: body}
	}); err != nil {
		t.Fatal(err)
	}
	took := time.Since(began)
	const bound = 400 << 20
	rss := b.resident(t)
	t.Logf("%d messages of 1 KiB in %v (%.0f/s), resident %d MiB", *waiting, took.Round(time.Millisecond), float64(*waiting)/took.Seconds(), rss>>20)
	if *judge && rss > bound {
		t.Errorf("resident %d MiB with %d messages waiting, want at most %d", rss>>20, *waiting, bound>>20)
	}
	cl.close()
	for _, how := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		if err := b.stop(how); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		b.run(t)
		cl, err := dial(t.Context(), b.url)
		if err != nil {
			t.Fatal(err)
		}
		q, err := cl.ch.QueueDeclarePassive("waiting", true, false, false, false, nil)
		if err != nil {
			t.Fatal(err)
		}
		took := time.Since(began)
		rss := b.resident(t)
		t.Logf("after %v: back in %v with %d messages, resident %d MiB", how, took.Round(time.Millisecond), q.Messages, rss>>20)
		if q.Messages != *waiting {
			t.Errorf("after %v: got %d messages, want %d", how, q.Messages, *waiting)
		}
		if *judge && took > 3*time.Second {
			t.Errorf("after %v: the restart took %v, want at most 3 s", how, took)
		}
		if *judge && rss > bound {
			t.Errorf("after %v: resident %d MiB, want at most %d", how, rss>>20, bound>>20)
		}
		cl.close()
	}
}

// TestDelayed: many delayed messages return when they should.
func TestDelayed(t *testing.T) {
	b := start(t)
	cl, err := dial(t.Context(), b.url)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.close()
	declare := func(name string, args amqp.Table) {
		if _, err := cl.ch.QueueDeclare(name, true, false, false, false, args); err != nil {
			t.Fatal(err)
		}
	}
	// All are there before the first returns, and then they return at a steady rate. A machine that is too slow for that gets more time.
	var back string
	prepare := time.Duration(*delayed)*50*time.Microsecond + 2*time.Second
	body := make([]byte, 256)
	for round := 1; ; round++ {
		delay := fmt.Sprintf("delay-%d", round)
		back = fmt.Sprintf("back-%d", round)
		declare(back, nil)
		declare(delay, amqp.Table{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": back})
		first := time.Now().Add(prepare)
		if err := fill(t.Context(), cl, *delayed, func(i int) (string, amqp.Publishing) {
			due := first.Add(time.Duration(i) * time.Second / time.Duration(*returns))
			ttl := max(time.Until(due).Milliseconds(), 0)
			// What the rounding to milliseconds has taken is not the broker's.
			expected := time.Now().Add(time.Duration(ttl) * time.Millisecond)
			return delay, amqp.Publishing{DeliveryMode: amqp.Persistent, Body: body, Expiration: strconv.FormatInt(ttl, 10), MessageId: strconv.FormatInt(expected.UnixNano(), 10)}
		}); err != nil {
			t.Fatal(err)
		}
		late := time.Since(first)
		if late <= 0 {
			break
		}
		t.Logf("publishing took %v longer than %v: not all messages were waiting at once; again with more time", late, prepare)
		prepare = 2 * (prepare + late)
	}
	rss := b.resident(t)
	consumer, err := dial(t.Context(), b.url)
	if err != nil {
		t.Fatal(err)
	}
	defer consumer.close()
	if err := consumer.ch.Qos(2000, 0, false); err != nil {
		t.Fatal(err)
	}
	deliveries, err := consumer.ch.Consume(back, "", false, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	lateness := make([]time.Duration, 0, *delayed)
	for range *delayed {
		d := <-deliveries
		at, err := strconv.ParseInt(d.MessageId, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		late := time.Since(time.Unix(0, at))
		if late < -2*time.Millisecond {
			t.Fatalf("a message came %v early", -late)
		}
		lateness = append(lateness, late)
		if err := d.Ack(false); err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(lateness)
	p50, p99 := lateness[len(lateness)/2], lateness[len(lateness)*99/100]
	t.Logf("%d delayed messages back at %d/s: late p50 %v, p99 %v, most %v; resident %d MiB while they waited",
		*delayed, *returns, p50.Round(time.Microsecond), p99.Round(time.Microsecond), lateness[len(lateness)-1].Round(time.Microsecond), rss>>20)
	if *judge && p99 > 100*time.Millisecond {
		t.Errorf("p99 late %v, want at most 100 ms", p99)
	}
}

// TestMany: how throughput falls with more queues and more connections.
func TestMany(t *testing.T) {
	for _, n := range []int{1, *manyQueue / 100, *manyQueue} {
		many(t, max(n, 1), 8)
	}
	for _, n := range []int{2, *manyConn / 50, *manyConn} {
		many(t, max(n/2, 1), max(n, 2))
	}
}

// many publishes to some queues by half of the connections and consumes from them by the others.
func many(t *testing.T, queues, all int) {
	b := start(t)
	connections := all / 2
	clients := make([]*client, 2*connections)
	for i := range clients {
		var err error
		if clients[i], err = dial(t.Context(), b.url); err != nil {
			t.Fatal(err)
		}
	}
	defer func() {
		for _, cl := range clients {
			cl.close()
		}
	}()
	name := func(i int) string { return fmt.Sprintf("many-%d", i%queues) }
	for i := range queues {
		if _, err := clients[0].ch.QueueDeclare(name(i), true, false, false, false, nil); err != nil {
			t.Fatal(err)
		}
	}
	total := *messages / connections * connections
	var group sync.WaitGroup
	got := make(chan struct{}, 1024)
	for i := range max(queues, connections) {
		cl := clients[connections+i%connections]
		deliveries, err := cl.ch.Consume(name(i), "", false, false, false, false, nil)
		if err != nil {
			t.Fatal(err)
		}
		group.Go(func() {
			for d := range deliveries {
				_ = d.Ack(false)
				got <- struct{}{}
			}
		})
	}
	body := make([]byte, *size)
	began := time.Now()
	errs := make(chan error, connections)
	for c := range connections {
		go func() {
			errs <- fill(t.Context(), clients[c], total/connections, func(i int) (string, amqp.Publishing) {
				return name(c + i*connections), amqp.Publishing{DeliveryMode: amqp.Persistent, Body: body}
			})
		}()
	}
	for range total {
		<-got
	}
	took := time.Since(began)
	for range connections {
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%5d queues, %4d connections: %6.0f msgs/s published, confirmed, consumed and acked; resident %d MiB", queues, all, float64(total)/took.Seconds(), b.resident(t)>>20)
	for _, cl := range clients {
		cl.close()
	}
	group.Wait()
}
