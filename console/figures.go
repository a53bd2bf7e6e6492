package console

import (
	"context"
	"sync"
	"time"

	"github.com/rehop/rehop/admin"
)

// figuresAge is how old figures may be. The broker's own are some seconds old, too.
const figuresAge = 2 * time.Second

// figures reads the numbers of the queues, once for all who ask at about the same time.
type figures struct {
	ask func(context.Context) (admin.Overview, error)

	mu   sync.Mutex
	last *reading // nil: there was none
}

// reading is one request to the broker. The other fields are set when done is closed.
type reading struct {
	done     chan struct{}
	overview admin.Overview
	at       time.Time
	err      error
}

// isOld reports whether figures must be read again. After an error they are.
func (r *reading) isOld() bool {
	select {
	case <-r.done:
		return r.err != nil || time.Since(r.at) >= figuresAge
	default:
		return false
	}
}

// get returns figures that are at most figuresAge old.
func (f *figures) get(ctx context.Context) (admin.Overview, time.Time, error) {
	f.mu.Lock()
	now, mine := f.last, f.last == nil || f.last.isOld()
	if mine {
		now = &reading{done: make(chan struct{})}
		f.last = now
	}
	f.mu.Unlock()
	if mine {
		// Others wait for the answer, so it does not end with this request.
		now.overview, now.err = f.ask(context.WithoutCancel(ctx))
		now.at = time.Now()
		close(now.done)
	}
	select {
	case <-now.done:
		return now.overview, now.at, now.err
	case <-ctx.Done():
		return admin.Overview{}, time.Time{}, ctx.Err()
	}
}

// askFigures reads the figures from the broker.
func (c *Console) askFigures(ctx context.Context) (admin.Overview, error) {
	ctx, cancel := context.WithTimeout(ctx, c.options.Timeout)
	defer cancel()
	a, end, err := c.connect(ctx)
	if err != nil {
		return admin.Overview{}, err
	}
	defer end()
	return a.Queues(ctx)
}
