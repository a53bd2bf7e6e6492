package rabbit

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"sync"
)

// Limits bound what publishing may hold in memory.
type Limits struct {
	Unconfirmed      int // messages sent and not yet confirmed
	UnconfirmedBytes int
	Waiting          int // callers that wait while the broker is blocked or cannot be reached
	WaitingBytes     int
}

// gate limits the unconfirmed messages to a window, and lets none pass while the broker is blocked or
// cannot be reached. Callers wait in order.
type gate struct {
	limits Limits

	mu           sync.Mutex
	open         bool
	reason       error // why it is not open: wraps ErrBlocked, ErrDisconnected or ErrClosed
	closed       bool
	reachable    bool // the broker is connected, and not blocked
	used         int
	usedBytes    int
	waiting      list.List // of *waiter
	waitingBytes int
	idle         chan struct{} // not nil while a caller waits for the window to be empty

	// ended ends when the gate is closed and the broker is blocked or cannot be reached, then or later: what has entered and was not sent is not sent any
	// more.
	ended context.Context
	end   context.CancelFunc
}

type waiter struct {
	size  int
	ready chan error
}

func newGate(limits Limits) *gate {
	g := &gate{limits: limits, reason: ErrDisconnected}
	g.ended, g.end = context.WithCancel(context.Background())
	return g
}

// errNoPlace: entering would mean to wait.
var errNoPlace = errors.New("no place in the window")

// errOverLimit: even waiting is not possible.
var errOverLimit = errors.New("too many messages wait already")

// tryEnter is enter for a caller that must not wait.
func (g *gate) tryEnter(_ context.Context, size int) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.closed:
		return ErrClosed
	case g.open && g.waiting.Len() == 0 && g.fits(size):
		g.take(size)
		return nil
	}
	return errNoPlace
}

// enter waits for a place for a message of this size. The caller must call leave.
func (g *gate) enter(ctx context.Context, size int) error { return g.await(ctx, size, false) }

// enterBehind is enter for callers whose number is limited elsewhere: it ignores Limits.Waiting.
func (g *gate) enterBehind(ctx context.Context, size int) error { return g.await(ctx, size, true) }

func (g *gate) await(ctx context.Context, size int, behind bool) error {
	g.mu.Lock()
	switch {
	case g.closed:
		g.mu.Unlock()
		return ErrClosed
	case g.open && g.waiting.Len() == 0 && g.fits(size):
		g.take(size)
		g.mu.Unlock()
		return nil
	case !g.open && !behind && (g.waiting.Len() >= g.limits.Waiting || g.waitingBytes+size > g.limits.WaitingBytes && g.waiting.Len() > 0):
		err := fmt.Errorf("%w; %w: %d (%d bytes)", g.reason, errOverLimit, g.waiting.Len(), g.waitingBytes)
		g.mu.Unlock()
		return err
	}
	w := &waiter{size: size, ready: make(chan error, 1)}
	element := g.waiting.PushBack(w)
	g.waitingBytes += size
	g.mu.Unlock()

	select {
	case err := <-w.ready:
		return err
	case <-ctx.Done():
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case err := <-w.ready: // granted at the same moment
		if err == nil {
			g.release(size)
		}
	default:
		g.waiting.Remove(element)
		g.waitingBytes -= size
		g.admit() // a smaller one behind it may fit
	}
	if !g.open {
		return fmt.Errorf("%w: %w", g.reason, ctx.Err())
	}
	return fmt.Errorf("%w: it has not confirmed the %d messages that were sent: %w", ErrBlocked, g.used, ctx.Err())
}

func (g *gate) leave(size int) {
	g.mu.Lock()
	g.release(size)
	g.mu.Unlock()
}

func (g *gate) fits(size int) bool {
	return g.used < g.limits.Unconfirmed && (g.used == 0 || g.usedBytes+size <= g.limits.UnconfirmedBytes)
}

func (g *gate) take(size int) { g.used++; g.usedBytes += size }

func (g *gate) release(size int) {
	g.used--
	g.usedBytes -= size
	g.admit()
	if g.used == 0 && g.idle != nil {
		close(g.idle)
		g.idle = nil
	}
}

// quiet returns a channel that is closed when nothing is unconfirmed.
func (g *gate) quiet() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.idle == nil {
		g.idle = make(chan struct{})
	}
	idle := g.idle
	if g.used == 0 {
		close(g.idle)
		g.idle = nil
	}
	return idle
}

// isClosed reports whether close was called.
func (g *gate) isClosed() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.closed
}

// underway is how many messages are unconfirmed.
func (g *gate) underway() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.used
}

// admit lets the first callers in, as far as there are places.
func (g *gate) admit() {
	for front := g.waiting.Front(); g.open && front != nil; front = g.waiting.Front() {
		w := front.Value.(*waiter)
		if !g.fits(w.size) {
			return
		}
		g.waiting.Remove(front)
		g.waitingBytes -= w.size
		g.take(w.size)
		w.ready <- nil
	}
}

// set opens the gate, or shuts it for a reason.
func (g *gate) set(open bool, reason error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open, g.reason, g.reachable = open && !g.closed, reason, open
	g.endIfUseless()
	g.admit()
}

// close refuses all callers from now on.
func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed, g.open, g.reason = true, false, ErrClosed
	for e := g.waiting.Front(); e != nil; e = g.waiting.Front() {
		g.waiting.Remove(e)
		e.Value.(*waiter).ready <- ErrClosed
	}
	g.waitingBytes = 0
	g.endIfUseless()
}

func (g *gate) endIfUseless() {
	if g.closed && !g.reachable {
		g.end()
	}
}
