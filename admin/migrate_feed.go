package admin

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/internal/topologies"
	"github.com/rehop/rehop/topology"
)

// moversIn are the queues whose consumers move failed messages to this one by its name, as rehop's do.
func (m *migration) moversIn(live topology.Live) []topology.LiveQueue {
	var all []topology.LiveQueue
	for _, b := range live.Bindings {
		if b.Source != layouts.ReturnExchange || b.ToExchange || b.Destination == m.want.Name {
			continue
		}
		rest := m.admin.layouts.of(b.Destination).Fail(layouts.Failure{Message: layouts.Message{Queue: b.Destination}})
		if q, there := live.Queue(b.Destination); there && rest.Do == layouts.Move && rest.Address.Exchange == "" && rest.Key == m.want.Name {
			all = append(all, q)
		}
	}
	return all
}

// feeder is a queue whose dead letters may come to the one that is migrated by its name, through the default exchange.
type feeder struct {
	topologies.Feeder
	// lossy: what dies on its way while the queue does not exist may be dropped. No exchange of rehop's can be put in between, so the feeder has to be
	// empty by then. Otherwise the last queue on the way keeps it, and tries again.
	lossy bool
}

// feedersIn finds them.
func (m *migration) feedersIn(live topology.Live) []feeder {
	router := topologies.RouterOf(live)
	names := make(map[string]bool)
	var all []feeder
	add := func(found []topologies.Feeder, lossy bool) {
		for _, f := range found {
			if f.Name != layouts.MovingQueue(m.want.Name) && !names[f.Name] {
				names[f.Name] = true
				all = append(all, feeder{f, lossy})
			}
		}
	}
	add(router.Feeders(m.want.Name, func(last topology.LiveQueue) bool { return !atLeastOnce(last) }), true)
	add(router.Feeders(m.want.Name, atLeastOnce), false)
	return all
}

// how tells by which way the dead letters come, and what makes it so if that is not plain.
func (f feeder) how() string {
	var s strings.Builder
	if len(f.Through) > 0 {
		fmt.Fprintf(&s, " by way of %s", strings.Join(quoted(f.Through), ", "))
	}
	if _, fixed := f.Effective("dead-letter-routing-key"); !fixed {
		s.WriteString(" (it sets no x-dead-letter-routing-key, so they keep the key that they came with, which may be that name)")
	}
	return s.String()
}

func quoted(names []string) (all []string) {
	for _, name := range names {
		all = append(all, strconv.Quote(name))
	}
	return all
}

// feederWarnings name the queues whose dead letters come by name.
func (m *migration) feederWarnings() []string {
	var all []string
	for _, f := range m.feeders {
		if !f.lossy {
			all = append(all, fmt.Sprintf("queue %q dead-letters to this queue by its name%s: what dies there while the queue is replaced comes late", f.Name, f.how()))
			continue
		}
		all = append(all, fmt.Sprintf("queue %q dead-letters to this queue by its name%s and holds %d messages: the queue is not replaced before that one is empty, and nobody may publish to it until the end",
			f.Name, f.how(), f.Messages()))
	}
	return all
}

// ErrFeeders: other queues hold messages that they dead-letter to the queue by its name.
var ErrFeeders = errors.New("other queues hold messages that they dead-letter to this one by its name")

// unfed refuses to begin while messages may die in another queue and come by name, unless they are to be waited for.
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
			return fmt.Errorf("%w: queue %q holds %d that would come here%s; run it again when that queue is empty, or have the migration wait for it (option Consumers, --consumers: %s)", ErrFeeders, f.Name, n, f.how(), AwaitConsumers)
		}
	}
	return nil
}

// inFeeder is how many messages another queue holds, as far as the broker can tell at once.
func (m *migration) inFeeder(ctx context.Context, q topology.LiveQueue) (int, error) {
	ready, err := m.ready(ctx, q)
	if err != nil {
		return 0, err
	}
	told, err := m.admin.management.figures(ctx, q.Name)
	if missing(err) {
		return 0, nil
	}
	return ready + told.away(), err
}

// ready is how many messages of a queue wait to be delivered, without delay unless it belongs to another connection.
func (m *migration) ready(ctx context.Context, q topology.LiveQueue) (int, error) {
	if q.Exclusive {
		told, err := m.admin.management.figures(ctx, q.Name)
		if missing(err) {
			return 0, nil
		}
		return told.waiting(), err
	}
	depth, err := m.admin.read.InspectClosely(ctx, q.Name)
	if errors.Is(queueError(err), ErrNoQueue) {
		return 0, nil
	}
	return depth.Messages, err
}
