package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/topology"
)

// refresh finds out from the broker how far the migration is, and whether it can continue.
func (m *migration) refresh(ctx context.Context) error {
	live, err := m.admin.Live(ctx)
	if err != nil {
		return err
	}
	if err := m.exact(ctx, &live); err != nil {
		return err
	}
	done := m.state
	m.instant = live.Product == embeddedProduct
	m.have, _ = live.Queue(m.want.Name)
	m.kept, _ = live.Queue(layouts.MigratingQueue(m.want.Name))
	diff := topology.Compare(topology.Plan{Queues: []topology.Queue{m.want}}, live, nil)
	m.changes = diff.Of(topology.Differs)
	m.state = stateOf(live, m.want, m.changes)
	m.held = m.heldIn(live)
	m.state.leaves = m.held.Name != "" && !m.ordered
	m.missing = m.letters.Missing(topology.Compare(m.letters, live, nil))
	m.state.astray = !m.missing.Empty()
	m.state.keepOrder = m.options.KeepOrder
	m.state.carried, m.state.returned = done.carried, done.returned
	failed := m.admin.layouts.of(m.want.Name).FailedQueue(m.want.Name)
	_, fails := live.Queue(failed)
	m.consumed = fails && failed != m.want.Name && m.admin.layouts.mayConsume(m.want.Name)
	m.movers, m.feeders = m.moversIn(live), m.feedersIn(live)
	switch {
	case !m.state.there && m.kept.Name == "":
		return fmt.Errorf("%w: apply the plan instead", ErrNoQueue)
	case m.have.Type == "stream":
		return errors.New("it is a stream, which keeps consumed messages, so it cannot be migrated")
	case m.have.Temporary():
		return errors.New("it is a temporary queue: stop its consumers, and it is declared as planned when they start again")
	}
	if have, want := layouts.PartitionsOf(m.have.Args), layouts.PartitionsOf(m.want.Args); m.state.there && have != want {
		return fmt.Errorf("a migration cannot change the number of partitions from %d to %d; see docs/ordering.md for how to do that. Nothing has been changed", have, want)
	}
	if _, _, more := m.state.next(); !more {
		return nil
	}
	if unsupported := diff.Of(topology.Unsupported); len(unsupported) > 0 {
		return fmt.Errorf("%s; nothing has been changed", unsupported[0].Hint)
	}
	if err := m.dangers(ctx, live); err != nil {
		return err
	}
	return m.inOrder(ctx)
}

// exact gives the bindings of the queue, and of the gate, the arguments with which they were declared.
func (m *migration) exact(ctx context.Context, live *topology.Live) error {
	keeping := layouts.MigratingQueue(m.want.Name)
	concerned := func(b topology.Binding) bool {
		return len(b.Args) > 0 && (!b.ToExchange && b.Destination == m.want.Name || b.ToExchange && b.Destination == keeping)
	}
	some := slices.DeleteFunc(slices.Clone(live.Bindings), func(b topology.Binding) bool { return !concerned(b) })
	typed, err := m.typing.of(ctx, some)
	live.Bindings = append(slices.DeleteFunc(live.Bindings, concerned), typed...)
	return err
}

// migratedQueue is the queue whose messages are kept in another one. A long name does not fit into the name of the other one: then it is found
// among the existing queues, or among the keys of diverted bindings, one of which is rehop's own with the name as its key. If it is not found, it is the
// part of the name that fits.
func migratedQueue(live topology.Live, keeping string) string {
	for _, q := range live.Queues {
		if layouts.MigratingQueue(q.Name) == keeping {
			return q.Name
		}
	}
	for _, b := range live.Bindings {
		if b.ToExchange && b.Destination == keeping && layouts.MigratingQueue(b.Key) == keeping {
			return b.Key
		}
	}
	return layouts.Migrated(keeping)
}

// dangers refuses settings with which one of the two queues would not keep its messages.
func (m *migration) dangers(ctx context.Context, live topology.Live) error {
	m.unread = unread(live)
	m.fresh = m.newQueue(live)
	for _, check := range []func() error{
		func() error { return m.safekeeping(ctx, live, m.keeper(live)) },
		func() error { return m.plannedPolicies(live) },
		func() error { return m.newcomers(live) },
		func() error { return m.letterExchange(live) },
		func() error { return m.overflow(ctx, live) },
		func() error { return m.try(ctx) },
	} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// letterExchange refuses a new queue that would dead-letter to an exchange that does not exist.
func (m *migration) letterExchange(live topology.Live) error {
	x := setting(m.fresh, "dead-letter-exchange")
	_, exists := live.Exchange(x)
	if x == "" || exists || slices.ContainsFunc(m.missing.Exchanges, func(missing topology.Exchange) bool { return missing.Name == x }) {
		return nil
	}
	return fmt.Errorf("it would dead-letter to exchange %q, which does not exist, so dead letters would be dropped: apply the plan first%s", x, m.orChange(live, "dead-letter-exchange"))
}

// overflow refuses a new queue that would drop messages when they are moved back.
func (m *migration) overflow(ctx context.Context, live topology.Live) error {
	for _, key := range lengthLimits {
		limit, limited := limitOf(m.fresh, key)
		if !limited || !drops(m.fresh) {
			continue
		}
		n, unit, err := m.size(ctx, key)
		if err != nil {
			return err
		}
		if n > limit {
			return fmt.Errorf("it holds %d %s and is to hold %d at most, and would drop its oldest: raise the limit, set x-overflow to reject-publish, or consume its messages%s",
				n, unit, limit, m.orChange(live, key))
		}
	}
	return nil
}

// orChange is advice to change the policy that sets a key for the new queue, if there is one.
func (m *migration) orChange(live topology.Live, key string) string {
	v, _ := m.fresh.Effective(key)
	if byPolicy, set := m.fresh.PolicyArgs[key]; !set || plainValue(byPolicy) != plainValue(v) {
		return ""
	}
	return fmt.Sprintf("; or change %s, which sets %s", policyOf(live, m.fresh, key), key)
}

// size is how many messages or bytes, depending on the limit, the queue and the one that keeps its messages hold together.
func (m *migration) size(ctx context.Context, limit string) (n int, unit string, err error) {
	for _, q := range []string{m.have.Name, m.kept.Name} {
		if q == "" {
			continue
		}
		depth, err := m.admin.read.InspectClosely(ctx, q)
		if err != nil {
			return 0, "", queueError(err)
		}
		if limit == "max-length" {
			n, unit = n+depth.Messages, "messages"
			continue
		}
		figures, err := m.admin.management.figures(ctx, q)
		if err != nil {
			return 0, "", err
		}
		bytes, _ := figures.bytes()
		n, unit = n+bytes, "bytes"
	}
	return n, unit, nil
}

// figures are the broker's statistics of a queue, which are seconds late. Pointers are nil while the broker has no figure yet.
type figures struct {
	Ready          *int            `json:"messages_ready"`
	Unacked        *int            `json:"messages_unacknowledged"`
	Delayed        int             `json:"messages_delayed"` // by a quorum queue of RabbitMQ 4.3
	Reductions     *int            `json:"reductions"`
	Bytes          *int            `json:"message_bytes"`
	Persistent     *int            `json:"messages_persistent"` // of a classic queue of RabbitMQ, collected together with the bytes
	Policy         string          `json:"policy"`
	OperatorPolicy string          `json:"operator_policy"`
	Backing        json.RawMessage `json:"backing_queue_status"`        // of a classic queue of RabbitMQ 3
	PolicyArgs     json.RawMessage `json:"effective_policy_definition"` // empty while the broker does not have it yet
}

// bytes is how many bytes the queue holds, and in how many messages at least. RabbitMQ collects the bytes of a classic queue at other times than the
// number of its messages, so that number does not belong to the bytes. RabbitMQ 3 has the right number in the status of the backing queue. RabbitMQ 4
// shows only how many persistent messages it has counted, some of which are unacked.
func (f figures) bytes() (bytes, messages int) {
	if f.Bytes == nil {
		return 0, 0
	}
	var backing struct {
		Len *int `json:"len"`
	}
	if err := json.Unmarshal(f.Backing, &backing); err == nil && backing.Len != nil {
		return *f.Bytes, *backing.Len
	}
	if f.Persistent != nil {
		return *f.Bytes, max(*f.Persistent-f.held(), 0)
	}
	return *f.Bytes, f.waiting()
}

// waiting is how many messages wait to be delivered.
func (f figures) waiting() int { return zeroIfNil(f.Ready) }

// held is how many messages are unacked.
func (f figures) held() int { return zeroIfNil(f.Unacked) }

func zeroIfNil(n *int) int {
	if n == nil {
		return 0
	}
	return *n
}

// notReady is how many messages are not ready but may become so: they are unacked, or the queue delays them.
func (f figures) notReady() int { return f.held() + f.Delayed }

func (m *management) figures(ctx context.Context, queue string) (f figures, err error) {
	err = m.get(ctx, "/api/queues/%s/%s", &f, queue)
	return f, err
}

// consumers makes sure that the queue to be deleted has no consumers, and that no consumers of other queues publish to it by name.
func (m *migration) consumers(ctx context.Context) error {
	if m.state.wanted || !m.state.there || m.options.Consumers == IgnoreConsumers {
		return nil
	}
	busy := append([]topology.LiveQueue{m.have}, m.movers...)
	for _, f := range m.feeders {
		busy = append(busy, f.LiveQueue)
	}
	for _, q := range busy {
		if q.Exclusive {
			continue // other connections cannot see its consumers; the migration waits until nothing is unacked
		}
		if err := m.unconsumed(ctx, q.Name); err != nil {
			return err
		}
	}
	return m.unfed(ctx)
}

func (m *migration) unconsumed(ctx context.Context, queue string) error {
	for {
		depth, err := m.admin.read.InspectClosely(ctx, queue)
		switch {
		case isMissing(err) && queue != m.want.Name:
			return nil
		case err != nil:
			return queueError(err)
		case depth.Consumers == 0:
			return nil
		case m.options.Consumers == RefuseConsumers && queue != m.want.Name:
			return fmt.Errorf("%w: %d of queue %q, which move failed messages to it; stop them first", ErrConsumers, depth.Consumers, queue)
		case m.options.Consumers == RefuseConsumers:
			return fmt.Errorf("%w: %d; stop them first", ErrConsumers, depth.Consumers)
		}
		if err := m.waiting(ctx, fmt.Sprintf("%d consumers of queue %q to stop", depth.Consumers, queue)); err != nil {
			return err
		}
	}
}
