package outbox

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// term is a time during which a relay holds its leases without a gap. Work that began in one term must not continue in the next: another
// relay may have had the leases in between.
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

// extend sets the end of the term, measured from before the leases were renewed.
func (t *term) extend(until time.Time) { t.until.Store(&until) }

// end is called when the leases are lost or returned.
func (t *term) end() { t.once.Do(func() { close(t.ended) }) }

// over reports whether the term has ended. It reads the clock and does not rely on timers: in a process that was stopped and resumes, any
// goroutine may run before a timer does. The monotonic clock stands still while a machine sleeps, and the wall clock can be set back, so
// the later one counts.
func (t *term) over() bool {
	select {
	case <-t.ended:
		return true
	default:
	}
	now, until := time.Now(), *t.until.Load()
	return !now.Before(until) || !now.Round(0).Before(until.Round(0))
}

// within returns a context that ends with the term, or after a time limit. Its Err reports the end of the term before any timer does.
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
