package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/topology"
)

// MovePlan is what Move would do.
type MovePlan struct {
	// Declared is what the target lacks and gets.
	Declared []topology.Object `json:"declared"`
	// Users are the users that the target lacks and gets.
	Users []string `json:"users,omitempty"`
	// Notes are what is not moved, or only in another form, and why.
	Notes []string `json:"notes,omitempty"`
	// Refused is what prevents the move.
	Refused []Refusal `json:"refused,omitempty"`
	// Queues are the queues whose messages are moved, in this order, with what they hold, some seconds ago.
	Queues []QueueSize `json:"queues"`
}

// String has a line for each object that would be declared, each note, each refusal and each queue.
func (p MovePlan) String() string {
	var s strings.Builder
	for _, o := range p.Declared {
		fmt.Fprintf(&s, "declare %s\n", o)
	}
	for _, user := range p.Users {
		fmt.Fprintf(&s, "create user %q\n", user)
	}
	for _, note := range p.Notes {
		fmt.Fprintf(&s, "note: %s\n", note)
	}
	for _, q := range p.Queues {
		fmt.Fprintf(&s, "move queue %q: %d messages\n", q.Name, q.Messages)
	}
	for _, r := range p.Refused {
		fmt.Fprintf(&s, "refused: %s: %s\n", r.Object, r.Reason)
	}
	if s.Len() == 0 {
		return "nothing to do\n"
	}
	return s.String()
}

// refusal is an ErrRefused with all that prevents the move, or nil.
func (p MovePlan) refusal() error {
	var faults refusals
	for _, r := range p.Refused {
		faults = append(faults, fmt.Errorf("%s: %s", r.Object, r.Reason))
	}
	if faults == nil {
		return nil
	}
	return faults
}

func (p *MovePlan) refuse(o topology.Object, format string, args ...any) {
	p.Refused = append(p.Refused, Refusal{Object: o, Reason: fmt.Sprintf(format, args...)})
}

func (p *MovePlan) note(format string, args ...any) {
	p.Notes = append(p.Notes, fmt.Sprintf(format, args...))
}

// findOwners finds which queues rehop consumes, and which queues belong to another one.
func (m *move) findOwners() {
	m.owners = make(map[string]string)
	all := make(map[string]bool)
	for _, q := range m.source.Queues {
		all[q.Name] = true
	}
	m.consumed = m.from.layouts.recognise(all, func(queue string) bool { return all[queue] })
	for name := range all {
		of := m.from.layouts.of(name)
		companions := []string{layouts.HeldQueue(name), layouts.LandingQueue(name), layouts.HomeQueue(name)}
		if !isCommon(of, name) {
			companions = append(companions, of.FailedQueue(name))
		}
		for _, companion := range companions {
			if all[companion] && companion != name {
				m.owners[companion] = layouts.Partitioned(name)
			}
		}
	}
}

// chooseQueues finds the queues whose messages are moved, in their order.
func (m *move) chooseQueues() {
	filtered := len(m.options.Queues)+len(m.options.Except) > 0
	m.queues = nil
	for _, live := range m.source.Queues {
		q := movedQueue{LiveQueue: live, singleActive: hasSingleActiveConsumer(live), ordered: hasOwner(live.Queue)}
		_, q.waits = layouts.WaitingIn(q.Name, nil, m.began)
		q.shared = q.waits && filtered
		if m.isMovable(live) && (q.waits || m.wants(q.Name)) {
			m.queues = append(m.queues, q)
		}
	}
	slices.SortStableFunc(m.queues, func(x, y movedQueue) int { return rank(x) - rank(y) })
}

// rank sorts queues: held queues before those that they belong to, because their messages come first, and delay queues last, because
// meanwhile some of their messages return to the other queues.
func rank(q movedQueue) int {
	switch {
	case q.ordered && layouts.IsHeldQueue(q.Name):
		return 0
	case q.waits:
		return 2
	}
	return 1
}

// hasSingleActiveConsumer reports whether a queue delivers to one of its consumers only.
func hasSingleActiveConsumer(q topology.LiveQueue) bool {
	single, _ := q.Args["x-single-active-consumer"].(bool)
	return single
}

// isMovable reports whether the messages of a queue can be moved. plan notes those that cannot.
func (m *move) isMovable(q topology.LiveQueue) bool {
	return !q.Exclusive && !q.AutoDelete && !layouts.IsPassing(q.Name) && q.Type != stream
}

const stream = "stream"

// wants reports whether a queue, or the queue that it belongs to, is to be moved.
func (m *move) wants(queue string) bool {
	names := []string{queue, layouts.Partitioned(queue)}
	if owner, ok := m.owners[queue]; ok {
		names = append(names, owner)
	}
	matches := func(patterns []string) bool {
		return slices.ContainsFunc(patterns, func(p string) bool {
			return slices.ContainsFunc(names, func(name string) bool { return keyMatches(p, name) })
		})
	}
	return (len(m.options.Queues) == 0 || matches(m.options.Queues)) && !matches(m.options.Except)
}

// plan finds out what would be done, and what prevents it.
func (m *move) plan(ctx context.Context) (MovePlan, error) {
	var p MovePlan
	for _, pattern := range m.options.Queues {
		if !slices.ContainsFunc(m.source.Queues, func(q topology.LiveQueue) bool { return keyMatches(pattern, q.Name) }) {
			return p, fmt.Errorf("%w: %q on the source", ErrNoQueue, pattern)
		}
	}
	plan, err := m.definitions(ctx, &p)
	if err != nil {
		return p, err
	}
	if err := m.tryPolicies(ctx, plan.Policies, &p); err != nil {
		return p, err
	}
	done, err := m.to.apply(ctx, m.options.planWith(plan), true)
	if err != nil && !errors.Is(err, ErrRefused) {
		return p, fmt.Errorf("compare the target with the source: %w", err)
	}
	p.Declared, p.Refused = done.Declared, append(p.Refused, done.Refused...)
	for _, d := range done.Left {
		switch {
		case d.Kind == topology.Missing && d.Do == topology.Ask:
			p.refuse(d.Object, "flows of the target use it unchanged, and neither the source nor the target has it: have it created on the target, or correct the name")
		case slices.Contains([]topology.Kind{topology.Differs, topology.Overridden, topology.Unsupported}, d.Kind):
			p.note("%s stays unchanged on the target: %s is %v there, and %v on the source", d.Object, d.Argument, argument(d.Have), argument(d.Want))
		}
	}
	if err := m.checkExclusive(ctx, &p); err != nil {
		return p, err
	}
	if err := m.checkOrder(ctx, plan, &p); err != nil {
		return p, err
	}
	if err := m.checkRoom(ctx, plan, &p); err != nil {
		return p, err
	}
	if m.options.Users {
		users, err := m.users(ctx, &p)
		if err != nil {
			return p, err
		}
		for _, u := range users {
			p.Users = append(p.Users, u.Name)
		}
	}
	for _, q := range m.queues {
		p.Queues = append(p.Queues, QueueSize{Name: q.Name, Messages: q.Messages()})
	}
	return p, nil
}

// checkExclusive refuses to move queues that a consumer of the source has exclusively, because nobody else can read them.
func (m *move) checkExclusive(ctx context.Context, p *MovePlan) error {
	var consumers []struct {
		Queue     perhaps[apiName] `json:"queue"`
		Tag       string           `json:"consumer_tag"`
		Exclusive bool             `json:"exclusive"`
	}
	if err := m.from.management.get(ctx, "/api/consumers/%s?columns=queue.name,consumer_tag,exclusive", &consumers); err != nil {
		if refused(err) {
			return nil // the move itself finds them
		}
		return err
	}
	for _, c := range consumers {
		at := slices.IndexFunc(m.queues, func(q movedQueue) bool { return q.Name == c.Queue.object.Name })
		if c.Exclusive && at >= 0 {
			p.refuse(m.queues[at].Object(), "consumer %q of the source has it exclusively, so nobody else can read it: stop that consumer, or leave the queue out", c.Tag)
		}
	}
	return nil
}

// checkOrder refuses to move queues whose messages could lose their order.
func (m *move) checkOrder(ctx context.Context, plan topology.Plan, p *MovePlan) error {
	for _, q := range m.queues {
		if !q.singleActive {
			continue
		}
		depth, exists, err := existing(m.from.read.Inspect(ctx, q.Name))
		if err != nil {
			return err
		}
		if !exists {
			continue
		}
		switch err := m.keepsOrder(ctx, q, depth.Consumers); {
		case errors.Is(err, ErrInOrder):
			p.refuse(q.Object(), "%v", err)
		case err != nil:
			return err
		}
		there, planned := m.onTarget(q.Name, plan)
		if q.ordered && planned && (!hasOwner(there) || layouts.PartitionsOf(there.Args) != layouts.PartitionsOf(q.Args)) {
			p.refuse(q.Object(), "its messages are handled in order by key on the source, and on the target with other settings or not at all: "+
				"messages that wait in order would be left behind; use the same order-by and partitions, or let the source handle them to the end first")
		}
	}
	return nil
}

// onTarget is a queue as the target has it, or will have it.
func (m *move) onTarget(name string, plan topology.Plan) (topology.Queue, bool) {
	if q, exists := m.target.Queue(name); exists {
		return q.Queue, true
	}
	for _, q := range append(slices.Clone(m.options.Plan.Queues), plan.Queues...) {
		if q.Name == name {
			return q, true
		}
	}
	return topology.Queue{}, false
}
