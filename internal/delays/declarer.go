package delays

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/rehop/rehop/internal/rabbit"
	"github.com/rehop/rehop/topology"
)

// Declarer declares parts of the topology when they are first needed on a connection, and each
// exchange, queue and binding only once.
type Declarer struct {
	link *rabbit.Link
	turn chan struct{} // has room for the one caller that declares

	mu      sync.Mutex
	epoch   int
	parts   map[string]time.Time // when each was declared
	objects map[string]time.Time

	doubted time.Time     // when the topology was last suspected to be incomplete because a message came early
	trust   time.Duration // for how long it is not suspected again
}

// NewDeclarer returns a Declarer that uses the given connection.
func NewDeclarer(link *rabbit.Link) *Declarer {
	return &Declarer{link: link, turn: make(chan struct{}, 1), parts: make(map[string]time.Time), objects: make(map[string]time.Time)}
}

// How long early messages do not make the topology suspect again: longer each time, because then a
// clock is wrong.
const (
	trustMin   = 200 * time.Millisecond
	trustMax   = time.Minute
	trustFades = 10 * time.Minute
)

// Doubt is called when a message has come back early. It returns the time since which everything must
// have been declared again.
func (d *Declarer) Doubt() time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	if now.Sub(d.doubted) > trustFades {
		d.trust = 0
	}
	if now.Sub(d.doubted) >= d.trust {
		d.doubted, d.trust = now, min(max(2*d.trust, trustMin), trustMax)
	}
	return d.doubted
}

// Reset forgets what was declared: the next broker may not have it. Call it when the connection is
// lost, before the next one is made.
func (d *Declarer) Reset() {
	d.mu.Lock()
	d.epoch++
	clear(d.parts)
	clear(d.objects)
	d.mu.Unlock()
}

// Ensure declares a part of the topology, as far as that has not been done on this connection since
// a time at which something may have been missing. The zero time: as far as that was never done.
func (d *Declarer) Ensure(ctx context.Context, part string, since time.Time, plan func() topology.Plan) error {
	if d.has(part, since) {
		return nil
	}
	select {
	case d.turn <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("wait to declare: %w", ctx.Err())
	}
	defer func() { <-d.turn }()
	if d.has(part, since) { // declared by another caller meanwhile
		return nil
	}
	var objects []string
	var epoch int
	var at time.Time
	missing := func() topology.Plan {
		d.mu.Lock()
		defer d.mu.Unlock()
		whole := plan()
		objects, epoch, at = nil, d.epoch, time.Now()
		return topology.Plan{
			Exchanges: undeclared(d, whole.Exchanges, since, &objects),
			Queues:    undeclared(d, whole.Queues, since, &objects),
			Bindings:  undeclared(d, whole.Bindings, since, &objects),
		}
	}
	if rest := missing(); !rest.Empty() {
		// What is missing is determined again when there is a connection: it may be another one than now.
		if err := d.link.DeclareMissing(ctx, missing); err != nil {
			return err
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.epoch == epoch {
		d.parts[part] = at
		for _, object := range objects {
			d.objects[object] = at
		}
	}
	return nil
}

// has reports whether a part was declared, and not before a time.
func (d *Declarer) has(part string, since time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	at, ok := d.parts[part]
	return ok && !at.Before(since)
}

// undeclared are those of some exchanges, queues or bindings that were not declared since a time. It
// adds them to objects. The caller holds the lock.
func undeclared[T any](d *Declarer, all []T, since time.Time, objects *[]string) (some []T) {
	for _, x := range all {
		object := fmt.Sprintf("%T %+v", x, x)
		if at, ok := d.objects[object]; !ok || at.Before(since) {
			some, *objects = append(some, x), append(*objects, object)
		}
	}
	return some
}
