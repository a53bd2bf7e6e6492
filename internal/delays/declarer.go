package delays

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/rehop/rehop/internal/rabbit"
	"github.com/rehop/rehop/topology"
)

// Declarer declares parts of the topology when they are first needed on a connection, each
// exchange, queue and binding once, whoever needs it.
type Declarer struct {
	link *rabbit.Link
	turn chan struct{} // has room for one: who declares

	mu      sync.Mutex
	epoch   int
	parts   map[string]time.Time // when each was declared
	objects map[string]time.Time

	doubted time.Time     // when something was last taken for missing because a message came early
	trust   time.Duration // for how long it is not taken for missing again
}

// NewDeclarer returns a Declarer that uses the given connection.
func NewDeclarer(link *rabbit.Link) *Declarer {
	return &Declarer{link: link, turn: make(chan struct{}, 1), parts: make(map[string]time.Time), objects: make(map[string]time.Time)}
}

// How long it is believed, after a message came back early, that nothing is missing: ever longer,
// because then it is a clock that is wrong.
const (
	trustMin   = 200 * time.Millisecond
	trustMax   = time.Minute
	trustFades = 10 * time.Minute
)

// Doubt is called when a message has come back early, and returns since when everything must have
// been declared again.
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

// Reset forgets what has been declared: the next broker may not have it.
func (d *Declarer) Reset() {
	d.mu.Lock()
	d.epoch++
	clear(d.parts)
	clear(d.objects)
	d.mu.Unlock()
}

// Ensure declares a part of the topology, as far as that has not been done on this connection since
// a time at which something may have been missing; zero: ever.
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
	if d.has(part, since) { // by the one before
		return nil
	}
	d.mu.Lock()
	epoch, rest := d.epoch, d.missing(plan(), since)
	d.mu.Unlock()
	at := time.Now()
	if !rest.Empty() {
		if err := d.link.Declare(ctx, rest); err != nil {
			return err
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.epoch == epoch {
		d.parts[part] = at
		for _, name := range objectsOf(rest) {
			d.objects[name] = at
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

// missing is what of a plan was not declared since a time. The caller holds the lock.
func (d *Declarer) missing(plan topology.Plan, since time.Time) topology.Plan {
	declared := func(name string) bool {
		at, ok := d.objects[name]
		return ok && !at.Before(since)
	}
	return topology.Plan{
		Exchanges: slices.DeleteFunc(slices.Clone(plan.Exchanges), func(x topology.Exchange) bool { return declared(nameOfExchange(x)) }),
		Queues:    slices.DeleteFunc(slices.Clone(plan.Queues), func(q topology.Queue) bool { return declared(nameOfQueue(q)) }),
		Bindings:  slices.DeleteFunc(slices.Clone(plan.Bindings), func(b topology.Binding) bool { return declared(nameOfBinding(b)) }),
	}
}

// objectsOf are names of all objects of a plan.
func objectsOf(plan topology.Plan) []string {
	var names []string
	for _, x := range plan.Exchanges {
		names = append(names, nameOfExchange(x))
	}
	for _, q := range plan.Queues {
		names = append(names, nameOfQueue(q))
	}
	for _, b := range plan.Bindings {
		names = append(names, nameOfBinding(b))
	}
	return names
}

func nameOfExchange(x topology.Exchange) string {
	return fmt.Sprintf("exchange %q %v %v", x.Name, x.Passive, x.Args)
}

func nameOfQueue(q topology.Queue) string {
	return fmt.Sprintf("queue %q %v %v", q.Name, q.Passive, q.Args)
}

func nameOfBinding(b topology.Binding) string {
	return fmt.Sprintf("binding %q %q %q %v %v", b.Source, b.Destination, b.Key, b.ToExchange, b.Args)
}
