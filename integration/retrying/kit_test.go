// Package retrying tests on a real RabbitMQ how failed messages wait, return and rest.
package retrying

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/integration/lab"
	"github.com/rehop/rehop/internal/envelope"
	"github.com/rehop/rehop/internal/rabbit"
)

func TestMain(m *testing.M) {
	if os.Getenv(childURL) != "" {
		child()
		return
	}
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given { // these tests wait for the broker much more than they compute
		_ = flag.Set("test.parallel", "16")
	}
	os.Exit(m.Run())
}

// patience is how long a test waits for what must happen.
const patience = 15 * time.Second

func timeLimit(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// open is a client that is closed with the test.
func open(t testing.TB, r *lab.Rabbit, config rehop.Config) *rehop.Client {
	t.Helper()
	config.URL = r.URL
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	config.ReconnectMin, config.ReconnectMax = 20*time.Millisecond, 100*time.Millisecond
	c, err := rehop.Open(timeLimit(t), config)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = c.Close(ctx)
	})
	return c
}

func subscribe(t testing.TB, c *rehop.Client, s rehop.Subscription) *rehop.Subscriber {
	t.Helper()
	sub, err := c.Subscribe(timeLimit(t), s)
	if err != nil {
		t.Fatalf("subscribe to %q: %v", s.Queue, err)
	}
	return sub
}

func publish(t testing.TB, c *rehop.Client, messages ...rehop.Message) {
	t.Helper()
	if err := c.PublishBatch(timeLimit(t), messages); err != nil {
		t.Fatalf("publish: %v", err)
	}
}

// numbered are n messages for a queue whose ids and bodies are 0, 1, 2, …
func numbered(queue string, n int) []rehop.Message {
	messages := make([]rehop.Message, n)
	for i := range messages {
		messages[i] = rehop.Message{ID: strconv.Itoa(i), Key: queue, Body: []byte(strconv.Itoa(i))}
	}
	return messages
}

// receive waits for a value.
func receive[T any](t testing.TB, from <-chan T, what string) T {
	t.Helper()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case v := <-from:
		return v
	case <-timer.C:
		t.Fatalf("after %v still not: %s", patience, what)
		panic("unreachable")
	}
}

// take waits for a message in a queue and removes it.
func take(t testing.TB, ch *amqp.Channel, queue string) amqp.Delivery {
	t.Helper()
	var d amqp.Delivery
	lab.Eventually(t, patience, "a message in "+queue, func() bool {
		got, ok, err := ch.Get(queue, true)
		if err != nil {
			t.Fatalf("get from %q: %v", queue, err)
		}
		d = got
		return ok
	})
	return d
}

// failure is what a message in a failed queue says about itself.
func failure(d amqp.Delivery) envelope.Failure {
	return envelope.ReadDead(rabbit.FromTable(d.Headers), d.Exchange, d.RoutingKey)
}

// wantDepth waits until a queue has exactly n ready messages.
func wantDepth(t testing.TB, r *lab.Rabbit, ch *amqp.Channel, queue string, n int) {
	t.Helper()
	got := -1
	defer func() {
		if got != n {
			t.Errorf("queue %q: got %d ready messages, want %d", queue, got, n)
		}
	}()
	lab.Eventually(t, patience, fmt.Sprintf("%d messages in %q", n, queue), func() bool {
		got = r.Depth(ch, queue)
		return got == n
	})
}

// handled is one call of OnHandled.
type handled struct {
	ctx context.Context
	d   *rehop.Delivery
	rehop.Result
}

// recorder is a hook that keeps everything it is told.
type recorder struct {
	results   chan handled
	states    chan rehop.StateChange
	consumers chan rehop.ConsumerEvent
	stuck     chan rehop.StuckHandler
	pauses    chan rehop.PauseEvent
}

func newRecorder() *recorder {
	const room = 10_000
	return &recorder{
		results: make(chan handled, room), states: make(chan rehop.StateChange, room), consumers: make(chan rehop.ConsumerEvent, room),
		stuck: make(chan rehop.StuckHandler, room), pauses: make(chan rehop.PauseEvent, room),
	}
}

func (r *recorder) OnHandled(ctx context.Context, d *rehop.Delivery, result rehop.Result) {
	r.results <- handled{ctx, d, result}
}
func (r *recorder) OnState(s rehop.StateChange)      { r.states <- s }
func (r *recorder) OnConsumer(e rehop.ConsumerEvent) { r.consumers <- e }
func (r *recorder) OnStuck(s rehop.StuckHandler)     { r.stuck <- s }
func (r *recorder) OnPause(e rehop.PauseEvent)       { r.pauses <- e }

// tally counts by name.
type tally struct {
	mu     sync.Mutex
	counts map[string]int
}

func (c *tally) add(name string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.counts == nil {
		c.counts = make(map[string]int)
	}
	c.counts[name]++
	return c.counts[name]
}

func (c *tally) len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.counts)
}

func (c *tally) of(name string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.counts[name]
}

func (c *tally) sum() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for _, k := range c.counts {
		n += k
	}
	return n
}
