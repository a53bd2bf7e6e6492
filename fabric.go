package rehop

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/rehop/rehop/internal/rabbit"
	"github.com/rehop/rehop/topology"
)

// fabric declares parts of the topology when they are first needed on a connection, each exchange, queue and binding once, whoever
// needs it.
type fabric struct {
	link *rabbit.Link
	turn chan struct{} // has room for one: who declares

	mu      sync.Mutex
	epoch   int
	parts   map[string]time.Time // when each was declared
	objects map[string]time.Time

	doubted time.Time     // when something was last taken for missing because a message came early
	trust   time.Duration // for how long it is not taken for missing again
}

// How long it is believed, after a message came back early, that nothing is missing: ever longer, because then it is a clock that is wrong.
const (
	trustMin   = 200 * time.Millisecond
	trustMax   = time.Minute
	trustFades = 10 * time.Minute
)

// doubt is called when a message has come back early, and returns since when everything must have been declared again.
func (f *fabric) doubt() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	if now.Sub(f.doubted) > trustFades {
		f.trust = 0
	}
	if now.Sub(f.doubted) >= f.trust {
		f.doubted, f.trust = now, min(max(2*f.trust, trustMin), trustMax)
	}
	return f.doubted
}

func newFabric(link *rabbit.Link) *fabric {
	return &fabric{link: link, turn: make(chan struct{}, 1), parts: make(map[string]time.Time), objects: make(map[string]time.Time)}
}

// reset forgets what has been declared: the next broker may not have it.
func (f *fabric) reset() {
	f.mu.Lock()
	f.epoch++
	clear(f.parts)
	clear(f.objects)
	f.mu.Unlock()
}

// ensure declares a part of the topology, as far as that has not been done on this connection, since a time at which something may have
// been missing; zero: ever.
func (f *fabric) ensure(ctx context.Context, part string, since time.Time, plan func() topology.Plan) error {
	if f.has(part, since) {
		return nil
	}
	select {
	case f.turn <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("wait to declare: %w", ctx.Err())
	}
	defer func() { <-f.turn }()
	if f.has(part, since) { // by the one before
		return nil
	}
	f.mu.Lock()
	epoch, rest := f.epoch, f.missing(plan(), since)
	f.mu.Unlock()
	at := time.Now()
	if !rest.Empty() {
		if err := f.link.Declare(ctx, rest); err != nil {
			return err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.epoch == epoch {
		f.parts[part] = at
		for _, name := range objectsOf(rest) {
			f.objects[name] = at
		}
	}
	return nil
}

// has reports whether a part was declared, and not before a time.
func (f *fabric) has(part string, since time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	at, ok := f.parts[part]
	return ok && !at.Before(since)
}

// missing is what of a plan was not declared since a time. The caller holds the lock.
func (f *fabric) missing(plan topology.Plan, since time.Time) topology.Plan {
	declared := func(name string) bool {
		at, ok := f.objects[name]
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
