package subscribing

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/layout"
)

// textless is an error that cannot be asked for its text when it is nil.
type textless struct{ text string }

func (e *textless) Error() string { return e.text }

// rude are errors whose methods panic.
type rudeUnwrap struct{}

func (rudeUnwrap) Error() string { return "rude" }
func (rudeUnwrap) Unwrap() error { panic("unwrap") }

type rudeAs struct{}

func (rudeAs) Error() string { return "rude" }
func (rudeAs) As(any) bool   { panic("as") }

type rudeIs struct{}

func (rudeIs) Error() string { return "rude" }
func (rudeIs) Is(error) bool { panic("is") }

// An error that panics when it is looked at is as good as a panic of the handler.
func TestErrorsThatPanic(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]error{
		"typed nil": (*textless)(nil), "typed nil in an instruction": rehop.RetryAfter(100*time.Millisecond, (*textless)(nil)),
		"Unwrap": rudeUnwrap{}, "As": rudeAs{}, "Is": rudeIs{},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, ch, rec, c := kit.Setup(t)
			kit.Subscribe(t, c, rehop.Subscriber{Queue: "q", Retry: rehop.Steps(100 * time.Millisecond),
				Handler: rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
					if d.Type == "good" {
						return nil
					}
					return answer
				})})
			kit.Publish(t, c, rehop.Message{ID: "bad", Key: "q"})
			for _, want := range []rehop.Outcome{rehop.OutcomeRetry, rehop.OutcomeFailed} {
				if got := kit.Receive(t, rec.Results, "result"); got.Outcome != want || got.Kind != "panic" {
					t.Errorf("result: got %s, kind %s; want %s, panic", got.Outcome, got.Kind, want)
				}
			}
			d := kit.Take(t, ch, "q.failed")
			if f := kit.Failure(d); d.MessageId != "bad" || f.Kind != "panic" || f.Attempt != 2 {
				t.Errorf("failed message: got %q, kind %s, attempt %d; want bad, panic, 2", d.MessageId, f.Kind, f.Attempt)
			}
			kit.Publish(t, c, rehop.Message{Key: "q", Type: "good"})
			if got := kit.Receive(t, rec.Results, "result of a good message"); got.Outcome != rehop.OutcomeDone {
				t.Errorf("result of a good message: got %s (%v), want done", got.Outcome, got.Err)
			}
		})
	}
}

func TestExchangeOfTwoKinds(t *testing.T) {
	t.Parallel()
	r := lab.Single(t)
	c, err := rehop.Open(kit.Context(t), rehop.Config{URL: r.URL, Exchanges: []rehop.Exchange{{Name: "order"}, {Name: "order", Type: "direct"}}})
	if err == nil {
		_ = c.Close(kit.Context(t))
	}
	if err == nil || !strings.Contains(err.Error(), `"order"`) || !strings.Contains(err.Error(), "direct") {
		t.Errorf("two kinds: got %v, want an error that names the exchange and its kinds", err)
	}
	// The same twice is no fault.
	kit.OpenQuick(t, r, rehop.Config{Exchanges: []rehop.Exchange{{Name: "order"}, {Name: "order", Type: "topic"}}})
}

// Rehop's own queues are not for subscriptions.
func TestOwnQueuesAreRefused(t *testing.T) {
	t.Parallel()
	c := kit.OpenQuick(t, lab.Single(t), rehop.Config{})
	for _, queue := range []string{layouts.OrphansQueue, layouts.UnroutedQueue, layouts.StepQueue(10 * time.Second)} {
		for _, passive := range []bool{false, true} {
			_, err := c.Subscribe(kit.Context(t), rehop.Subscriber{Queue: queue, ExistingQueue: passive, Handler: kit.Nop})
			if err == nil || !strings.Contains(err.Error(), queue) || !strings.Contains(err.Error(), "belong to rehop") {
				t.Errorf("subscribe to %s, passive %v: got %v, want an error that says whose it is", queue, passive, err)
			}
		}
	}
}

// Not even in its first moments does the active consumer give way to the next while it has a message.
func TestSingleActiveFromTheStart(t *testing.T) {
	t.Parallel()
	const messages = 10
	kit.EachType(t, func(t *testing.T, kind layout.QueueType) {
		for name, s := range map[string]rehop.Subscriber{
			"option":   {SingleActiveConsumer: true},
			"argument": {QueueArgs: map[string]any{"x-single-active-consumer": true}},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				r := lab.Single(t)
				var inside crowd
				done := make(chan string, messages)
				s.Queue, s.QueueType = "q", kind
				s.Handler = rehop.HandlerFunc(func(ctx context.Context, d *rehop.Delivery) error {
					inside.enter()
					defer inside.leave()
					select { // so that another one would be seen
					case <-time.After(100 * time.Millisecond):
					case <-ctx.Done():
					}
					done <- d.ID
					return nil
				})
				a, b := kit.OpenQuick(t, r, rehop.Config{}), kit.OpenQuick(t, r, rehop.Config{})
				kit.Subscribe(t, a, s)
				kit.Subscribe(t, b, s)
				batch := kit.Numbered("q", messages)
				kit.Publish(t, a, batch...)
				for _, m := range batch {
					if got := kit.Receive(t, done, "message handled"); got != m.ID {
						t.Errorf("order: got message %s, want %s", got, m.ID)
					}
				}
				if got := inside.most(); got != 1 {
					t.Errorf("handlers at once: got %d, want 1", got)
				}
			})
		}
	})
}

// Whoever calls Close may end the process when it returns, the second one as well.
func TestEveryCloseWaits(t *testing.T) {
	t.Parallel()
	const closers = 3
	c := kit.OpenQuick(t, lab.Single(t), rehop.Config{})
	began, end := make(chan struct{}), make(chan struct{})
	var finished atomic.Bool
	kit.Subscribe(t, c, rehop.Subscriber{Queue: "q", Handler: rehop.HandlerFunc(func(context.Context, *rehop.Delivery) error {
		close(began)
		<-end
		finished.Store(true)
		return nil
	})})
	kit.Publish(t, c, rehop.Message{Key: "q"})
	kit.Receive(t, began, "handler called")
	closed := make(chan error, closers)
	for range closers {
		go func() {
			err := c.Close(kit.Context(t))
			if !finished.Load() {
				err = errors.Join(err, errors.New("it returned while a handler ran"))
			}
			closed <- err
		}()
	}
	select {
	case err := <-closed:
		t.Errorf("close before the handler's end: got %v, want it to wait", err)
	case <-time.After(300 * time.Millisecond):
	}
	// One whose time is up does not wait longer than that, and cuts nobody else short.
	if err := c.Close(kit.Timeout(t, 50*time.Millisecond)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("close with a deadline: got %v, want %v", err, context.DeadlineExceeded)
	}
	close(end)
	for range closers {
		if err := kit.Receive(t, closed, "close"); err != nil {
			t.Errorf("close: got %v, want nil", err)
		}
	}
	if err := c.Close(kit.Context(t)); err != nil {
		t.Errorf("close of a closed client: got %v, want nil", err)
	}
}
