package rabbit

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func openGate(limits Limits) *gate {
	g := newGate(limits)
	g.set(true, nil)
	return g
}

func TestGateWindow(t *testing.T) {
	for _, test := range []struct {
		name   string
		limits Limits
		sizes  []int
		enter  int // this many get in
	}{
		{"count", Limits{Unconfirmed: 3, UnconfirmedBytes: 1000}, []int{1, 1, 1, 1, 1}, 3},
		{"bytes", Limits{Unconfirmed: 10, UnconfirmedBytes: 100}, []int{40, 60, 1}, 2},
		{"one larger than all", Limits{Unconfirmed: 10, UnconfirmedBytes: 100}, []int{500, 1}, 1},
		{"a small one does not overtake", Limits{Unconfirmed: 10, UnconfirmedBytes: 100}, []int{60, 80, 30}, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := openGate(test.limits)
				order := make(chan int, len(test.sizes))
				for i, size := range test.sizes {
					go func() {
						if err := g.enter(t.Context(), size); err != nil {
							t.Errorf("message %d: %v", i, err)
						}
						order <- i
					}()
					synctest.Wait()
				}
				if got := len(order); got != test.enter {
					t.Errorf("got %d in at once, want %d", got, test.enter)
				}
				if err := g.tryEnter(t.Context(), 1); !errors.Is(err, errNoPlace) {
					t.Errorf("tryEnter behind those that wait: got %v, want %v", err, errNoPlace)
				}
				for i := range test.sizes {
					if got := <-order; got != i {
						t.Errorf("got message %d in, want %d: in order", got, i)
					}
					g.leave(test.sizes[i])
					synctest.Wait()
				}
				if g.used != 0 || g.usedBytes != 0 || g.waitingBytes != 0 || g.waiting.Len() != 0 {
					t.Errorf("in the end: got %d used (%d bytes), %d waiting (%d bytes); want none", g.used, g.usedBytes, g.waiting.Len(), g.waitingBytes)
				}
			})
		})
	}
}

func TestGateWhileShut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(Limits{Unconfirmed: 10, UnconfirmedBytes: 1000, Waiting: 2, WaitingBytes: 100})
		if err := g.enter(within(t, time.Second), 1); !errors.Is(err, ErrDisconnected) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("before there is a connection: got %v, want %v by the deadline", err, ErrDisconnected)
		}
		g.set(false, fmt.Errorf("%w: low on memory", ErrBlocked))
		results := make(chan error, 10)
		enter := func(size int) {
			go func() { results <- g.enter(t.Context(), size) }()
			synctest.Wait()
		}
		enter(60)
		enter(60) // more bytes than may wait
		if err := <-results; !errors.Is(err, ErrBlocked) || !errors.Is(err, errOverLimit) {
			t.Errorf("too many bytes: got %v, want %v and over the limit", err, ErrBlocked)
		}
		enter(40)
		enter(0) // one too many
		if err := <-results; !errors.Is(err, errOverLimit) {
			t.Errorf("too many: got %v, want over the limit", err)
		}
		g.set(true, nil)
		for range 2 {
			if err := <-results; err != nil {
				t.Errorf("after it has opened: got %v, want nil", err)
			}
		}
		quiet := g.quiet()
		select {
		case <-quiet:
			t.Error("quiet while two are under way")
		default:
		}
		g.leave(60)
		g.leave(40)
		<-quiet
		<-g.quiet() // and at once when there is nothing
	})
}

func TestGateClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := openGate(Limits{Unconfirmed: 1, UnconfirmedBytes: 1000})
		if err := g.enter(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		waiting := make(chan error, 1)
		go func() { waiting <- g.enter(t.Context(), 1) }()
		synctest.Wait()
		g.close()
		if err := <-waiting; !errors.Is(err, ErrClosed) {
			t.Errorf("who waited: got %v, want %v", err, ErrClosed)
		}
		g.set(true, nil) // a late change of the link's state
		if err := g.enter(t.Context(), 1); !errors.Is(err, ErrClosed) {
			t.Errorf("enter: got %v, want %v", err, ErrClosed)
		}
		if err := g.tryEnter(t.Context(), 1); !errors.Is(err, ErrClosed) {
			t.Errorf("tryEnter: got %v, want %v", err, ErrClosed)
		}
		g.leave(1)
		<-g.quiet()
	})
}

// A context that ends lets those behind pass, and is one of the documented outcomes.
func TestGateContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := openGate(Limits{Unconfirmed: 10, UnconfirmedBytes: 100})
		if err := g.enter(t.Context(), 60); err != nil {
			t.Fatal(err)
		}
		large, small := make(chan error, 1), make(chan error, 1)
		go func() { large <- g.enter(within(t, time.Second), 60) }()
		synctest.Wait()
		go func() { small <- g.enter(t.Context(), 10) }()
		if err := <-large; !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, ErrBlocked) {
			t.Errorf("got %v, want %v by the deadline", err, ErrBlocked)
		}
		if err := <-small; err != nil {
			t.Errorf("the one behind: got %v, want nil", err)
		}
	})
}

// Many enter, leave, cancel and shut at once: nothing is counted twice or lost.
func TestGateUnderStress(t *testing.T) {
	g := openGate(Limits{Unconfirmed: 5, UnconfirmedBytes: 100, Waiting: 20, WaitingBytes: 500})
	ctx, stop := context.WithCancel(t.Context())
	var all, flips sync.WaitGroup
	flips.Go(func() {
		for ctx.Err() == nil {
			g.set(false, ErrBlocked)
			g.set(true, nil)
		}
	})
	var mu sync.Mutex
	inside, bytes := 0, 0
	for w := range 16 {
		all.Go(func() {
			random := rand.New(rand.NewPCG(7, uint64(w)))
			for range 300 {
				size := 1 + random.IntN(60)
				c, cancel := context.WithTimeout(ctx, time.Duration(random.IntN(200))*time.Microsecond)
				err := g.enter(c, size)
				cancel()
				if err != nil {
					continue
				}
				mu.Lock()
				inside, bytes = inside+1, bytes+size
				if inside > 5 || bytes > 100 && inside > 1 {
					t.Errorf("got %d inside with %d bytes, want at most 5 and 100", inside, bytes)
				}
				inside, bytes = inside-1, bytes-size
				mu.Unlock()
				g.leave(size)
			}
		})
	}
	all.Wait()
	stop()
	flips.Wait()
	if g.used != 0 || g.usedBytes != 0 || g.waitingBytes != 0 || g.waiting.Len() != 0 {
		t.Errorf("in the end: got %d used (%d bytes), %d waiting (%d bytes); want none", g.used, g.usedBytes, g.waiting.Len(), g.waitingBytes)
	}
}
