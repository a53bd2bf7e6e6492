package connections

import (
	"context"
	"errors"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
)

func TestStates(t *testing.T) {
	t.Parallel()
	r := lab.Single(t)
	w, e := &kit.Wire{}, &events{}
	c := kit.Open(t, rehop.Config{URL: r.URL, Dial: w.Dial, Hooks: []rehop.Hook{e}})
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

// A memory alarm: the broker takes no more messages, and consumers go on.
func TestBlocked(t *testing.T) {
	t.Parallel()
	r := lab.Alone(t) // it changes the whole node
	ch := r.Channel()
	watermark := func(args ...string) {
		r.Services(append([]string{"ctl", "single", "set_vm_memory_high_watermark"}, args...)...)
	}
	kit.Queue(t, ch, "sink", nil)
	openOne := func(config rehop.Config) (*rehop.Client, *events) {
		e := &events{}
		config.URL, config.Hooks = r.URL, []rehop.Hook{e}
		c := kit.Open(t, config)
		kit.Publish(t, c, rehop.Message{Key: "sink"})
		return c, e
	}
	a, ea := openOne(rehop.Config{})
	few, efew := openOne(rehop.Config{MaxWaiting: 3})
	small, esmall := openOne(rehop.Config{MaxWaitingBytes: 10_000})

	// Handlers that have messages in hand when the alarm begins.
	begun, finish := make(chan struct{}, 10), make(chan struct{})
	sub := kit.Subscribe(t, a, rehop.Subscription{Queue: "q", Concurrency: 5, Handler: rehop.HandlerFunc(func(context.Context, *rehop.Delivery) error {
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
	watermark("absolute", "1MB")
	alarmed()

	// The broker tells a connection that it is blocked when that one next publishes; this message is
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
	if _, err := a.Subscribe(kit.Context(t), rehop.Subscription{Queue: "q2", Handler: kit.Into(got)}); err != nil {
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

	watermark("0.4")
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
