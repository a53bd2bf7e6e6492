package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/internal/topologies"
	"github.com/rehop/rehop/topology"
)

// lettersOf is the part of a plan to which a queue dead-letters, such as its failed queue. Without it, messages that other programs reject would be lost
// or unroutable until a subscriber starts. It is empty if dead letters return to the queue: such a cycle works only when all of it exists, and a part of it
// would lose messages.
func lettersOf(plan topology.Plan, queue topology.Queue) topology.Plan {
	kind := classic
	if layouts.IsQuorum(queue) {
		kind = quorum
	}
	// Policies of the plan may set where they go.
	expected := foreseen(topology.Live{Policies: plan.Policies}, topology.LiveQueue{Queue: queue, Type: kind})
	exchange, dies := expected.Effective("dead-letter-exchange")
	key, fixed := expected.Effective("dead-letter-routing-key")
	if !dies || exchange == "" {
		return topology.Plan{}
	}
	w := &letterWays{plan: plan, from: queue.Name, fixed: fixed, key: fmt.Sprint(key), exchanges: make(map[string]bool), queues: make(map[string]bool)}
	w.follow(fmt.Sprint(exchange))
	if w.returns {
		return topology.Plan{}
	}
	return topology.Plan{
		Exchanges: slices.DeleteFunc(slices.Clone(plan.Exchanges), func(x topology.Exchange) bool { return !w.exchanges[x.Name] || x.Passive }),
		Queues:    slices.DeleteFunc(slices.Clone(plan.Queues), func(q topology.Queue) bool { return !w.queues[q.Name] || q.Passive }),
		Bindings:  w.bindings,
	}
}

// letterWays are the ways of dead letters through a plan.
type letterWays struct {
	plan      topology.Plan
	from      string // the queue that dead-letters
	key       string // their routing key
	fixed     bool   // it is always the same
	exchanges map[string]bool
	queues    map[string]bool
	bindings  []topology.Binding
	returns   bool // some return to the queue, or are dead-lettered again
}

// follow adds what dead letters reach from an exchange.
func (w *letterWays) follow(exchange string) {
	i := slices.IndexFunc(w.plan.Exchanges, func(x topology.Exchange) bool { return x.Name == exchange })
	if i < 0 || w.exchanges[exchange] {
		return
	}
	x := w.plan.Exchanges[i]
	w.exchanges[exchange] = true
	for _, b := range w.plan.Bindings {
		if b.Source != exchange || !w.takes(x, b) {
			continue
		}
		w.bindings = append(w.bindings, b)
		if b.ToExchange {
			w.follow(b.Destination)
			continue
		}
		w.queues[b.Destination] = true
		j := slices.IndexFunc(w.plan.Queues, func(q topology.Queue) bool { return q.Name == b.Destination })
		w.returns = w.returns || b.Destination == w.from || j >= 0 && w.plan.Queues[j].Args["x-dead-letter-exchange"] != nil
	}
	if next, ok := x.Args["alternate-exchange"].(string); ok {
		w.follow(next)
	}
}

// takes reports whether an exchange certainly routes dead letters by a binding.
func (w *letterWays) takes(x topology.Exchange, b topology.Binding) bool {
	switch x.Type {
	case "fanout":
		return true
	case "topic":
		return b.Key == "#" || w.fixed && b.Key == w.key
	case "direct":
		return w.fixed && b.Key == w.key
	}
	return false
}

// moversIn are the queues whose consumers move failed messages to this queue by its name, as rehop's do.
func (m *migration) moversIn(live topology.Live) []topology.LiveQueue {
	var all []topology.LiveQueue
	for _, b := range live.Bindings {
		if b.Source != layouts.ReturnExchange || b.ToExchange || b.Destination == m.want.Name {
			continue
		}
		verdict := m.admin.layouts.of(b.Destination).Fail(layouts.Failure{Message: layouts.Message{Queue: b.Destination}})
		if q, exists := live.Queue(b.Destination); exists && verdict.Do == layouts.Move && verdict.Address.Exchange == "" && verdict.Key == m.want.Name {
			all = append(all, q)
		}
	}
	return all
}

// feeder is a queue whose dead letters may come to the migrated queue by its name, through the default exchange.
type feeder struct {
	topologies.Feeder
	// lossy: messages that are dead-lettered while the queue does not exist may be dropped. No exchange of rehop's can be put in between, so the feeder has
	// to be empty by then. Otherwise the last queue on the way keeps them, and tries again.
	lossy bool
}

// feedersIn finds the feeders of the queue.
func (m *migration) feedersIn(live topology.Live) []feeder {
	router := topologies.RouterOf(live)
	names := map[string]bool{layouts.MigratingQueue(m.want.Name): true}
	var all []feeder
	add := func(found []topologies.Feeder, lossy bool) {
		for _, f := range found {
			if !names[f.Name] {
				names[f.Name] = true
				all = append(all, feeder{f, lossy})
			}
		}
	}
	add(router.Feeders(m.want.Name, func(last topology.LiveQueue) bool { return !atLeastOnce(last) }), true)
	add(router.Feeders(m.want.Name, atLeastOnce), false)
	return all
}

// how is the way of the dead letters, and the reason if that is not obvious.
func (f feeder) how() string {
	s := ""
	if len(f.Through) > 0 {
		s = fmt.Sprintf(` by way of "%s"`, strings.Join(f.Through, `", "`))
	}
	if !sets(f.LiveQueue, "dead-letter-routing-key") {
		s += " (it sets no x-dead-letter-routing-key, so they keep the key that they came with, which may be that name)"
	}
	return s
}

// feederWarnings name the queues whose dead letters come by name.
func (m *migration) feederWarnings() []string {
	var all []string
	for _, f := range m.feeders {
		if !f.lossy {
			all = append(all, fmt.Sprintf("queue %q dead-letters to this queue by its name%s: messages that it dead-letters while the queue is replaced arrive late", f.Name, f.how()))
			continue
		}
		all = append(all, fmt.Sprintf("queue %q dead-letters to this queue by its name%s and holds %d messages: the migration waits until that one is empty, and nobody may publish to it until the end",
			f.Name, f.how(), f.Messages()))
	}
	return all
}

// ErrFeeders: other queues hold messages that they dead-letter to the queue by its name. Migrate again when they are empty, or set
// MigrateOptions.Consumers to AwaitConsumers.
var ErrFeeders = errors.New("other queues hold messages that they dead-letter to this one by its name")

// unfed refuses to begin while another queue holds messages that it may dead-letter to this one by name, unless the migration is to wait for them.
func (m *migration) unfed(ctx context.Context) error {
	if m.options.Consumers != RefuseConsumers || m.progress.Step > 0 {
		return nil
	}
	for _, f := range m.feeders {
		if !f.lossy {
			continue
		}
		n, err := m.inFeeder(ctx, f.LiveQueue)
		switch {
		case err != nil:
			return err
		case n > 0:
			return fmt.Errorf("%w: queue %q holds %d that would come here%s; run it again when that queue is empty, or have the migration wait for it (--consumers %s)", ErrFeeders, f.Name, n, f.how(), AwaitConsumers)
		}
	}
	return nil
}

// inFeeder is how many messages another queue holds, by the figures that the broker has now.
func (m *migration) inFeeder(ctx context.Context, q topology.LiveQueue) (int, error) {
	ready, err := m.ready(ctx, q)
	if err != nil {
		return 0, err
	}
	figures, err := m.admin.management.figures(ctx, q.Name)
	if missing(err) {
		return 0, nil
	}
	return ready + figures.notReady(), err
}

// ready is how many messages of a queue wait to be delivered. The number is exact, unless the queue is exclusive to another connection.
func (m *migration) ready(ctx context.Context, q topology.LiveQueue) (int, error) {
	if q.Exclusive {
		figures, err := m.admin.management.figures(ctx, q.Name)
		if missing(err) {
			return 0, nil
		}
		return figures.waiting(), err
	}
	depth, _, err := existing(m.admin.read.InspectClosely(ctx, q.Name))
	return depth.Messages, err
}
