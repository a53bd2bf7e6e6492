package rehop_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/rehoptest"
)

// runBook counts begins and ends of runs, and has the error of each end.
type runBook struct {
	mu     sync.Mutex
	begun  int
	ends   []error
	result []rehop.Result
}

func (b *runBook) hooks() rehop.Hooks {
	return rehop.Hooks{
		OnHandleStart: func(ctx context.Context, _ *rehop.Delivery) context.Context {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.begun++
			return ctx
		},
		OnHandleEnd: func(_ context.Context, _ *rehop.Delivery, _ time.Duration, err error) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.ends = append(b.ends, err)
		},
		OnResult: func(_ context.Context, _ *rehop.Delivery, r rehop.Result) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.result = append(b.result, r)
		},
	}
}

// watch has a broker's client count its runs.
func (b *runBook) watch() rehoptest.Option {
	return rehoptest.WithConfig(func(c *rehop.Config) { c.Hooks = append(c.Hooks, b.hooks()) })
}

// want checks what became of deliveries, one after the other, and that each run that began has ended once.
func (b *runBook) want(t *testing.T, runs int, outcomes ...rehop.Outcome) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.begun != runs || len(b.ends) != runs {
		t.Errorf("runs: got %d begun and %d ended, want %d of both", b.begun, len(b.ends), runs)
	}
	var got []rehop.Outcome
	for _, r := range b.result {
		got = append(got, r.Outcome)
	}
	if len(got) != len(outcomes) {
		t.Fatalf("outcomes: got %v, want %v", got, outcomes)
	}
	for i := range got {
		if got[i] != outcomes[i] {
			t.Errorf("outcomes: got %v, want %v", got, outcomes)
			break
		}
	}
}

// odd is an error whose method panics.
type odd struct{ text string }

func (o *odd) Error() string { return o.text }

// What Classify returns decides, whatever the handler has returned.
func TestClassify(t *testing.T) {
	const done, retry, failed = rehop.OutcomeDone, rehop.OutcomeRetry, rehop.OutcomeFailed
	panicking := func(context.Context, *rehop.Delivery) error { panic("no luck") }
	exiting := func(context.Context, *rehop.Delivery) error { runtime.Goexit(); return nil }
	// once has a policy apply to the first run only, and the second one succeed.
	once := func(policy func(err error) error) func() func(error) error {
		return func() func(error) error {
			used := false
			return func(err error) error {
				if used {
					return nil
				}
				used = true
				return policy(err)
			}
		}
	}
	always := func(policy func(err error) error) func() func(error) error {
		return func() func(error) error { return policy }
	}
	for name, test := range map[string]struct {
		handler  func(context.Context, *rehop.Delivery) error
		policy   func() func(error) error
		runs     int
		outcomes []rehop.Outcome
		kind     rehop.Kind // of what is in the failed queue; "": there is nothing
		text     string     // in the error there
	}{
		"not an error":             {succeed, always(rehop.Permanent), 1, []rehop.Outcome{done}, "", ""},
		"unchanged":                {fail, always(func(err error) error { return err }), 2, []rehop.Outcome{retry, failed}, "error", errNotYet.Error()},
		"handled":                  {fail, always(func(error) error { return nil }), 1, []rehop.Outcome{done}, "", ""},
		"permanent":                {fail, always(rehop.Permanent), 1, []rehop.Outcome{failed}, "permanent", errNotYet.Error()},
		"discard":                  {fail, always(rehop.Discard), 1, []rehop.Outcome{rehop.OutcomeDiscarded}, "", ""},
		"retry after":              {fail, once(func(err error) error { return rehop.RetryAfter(time.Second, err) }), 2, []rehop.Outcome{retry, done}, "", ""},
		"postpone":                 {fail, once(func(err error) error { return rehop.Postpone(time.Second, err) }), 2, []rehop.Outcome{rehop.OutcomePostponed, done}, "", ""},
		"unavailable":              {fail, once(rehop.Unavailable), 2, []rehop.Outcome{done}, "", ""},
		"panic of the handler":     {panicking, always(rehop.Permanent), 1, []rehop.Outcome{failed}, "panic", "no luck"},
		"Goexit of the handler":    {exiting, always(rehop.Permanent), 1, []rehop.Outcome{failed}, "panic", "the handler called runtime.Goexit"},
		"Goexit is handled":        {exiting, always(func(error) error { return nil }), 1, []rehop.Outcome{done}, "", ""},
		"Goexit is an outage":      {exiting, once(rehop.Unavailable), 2, []rehop.Outcome{done}, "", ""},
		"panic in Classify":        {fail, always(func(error) error { panic("bad policy") }), 2, []rehop.Outcome{retry, failed}, "panic", "bad policy"},
		"its error panics":         {fail, always(func(error) error { return (*odd)(nil) }), 2, []rehop.Outcome{retry, failed}, "panic", "nil pointer"},
		"Goexit in Classify":       {fail, always(func(error) error { runtime.Goexit(); return nil }), 2, []rehop.Outcome{retry, failed}, "panic", "Classify called runtime.Goexit"},
		"Goexit in both":           {exiting, always(func(error) error { runtime.Goexit(); return nil }), 2, []rehop.Outcome{retry, failed}, "panic", "Classify called runtime.Goexit"},
		"Goexit, then panic":       {exiting, always(func(error) error { panic("bad policy") }), 2, []rehop.Outcome{retry, failed}, "panic", "bad policy"},
		"panic, then Goexit":       {panicking, always(func(error) error { runtime.Goexit(); return nil }), 2, []rehop.Outcome{retry, failed}, "panic", "Classify called runtime.Goexit"},
		"only Goexit in the first": {fail, once(func(error) error { runtime.Goexit(); return nil }), 2, []rehop.Outcome{retry, done}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			book := &runBook{}
			inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
				policy, clock := test.policy(), startClock()
				subscribe(t, b.Client, rehop.Subscriber{Queue: "q", Handler: rehop.HandlerFunc(test.handler), Retry: rehop.Steps(time.Minute),
					Classify: func(d *rehop.Delivery, err error) error {
						if d.Queue != "q" || err == nil {
							t.Errorf("Classify: got a delivery from %q and %v, want one from q and an error", d.Queue, err)
						}
						return policy(err)
					}})
				publish(t, b.Client, rehop.Message{Key: "q"})
				if test.kind == "" {
					b.AwaitEmpty("q")
				} else if m := b.AwaitFailed("q", 1)[0]; m.Kind != test.kind || !strings.Contains(m.Error, test.text) {
					t.Errorf("failed: got kind %q and error %q, want %q and %q", m.Kind, m.Error, test.kind, test.text)
				}
				synctest.Wait()
				within(t, "concluded after", clock.now(), 0, 10*time.Minute) // before the broker takes anything back
				book.want(t, test.runs, test.outcomes...)
				// The place of a worker whose goroutine has ended is taken.
				publish(t, b.Client, rehop.Message{Key: "q"})
				time.Sleep(time.Hour)
				if ready, unacked := b.Depth("q"); ready+unacked != 0 {
					t.Errorf("left: got %d ready and %d unacked, want none", ready, unacked)
				}
			}, book.watch(), rehoptest.WithTimeout(time.Hour))
		})
	}
}

// Hooks see the error that decides.
func TestClassifiedErrorIsReported(t *testing.T) {
	book := &runBook{}
	better := errors.New("better")
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		subscribe(t, b.Client, rehop.Subscriber{Queue: "q", Handler: rehop.HandlerFunc(fail), Classify: func(*rehop.Delivery, error) error { return rehop.Permanent(better) }})
		publish(t, b.Client, rehop.Message{Key: "q"})
		b.AwaitFailed("q", 1)
	}, book.watch())
	if len(book.ends) != 1 || !errors.Is(book.ends[0], better) || len(book.result) != 1 || !errors.Is(book.result[0].Err, better) {
		t.Errorf("got %v and %v, want the error of Classify in both", book.ends, book.result)
	}
}

// A Classify that blocks is part of a handler that does: its time runs, its place is given to another worker, and no end waits for it.
func TestClassifyThatBlocks(t *testing.T) {
	const timeout, grace, stopGrace = time.Minute, 10 * time.Second, 3 * time.Second
	for name, handler := range map[string]rehop.HandlerFunc{"fails": fail, "exits": func(context.Context, *rehop.Delivery) error { runtime.Goexit(); return nil }} {
		s := rehop.Subscriber{Queue: "q", Handler: handler, Timeout: timeout, StuckAfter: grace, StopGrace: stopGrace, Retry: rehop.NoRetry()}
		t.Run("stuck, "+name, func(t *testing.T) {
			book := &runBook{}
			inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
				s.Classify = func(*rehop.Delivery, error) error { time.Sleep(time.Hour); return nil }
				clock := startClock()
				subscribe(t, b.Client, s)
				publish(t, b.Client, rehop.Message{Key: "q"})
				if m := b.AwaitFailed("q", 1)[0]; m.Kind != "timeout" {
					t.Errorf("kind: got %q, want timeout", m.Kind)
				}
				within(t, "failed after", clock.now(), timeout+grace, timeout+grace+time.Second)
				time.Sleep(2 * time.Hour)
				book.want(t, 1, rehop.OutcomeFailed)
			}, book.watch(), rehoptest.WithTimeout(time.Hour))
		})
		for end, call := range map[string]func(*rehop.Client, *rehop.Subscription) error{
			"stop":  func(_ *rehop.Client, sub *rehop.Subscription) error { return sub.Stop() },
			"close": func(c *rehop.Client, _ *rehop.Subscription) error { return c.Close(ended()) },
			"drain": func(_ *rehop.Client, sub *rehop.Subscription) error { return sub.Drain(ended()) },
		} {
			t.Run(end+", "+name, func(t *testing.T) {
				book := &runBook{}
				inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
					s.Classify = func(*rehop.Delivery, error) error { time.Sleep(time.Hour); return nil }
					client := openWith(t, b, func(c *rehop.Config) { c.Hooks = append(c.Hooks, book.hooks()) })
					defer client.Close(context.Background())
					sub := subscribe(t, client, s)
					publish(t, b.Client, rehop.Message{Key: "q"})
					synctest.Wait()
					clock := startClock()
					if err := call(client, sub); err == nil {
						t.Errorf("%s: got nil, want an error", end)
					}
					within(t, end+" took", clock.now(), stopGrace, stopGrace+time.Second)
					if left := b.Messages("q"); len(left) != 1 || left[0].Attempts != 0 {
						t.Errorf("left: got %+v, want one message that has not failed", left)
					}
					time.Sleep(2 * time.Hour)
					book.want(t, 1, rehop.OutcomeReturned)
				})
			})
		}
	}
}

// ended is a context that has ended.
func ended() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// Classify is not called for a handler that a stop has canceled: its message goes back.
func TestClassifyNotAtStop(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		sub := subscribe(t, b.Client, rehop.Subscriber{Queue: "q", Handler: slowly(time.Hour), Timeout: 2 * time.Hour,
			Classify: func(_ *rehop.Delivery, err error) error {
				t.Errorf("Classify was called with %v", err)
				return nil
			}})
		publish(t, b.Client, rehop.Message{Key: "q"})
		synctest.Wait()
		if err := sub.Stop(); err != nil {
			t.Error(err)
		}
		if ready, _ := b.Depth("q"); ready != 1 {
			t.Errorf("left: got %d, want 1", ready)
		}
	})
}

// A handler whose time was up returns that as its error, and Classify can have it retried later.
func TestClassifyTimeout(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		log := newLogbook(func(ctx context.Context, d *rehop.Delivery) error {
			if d.Attempt > 1 {
				return nil
			}
			<-ctx.Done()
			return ctx.Err()
		})
		subscribe(t, b.Client, rehop.Subscriber{Queue: "q", Handler: log, Timeout: time.Minute, Classify: func(_ *rehop.Delivery, err error) error {
			if errors.Is(err, context.DeadlineExceeded) {
				return rehop.RetryAfter(time.Hour, err)
			}
			return rehop.Permanent(err)
		}})
		publish(t, b.Client, rehop.Message{Key: "q"})
		b.AwaitEmpty("q")
		if runs := log.times(); len(runs) != 2 {
			t.Errorf("runs: got %v, want 2", runs)
		} else {
			within(t, "second run", runs[1], time.Hour+time.Minute, time.Hour+time.Minute+time.Second)
		}
	}, rehoptest.WithTimeout(time.Hour))
}
