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

	mu     sync.Mutex
	last   admin.Overview
	read   time.Time     // when last was read; zero: never
	asking chan struct{} // is closed when somebody has read them; nil: nobody does
}

// get returns figures that are at most figuresAge old.
func (f *figures) get(ctx context.Context) (admin.Overview, time.Time, error) {
	for {
		f.mu.Lock()
		if !f.read.IsZero() && time.Since(f.read) < figuresAge {
			defer f.mu.Unlock()
			return f.last, f.read, nil
		}
		others := f.asking
		if others == nil {
			f.asking = make(chan struct{})
			f.mu.Unlock()
			return f.renew(ctx)
		}
		f.mu.Unlock()
		select {
		case <-others:
		case <-ctx.Done():
			return admin.Overview{}, time.Time{}, ctx.Err()
		}
	}
}

// renew reads the figures, and wakes up who waits for them. After an error the next one tries.
func (f *figures) renew(ctx context.Context) (admin.Overview, time.Time, error) {
	now, err := f.ask(ctx)
	f.mu.Lock()
	defer f.mu.Unlock()
	close(f.asking)
	f.asking = nil
	if err != nil {
		return admin.Overview{}, time.Time{}, err
	}
	f.last, f.read = now, time.Now()
	return f.last, f.read, nil
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
