package outbox

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// term is a time during which a relay has held its leases without a gap. What began in one term must not go on in the next: another
// relay may have had the leases between them.
type term struct {
	until atomic.Pointer[time.Time]
	once  sync.Once
	ended chan struct{}
}

func newTerm(until time.Time) *term {
	t := &term{ended: make(chan struct{})}
	t.extend(until)
	return t
}

// extend has the term last until a moment, which was reckoned from before the database was asked.
func (t *term) extend(until time.Time) { t.until.Store(&until) }

// end is called when the leases have been lost, or are given back.
func (t *term) end() { t.once.Do(func() { close(t.ended) }) }

// over reports whether the term has ended. It asks the clock and does not rely on timers: in a process that was stopped and goes on,
// any goroutine may run before a timer does. The monotonic clock stands still while a machine sleeps, and the other one can be
// set back, so the one that says later counts.
func (t *term) over() bool {
	select {
	case <-t.ended:
		return true
	default:
	}
	now, until := time.Now(), *t.until.Load()
	return !now.Before(until) || !now.Round(0).Before(until.Round(0))
}

// within is a context that ends with the term, or after a time. Its Err knows before any timer when the term is over.
// done must be called.
func (t *term) within(ctx context.Context, limit time.Duration) (within context.Context, done func()) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	var watching sync.WaitGroup
	watching.Go(func() {
		select {
		case <-t.ended:
			cancel()
		case <-ctx.Done():
		}
	})
	return termContext{ctx, t}, func() {
		cancel()
		watching.Wait()
	}
}

type termContext struct {
	context.Context
	term *term
}

var errTermEnded = errors.New("the relay's leases have ended")

func (c termContext) Err() error {
	if err := c.Context.Err(); err != nil {
		return err
	}
	if c.term.over() {
		return errTermEnded
	}
	return nil
}
