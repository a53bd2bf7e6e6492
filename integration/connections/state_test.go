package connections

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
	"github.com/rehop/rehop/layout"
)

func TestStates(t *testing.T) {
	t.Parallel()
	r := lab.Single(t)
	w, e := &kit.Wire{}, &events{}
	c := kit.Open(t, rehop.Config{URL: r.URL, Dial: w.Dial, Hooks: e.hooks()})
	want := func(s rehop.State) {
		t.Helper()
		if got := c.State(); got != s {
			t.Errorf("got state %s, want %s", got, s)
		}
	}
	want(rehop.StateOpen)
	e.await(t, "both open", func() bool { return e.in("publish", rehop.StateOpen) == 1 && e.in("consume", rehop.StateOpen) == 1 })
	for _, role := range []string{"publish", "consume"} {
		w.Lead(closedPort(t))
		_ = w.Newest(t, role).Close()
		e.await(t, role+" recovering", func() bool { return e.in(role, rehop.StateRecovering) > 0 })
		want(rehop.StateRecovering)
		w.Lead(host(t, r.URL))
		e.await(t, role+" open again", func() bool { return e.in(role, rehop.StateOpen) == 2 })
		lab.Eventually(t, kit.Limit, "open again", func() bool { return c.State() == rehop.StateOpen })
	}
	if err := c.Close(kit.Context(t)); err != nil {
		t.Error(err)
	}
	want(rehop.StateClosed)
	e.await(t, "both closed", func() bool { return e.in("publish", rehop.StateClosed) == 1 && e.in("consume", rehop.StateClosed) == 1 })
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, s := range e.states {
		if (s.Err == nil) != (s.State == rehop.StateOpen) {
			t.Errorf("%s %s: got error %v; want a reason for all states but OPEN", s.Connection, s.State, s.Err)
		}
	}
}

// watermark sets how much memory the broker may use before it raises an alarm.
func watermark(r *lab.Rabbit, args ...string) {
	r.Services(append([]string{"ctl", "single", "set_vm_memory_high_watermark"}, args...)...)
}

// Close does not wait for the end of an alarm, although messages that have failed cannot leave their queues: they are there again
// afterwards.
func TestCloseDuringAlarm(t *testing.T) {
	t.Parallel()
	r := lab.Alone(t) // it changes the whole node
	ch := r.Channel()
	kit.Queue(t, ch, "sink", nil)
	c := kit.Open(t, rehop.Config{URL: r.URL})
	const messages = 5
	queues := map[string]layout.QueueType{"classic": layout.Classic, "quorum": layout.Quorum}
	begun, finish := make(chan struct{}, 2*messages), make(chan struct{})
	for queue, kind := range queues {
		kit.Subscribe(t, c, rehop.Subscriber{Queue: queue, QueueType: kind, Concurrency: messages, Handler: rehop.HandlerFunc(func(context.Context, *rehop.Delivery) error {
			begun <- struct{}{}
			<-finish
			return errors.New("not yet")
		})})
		for range messages {
			kit.Publish(t, c, rehop.Message{Key: queue})
		}
	}
	for range 2 * messages {
		kit.Receive(t, begun, "start of a handler")
	}
	alarmed := awaitAlarm(t, r.URL)
	watermark(r, "absolute", "1MB")
	alarmed()
	close(finish)
	closed := make(chan error, 1)
	go func() { closed <- c.Close(context.Background()) }()
	err := kit.Receive(t, closed, "end of Close during the alarm")
	for queue := range queues {
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%q: failed messages", queue)) {
			t.Errorf("close: got %v, want an error that names queue %q", err, queue)
		}
	}
	watermark(r, "0.4")
	ids := make(chan string, 4*messages)
	again := kit.Open(t, rehop.Config{URL: r.URL})
	seen := make(map[string]bool)
	for queue, kind := range queues {
		kit.Subscribe(t, again, rehop.Subscriber{Queue: queue, QueueType: kind, Handler: rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
			ids <- d.ID
			return nil
		})})
	}
	for len(seen) < 2*messages {
		seen[kit.Receive(t, ids, "a message after the alarm")] = true
	}
}

// A memory alarm: the broker accepts no more messages, and consumers continue.
func TestBlocked(t *testing.T) {
	t.Parallel()
	r := lab.Alone(t) // it changes the whole node
	ch := r.Channel()
	kit.Queue(t, ch, "sink", nil)
	openOne := func(config rehop.Config) (*rehop.Client, *events) {
		e := &events{}
		config.URL, config.Hooks = r.URL, e.hooks()
		c := kit.Open(t, config)
		kit.Publish(t, c, rehop.Message{Key: "sink"})
		return c, e
	}
	a, ea := openOne(rehop.Config{})
	few, efew := openOne(rehop.Config{MaxWaiting: 3})
	small, esmall := openOne(rehop.Config{MaxWaitingBytes: 10_000})

	// Handlers that are running when the alarm begins.
	begun, finish := make(chan struct{}, 10), make(chan struct{})
	sub := kit.Subscribe(t, a, rehop.Subscriber{Queue: "q", Concurrency: 5, Handler: rehop.HandlerFunc(func(context.Context, *rehop.Delivery) error {
		begun <- struct{}{}
		<-finish
		return nil
	})})
	for range 5 {
		kit.Publish(t, a, rehop.Message{Key: "q"})
	}
	for range 5 {
		<-begun
	}

	alarmed := awaitAlarm(t, r.URL)
	watermark(r, "absolute", "1MB")
	alarmed()

	// The broker notifies a connection that it is blocked when that one next publishes; this message is
	// sent, and confirmed when the broker has read it: at once, or when the alarm is over.
	results, firsts := make(chan error, 100), make(chan error, 3)
	start := func(c *rehop.Client, m rehop.Message, results chan<- error) {
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), 3*kit.Limit)
			defer cancel()
			results <- c.Publish(ctx, m)
		}()
	}
	for _, c := range []*rehop.Client{a, few, small} {
		start(c, rehop.Message{ID: "first", Key: "sink"}, firsts)
	}
	for _, e := range []*events{ea, efew, esmall} {
		e.await(t, "blocked", func() bool { return e.in("publish", rehop.StateBlocked) == 1 })
	}
	if got := a.State(); got != rehop.StateBlocked {
		t.Errorf("got state %s, want %s", got, rehop.StateBlocked)
	}

	began := time.Now()
	err := a.Publish(kit.Timeout(t, 300*time.Millisecond), rehop.Message{Key: "sink"})
	if !errors.Is(err, rehop.ErrBlocked) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("while blocked: got %v, want %v by the deadline", err, rehop.ErrBlocked)
	}
	if errors.Is(err, rehop.ErrUnknown) {
		t.Errorf("while blocked: got %v, which is also unknown; want it not sent", err)
	}
	if took := time.Since(began); took < 300*time.Millisecond {
		t.Errorf("while blocked: returned after %v, want 0.3 s at least", took)
	}
	err = a.PublishBatch(kit.Timeout(t, 300*time.Millisecond), []rehop.Message{{Key: "sink"}, {Key: "sink"}})
	if !errors.Is(err, rehop.ErrBlocked) {
		t.Errorf("batch while blocked: got %v, want %v", err, rehop.ErrBlocked)
	}
	delayed := make(chan error, 1)
	go func() {
		delayed <- a.Publish(kit.Timeout(t, 300*time.Millisecond), rehop.Message{Key: "sink", Delay: time.Second})
	}()
	if err := kit.Receive(t, delayed, "end of a delayed message while blocked"); !errors.Is(err, rehop.ErrBlocked) {
		t.Errorf("delayed message while blocked: got %v, want %v", err, rehop.ErrBlocked)
	}

	// Ten more wish to wait; as many as may, do.
	refused := func(what string, n int) {
		t.Helper()
		for i := range n {
			select {
			case err := <-results:
				if !errors.Is(err, rehop.ErrBlocked) || errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%s: got %v, want %v at once", what, err, rehop.ErrBlocked)
				}
			case <-time.After(kit.Limit): // those that wait do so for longer
				t.Fatalf("%s: got %d refusals, want %d", what, i, n)
			}
		}
	}
	for range 10 {
		start(few, rehop.Message{ID: "waiting", Key: "sink"}, results)
	}
	refused("with MaxWaiting 3", 7)
	for range 5 {
		start(small, rehop.Message{Key: "sink", Body: make([]byte, 4000)}, results) // two fit into 10,000
	}
	refused("with MaxWaitingBytes", 3)

	// Handlers finish, and the broker takes their acks.
	close(finish)
	kit.Drain(t, sub)
	if n := r.Depth(ch, "q"); n != 0 {
		t.Errorf("got %d messages that were not acked while blocked, want 0", n)
	}
	// New subscriptions and clients are possible.
	got := make(chan *rehop.Delivery, 10)
	if _, err := a.Subscribe(kit.Context(t), rehop.Subscriber{Queue: "q2", Handler: kit.Into(got)}); err != nil {
		t.Errorf("subscribe while blocked: %v", err)
	}
	late := kit.Open(t, rehop.Config{URL: r.URL, Exchanges: []rehop.Exchange{{Name: "late"}}})
	// Close does not wait for the end of the alarm.
	go func() { _ = late.Publish(context.Background(), rehop.Message{Key: "sink"}) }()
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		_ = late.Close(kit.Timeout(t, 300*time.Millisecond))
	}()
	kit.Receive(t, closed, "end of Close while blocked")

	watermark(r, "0.4")
	for range 3 + 2 {
		if err := kit.Receive(t, results, "a message that waited is published after the alarm"); err != nil {
			t.Errorf("after the alarm: got %v, want nil", err)
		}
	}
	for range 3 {
		if err := kit.Receive(t, firsts, "a message is published that was sent when the alarm began"); err != nil {
			t.Errorf("message that was sent when the alarm began: got %v, want nil", err)
		}
	}
	for _, e := range []*events{ea, efew, esmall} {
		e.await(t, "open again", func() bool { return e.in("publish", rehop.StateOpen) == 2 && e.in("publish", rehop.StateBlocked) == 1 })
		if n := e.in("consume", rehop.StateBlocked); n != 0 {
			t.Errorf("the consuming connection was blocked %d times, want 0", n)
		}
	}
	if got := a.State(); got != rehop.StateOpen {
		t.Errorf("got state %s, want %s", got, rehop.StateOpen)
	}
	kit.Publish(t, a, rehop.Message{Key: "q2"})
	kit.Receive(t, got, "message")
}

// awaitAlarm opens a connection, and returns a function that waits until the broker blocks it. That an alarm is set reaches the
// connections a moment later, and a message that is sent before that blocks nobody.
func awaitAlarm(t *testing.T, url string) func() {
	t.Helper()
	conn, err := amqp.Dial(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	blocked := conn.NotifyBlocked(make(chan amqp.Blocking, 2))
	return func() {
		t.Helper()
		lab.Eventually(t, kit.Limit, "a connection that publishes is blocked", func() bool {
			if err := ch.PublishWithContext(kit.Context(t), "", "sink", false, false, amqp.Publishing{}); err != nil {
				t.Fatal(err)
			}
			return len(blocked) > 0
		})
	}
}
