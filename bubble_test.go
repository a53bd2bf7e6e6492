package rehop_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/broker"
	"github.com/rehop/rehop/rehoptest"
)

// inBubble runs a test in virtual time, on a broker of its own: what takes hours takes milliseconds, and what happens happens at exact
// times.
func inBubble(t *testing.T, test func(t *testing.T, b *rehoptest.Broker), options ...rehoptest.Option) {
	t.Helper()
	began := time.Now()
	synctest.Test(t, func(t *testing.T) {
		clock := startClock()
		test(t, rehoptest.Open(t, options...))
		t.Logf("%v of virtual time", clock.now())
	})
	t.Logf("%v of real time", time.Since(began))
}

// withHeartbeat sets the heartbeat of both sides.
func withHeartbeat(d time.Duration) rehoptest.Option {
	server, client := rehoptest.WithServer(func(s *broker.Server) { s.Heartbeat = d }), rehoptest.WithConfig(func(c *rehop.Config) { c.Heartbeat = d })
	return rehoptest.Options(server, client)
}

// clock returns the time since the test began.
type clock struct{ began time.Time }

func startClock() clock { return clock{time.Now()} }

func (c clock) now() time.Duration { return time.Since(c.began) }

// run is one run of a handler.
type run struct {
	at time.Duration
	rehop.Delivery
}

// logbook is a handler that writes down its runs and answers by a function.
type logbook struct {
	clock
	answer func(ctx context.Context, d *rehop.Delivery) error
	mu     sync.Mutex
	runs   []run
}

func newLogbook(answer func(ctx context.Context, d *rehop.Delivery) error) *logbook {
	return &logbook{clock: startClock(), answer: answer}
}

func (l *logbook) Handle(ctx context.Context, d *rehop.Delivery) error {
	l.mu.Lock()
	l.runs = append(l.runs, run{l.now(), *d})
	l.mu.Unlock()
	return l.answer(ctx, d)
}

// all returns the runs so far.
func (l *logbook) all() []run {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]run(nil), l.runs...)
}

// times returns when the runs began.
func (l *logbook) times() (at []time.Duration) {
	for _, r := range l.all() {
		at = append(at, r.at)
	}
	return at
}

var errNotYet = errors.New("not yet")

func fail(context.Context, *rehop.Delivery) error { return errNotYet }

func subscribe(t *testing.T, c *rehop.Client, s rehop.Subscriber) *rehop.Subscription {
	t.Helper()
	sub, err := c.Subscribe(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return sub
}

func publish(t *testing.T, c *rehop.Client, m rehop.Message) {
	t.Helper()
	if err := c.Publish(t.Context(), m); err != nil {
		t.Fatal(err)
	}
}

// within checks that something happened in a span of time, ends included.
func within(t *testing.T, what string, got, from, to time.Duration) {
	t.Helper()
	if got < from || got > to {
		t.Errorf("%s: got %v, want from %v to %v", what, got, from, to)
	}
}
