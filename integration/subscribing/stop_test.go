package subscribing

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
	"github.com/rehop/rehop/layout"
)

// warmUp handles one message, so that the subscription receives with its full prefetch from then on.
func warmUp(t *testing.T, c *rehop.Client, queue string, done <-chan struct{}) {
	t.Helper()
	kit.Publish(t, c, rehop.Message{ID: "warm", Key: queue})
	kit.Receive(t, done, "first message handled")
}

func TestDrainLetsAllFinishThatWasReceived(t *testing.T) {
	t.Parallel()
	const messages, prefetch, concurrency = 30, 8, 2
	r := lab.Single(t)
	ch := r.Channel()
	var w wire
	c := kit.OpenQuick(t, r, rehop.Config{Dial: w.Dial})
	var inside crowd
	var done, canceled atomic.Int32
	warm, release := make(chan struct{}), make(chan struct{})
	sub := kit.Subscribe(t, c, rehop.Subscriber{Queue: "q", Concurrency: concurrency, Prefetch: prefetch,
		Handler: rehop.HandlerFunc(func(ctx context.Context, d *rehop.Delivery) error {
			if d.ID == "warm" {
				close(warm)
				return nil
			}
			inside.enter()
			defer inside.leave()
			<-release
			if ctx.Err() != nil {
				canceled.Add(1)
			}
			done.Add(1)
			return nil
		})})
	warmUp(t, c, "q", warm)
	kit.WantDepth(t, r, ch, "q", 0)
	kit.Publish(t, c, kit.Numbered("q", messages)...)
	lab.Eventually(t, kit.Limit, "handlers run and the rest is sent ahead", func() bool {
		return inside.inside() == concurrency && r.Depth(ch, "q") == messages-prefetch
	})
	canceledBefore := len(w.sent(basic, basicCancel))
	drained := make(chan error, 1)
	go func() { drained <- sub.Drain(kit.Context(t)) }()
	lab.Eventually(t, kit.Limit, "the consumer is canceled", func() bool { return len(w.sent(basic, basicCancel)) > canceledBefore })
	select {
	case err := <-drained:
		t.Fatalf("drain returned %v while handlers run", err)
	case <-sub.Closed():
		t.Fatal("closed while handlers run")
	default:
	}
	close(release)
	if err := kit.Receive(t, drained, "drained"); err != nil {
		t.Errorf("drain: got %v, want nil", err)
	}
	kit.Receive(t, sub.Closed(), "closed")
	if got := done.Load(); got != prefetch {
		t.Errorf("finished messages: got %d, want the %d received", got, prefetch)
	}
	if got := canceled.Load(); got != 0 {
		t.Errorf("handlers canceled before the deadline: got %d, want 0", got)
	}
	if got := r.Depth(ch, "q"); got != messages-prefetch {
		t.Errorf("left in the queue when Drain returned: got %d, want %d", got, messages-prefetch)
	}
	kit.Drain(t, sub)
	kit.Stop(t, sub)
}

// At the deadline what is unfinished goes back, unburnt and unacked.
func TestDrainDeadline(t *testing.T) {
	t.Parallel()
	const messages, concurrency = 20, 3
	r := lab.Single(t)
	ch := r.Channel()
	fill(t, r, rehop.Subscriber{Queue: "q"}, messages)
	rec := kit.NewRecorder()
	c := kit.OpenQuick(t, r, rehop.Config{Hooks: rec.Hooks()})
	var inside crowd
	var calls kit.Tally
	sub := kit.Subscribe(t, c, rehop.Subscriber{Queue: "q", Concurrency: concurrency, Prefetch: 10, Retry: rehop.Steps(100 * time.Millisecond),
		Handler: rehop.HandlerFunc(func(ctx context.Context, d *rehop.Delivery) error {
			calls.Add(d.ID)
			inside.enter()
			defer inside.leave()
			<-ctx.Done()
			return ctx.Err()
		})})
	lab.Eventually(t, kit.Limit, "handlers run", func() bool { return inside.inside() == concurrency })
	const deadline = 150 * time.Millisecond
	began := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	if err := sub.Drain(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("drain: got %v, want that it was cut by its deadline", err)
	}
	if took := time.Since(began); took < deadline {
		t.Errorf("drain took %v, want %v at least", took, deadline)
	}
	if got := calls.Sum(); got != concurrency {
		t.Errorf("handlers begun: got %d, want %d: none begins after the deadline", got, concurrency)
	}
	kit.WantDepth(t, r, ch, "q", messages)
	for len(rec.Results) > 0 {
		if got := <-rec.Results; got.Outcome != rehop.OutcomeReturned {
			t.Errorf("result: got %s, want returned", got.Outcome)
		}
	}

	var seen kit.Tally
	var burnt atomic.Int32
	again := kit.Subscribe(t, c, rehop.Subscriber{Queue: "q", Concurrency: concurrency, Retry: rehop.Steps(100 * time.Millisecond),
		Handler: rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
			if d.Attempt != 1 || d.LastError != "" {
				burnt.Add(1)
			}
			seen.Add(d.ID)
			return nil
		})})
	lab.Eventually(t, kit.Limit, "all handled after all", func() bool { return seen.Len() == messages })
	if got := burnt.Load(); got != 0 {
		t.Errorf("messages with a burnt attempt: got %d, want 0", got)
	}
	kit.Drain(t, again)
	seen.WantSum(t, "handler calls", messages)
	wantGone(t, r, ch, "q")
	kit.WantDepth(t, r, ch, "q.failed", 0)
}

func TestStopReturnsThoughHandlersIgnoreIt(t *testing.T) {
	t.Parallel()
	const messages, concurrency = 10, 2
	r, ch, rec, c := kit.Setup(t)
	var inside crowd
	release := make(chan struct{})
	returned := make(chan struct{}, messages)
	sub := kit.Subscribe(t, c, rehop.Subscriber{Queue: "q", Concurrency: concurrency, StopGrace: 50 * time.Millisecond,
		Handler: rehop.HandlerFunc(func(context.Context, *rehop.Delivery) error {
			inside.enter()
			<-release
			returned <- struct{}{}
			return nil // too late
		})})
	kit.Publish(t, c, kit.Numbered("q", messages)...)
	lab.Eventually(t, kit.Limit, "handlers run", func() bool { return inside.inside() == concurrency })
	stopped := make(chan error, 1)
	go func() { stopped <- sub.Stop() }()
	err := kit.Receive(t, stopped, "end of Stop while handlers run")
	if want := fmt.Sprintf("%d handlers still run", concurrency); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("stop: got %v, want an error that says %q", err, want)
	}
	kit.Receive(t, sub.Closed(), "closed")
	kit.WantDepth(t, r, ch, "q", messages)
	close(release)
	for range concurrency {
		kit.Receive(t, returned, "handlers return")
	}
	for range concurrency {
		if s := kit.Receive(t, rec.Stuck, "report of the late return"); !s.Returned {
			t.Errorf("report: got %+v, want returned", s)
		}
	}
	if got := r.Depth(ch, "q"); got != messages {
		t.Errorf("queue after the late returns: got %d, want %d", got, messages)
	}
	if got := inside.most(); got != concurrency {
		t.Errorf("handlers begun: got %d, want %d", got, concurrency)
	}
}

// Stop begins no more handlers, whatever has been received.
func TestStopBeginsNothing(t *testing.T) {
	t.Parallel()
	const messages = 60
	for round := range 3 {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			t.Parallel()
			r := lab.Single(t)
			ch := r.Channel()
			c := kit.OpenQuick(t, r, rehop.Config{})
			warm, begun := make(chan struct{}), make(chan struct{}, messages)
			var late atomic.Int32
			sub := kit.Subscribe(t, c, rehop.Subscriber{Queue: "q", Concurrency: 1, Prefetch: 50,
				Handler: rehop.HandlerFunc(func(ctx context.Context, d *rehop.Delivery) error {
					if d.ID == "warm" {
						close(warm)
						return nil
					}
					if ctx.Err() != nil {
						late.Add(1)
					}
					begun <- struct{}{}
					<-ctx.Done()
					return ctx.Err()
				})})
			warmUp(t, c, "q", warm)
			kit.Publish(t, c, kit.Numbered("q", messages)...)
			kit.Receive(t, begun, "a handler runs")
			lab.Eventually(t, kit.Limit, "many are sent ahead", func() bool { return r.Depth(ch, "q") <= messages-50 })
			kit.Stop(t, sub)
			if got := late.Load(); got != 0 {
				t.Errorf("handlers begun after Stop: got %d, want 0", got)
			}
			kit.WantDepth(t, r, ch, "q", messages)
		})
	}
}

// A clean stop is no crash: what it gives back is not suspected of killing processes.
func TestStopsAreNotCrashes(t *testing.T) {
	t.Parallel()
	kit.EachType(t, func(t *testing.T, kind layout.QueueType) {
		r, ch, rec, c := kit.Setup(t)
		begun := make(chan int, 10)
		s := rehop.Subscriber{Queue: "q", QueueType: kind, CrashLimit: 3,
			Handler: rehop.HandlerFunc(func(ctx context.Context, d *rehop.Delivery) error {
				begun <- d.Attempt
				<-ctx.Done()
				return ctx.Err()
			})}
		for i := range 5 {
			sub := kit.Subscribe(t, c, s)
			if i == 0 {
				kit.Publish(t, c, kit.Numbered("q", 1)...)
			}
			for waiting := true; waiting; {
				select {
				case attempt := <-begun:
					waiting = false
					if attempt != 1 {
						t.Errorf("start %d: got attempt %d, want 1", i, attempt)
					}
				case h := <-rec.Results: // a classic queue's message goes round once more
					if h.Outcome != rehop.OutcomeReturned {
						t.Fatalf("start %d: got outcome %s, kind %s (%v), want it handled", i, h.Outcome, h.Kind, h.Err)
					}
				}
			}
			kit.Stop(t, sub)
			kit.WantDepth(t, r, ch, "q", 1)
			for len(rec.Results) > 0 {
				if h := <-rec.Results; h.Outcome != rehop.OutcomeReturned {
					t.Errorf("start %d: got outcome %s, kind %s (%v), want returned", i, h.Outcome, h.Kind, h.Err)
				}
			}
		}
		kit.WantDepth(t, r, ch, "q.failed", 0)
	})
}

func TestCloseDrainsAll(t *testing.T) {
	t.Parallel()
	r := lab.Single(t)
	ch := r.Channel()
	var w wire
	c := kit.OpenQuick(t, r, rehop.Config{Dial: w.Dial})
	var inside crowd
	var cut atomic.Int32
	release := make(chan struct{})
	var subs []*rehop.Subscription
	for i := range 3 {
		queue := fmt.Sprintf("q%d", i)
		subs = append(subs, kit.Subscribe(t, c, rehop.Subscriber{Queue: queue, Concurrency: 2,
			Handler: rehop.HandlerFunc(func(ctx context.Context, _ *rehop.Delivery) error {
				inside.enter()
				defer inside.leave()
				<-release
				if ctx.Err() != nil {
					cut.Add(1)
				}
				return nil
			})}))
		kit.Publish(t, c, kit.Numbered(queue, 2)...)
	}
	lab.Eventually(t, kit.Limit, "all handlers run", func() bool { return inside.inside() == 6 })
	canceledBefore := len(w.sent(basic, basicCancel))
	closed := make(chan error, 1)
	go func() { closed <- c.Close(kit.Context(t)) }()
	lab.Eventually(t, kit.Limit, "consumers canceled", func() bool { return len(w.sent(basic, basicCancel)) == canceledBefore+3 })
	close(release)
	if err := kit.Receive(t, closed, "closed"); err != nil {
		t.Errorf("close: got %v, want nil", err)
	}
	for i, s := range subs {
		kit.Receive(t, s.Closed(), "subscription closed")
		kit.WantDepth(t, r, ch, fmt.Sprintf("q%d", i), 0)
	}
	if got := cut.Load(); got != 0 {
		t.Errorf("handlers canceled: got %d, want 0", got)
	}
	if got := c.State(); got != rehop.StateClosed {
		t.Errorf("state: got %s, want %s", got, rehop.StateClosed)
	}
	if err := c.Publish(kit.Context(t), rehop.Message{Key: "q0"}); !errors.Is(err, rehop.ErrClosed) {
		t.Errorf("publish after close: got %v, want %v", err, rehop.ErrClosed)
	}
	_, err := c.Subscribe(kit.Context(t), rehop.Subscriber{Queue: "q0", Handler: kit.Nop})
	if !errors.Is(err, rehop.ErrClosed) {
		t.Errorf("subscribe after close: got %v, want %v", err, rehop.ErrClosed)
	}
}

// ours are the stacks of goroutines that the library or its client has started or is in.
func ours() []string {
	buf := make([]byte, 4<<20)
	buf = buf[:runtime.Stack(buf, true)]
	var found []string
	for _, stack := range strings.Split(string(buf), "\n\n") {
		for _, mark := range []string{"github.com/rehop/rehop.", "github.com/rehop/rehop/internal/", "amqp091-go."} {
			if strings.Contains(stack, mark) {
				found = append(found, stack)
				break
			}
		}
	}
	return found
}

// Not parallel: it looks at all goroutines of the process.
func TestNoGoroutinesAreLeft(t *testing.T) {
	r := lab.Single(t)
	before := len(ours())
	ctx := kit.Context(t)
	var w wire
	rec := kit.NewRecorder()
	c := kit.OpenQuick(t, r, rehop.Config{Dial: w.Dial, Hooks: rec.Hooks()})
	var calls kit.Tally
	var wg sync.WaitGroup
	for i := range 3 {
		queue := fmt.Sprintf("q%d", i)
		sub := kit.Subscribe(t, c, rehop.Subscriber{Queue: queue, Concurrency: 4, Timeout: 50 * time.Millisecond, StuckAfter: 50 * time.Millisecond,
			Retry: rehop.Steps(100 * time.Millisecond), ProbeMin: 10 * time.Millisecond, ProbeMax: 20 * time.Millisecond,
			Handler: rehop.HandlerFunc(func(ctx context.Context, d *rehop.Delivery) error {
				n := calls.Add(d.Queue + d.ID)
				if n > 1 {
					return nil
				}
				switch d.ID {
				case "0":
					return errors.New("again")
				case "1":
					panic("x")
				case "2":
					runtime.Goexit()
				case "3":
					<-ctx.Done()
					return ctx.Err()
				case "4":
					<-rec.Stuck // comes back when it was reported
				case "5":
					return rehop.Unavailable(errors.New("down"))
				case "6":
					return rehop.RetryAfter(130*time.Millisecond, errors.New("later"))
				case "7":
					return rehop.Permanent(errors.New("no"))
				}
				return nil
			})})
		kit.Publish(t, c, kit.Numbered(queue, 20)...)
		if i == 0 {
			w.cut()
			for kit.Receive(t, rec.States, "connections are lost").State != rehop.StateRecovering {
			}
			lab.Eventually(t, kit.Limit, "connections are back", func() bool { return c.State() == rehop.StateOpen })
		}
		if i == 1 {
			wg.Go(func() {
				if err := sub.Drain(ctx); err != nil {
					t.Errorf("drain: %v", err)
				}
			})
		}
	}
	lab.Eventually(t, kit.Limit, "last queue's messages are settled", func() bool {
		for i := range 20 {
			if want := 1; calls.Of(fmt.Sprintf("q2%d", i)) < want {
				return false
			}
		}
		return calls.Of("q20") > 1 && calls.Of("q26") > 1
	})
	wg.Wait()
	if err := c.Close(ctx); err != nil {
		t.Errorf("close: got %v, want nil", err)
	}
	// Handlers that were abandoned end by themselves a moment later; nothing else may be left.
	var left []string
	deadline := time.Now().Add(kit.Limit)
	for left = ours(); len(left) > before && time.Now().Before(deadline); left = ours() {
		<-time.After(10 * time.Millisecond)
	}
	if len(left) > before {
		t.Errorf("goroutines after Close: got %d, want %d\n%s", len(left), before, strings.Join(left, "\n\n"))
	}
}
