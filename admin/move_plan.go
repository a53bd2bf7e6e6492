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

// choose finds the queues whose messages are moved, and what belongs to which queue.
func (r *relocation) choose() {
	r.owners = make(map[string]string)
	all := make(map[string]bool)
	for _, q := range r.source.Queues {
		all[q.Name] = true
	}
	exists := func(queue string) bool { return all[queue] }
	r.consumed = r.from.layouts.recognise(all, exists)
	for name := range all {
		of := r.from.layouts.of(name)
		companions := []string{layouts.HeldQueue(name), layouts.LandingQueue(name), layouts.HomeQueue(name)}
		if !isCommon(of, name) {
			companions = append(companions, of.FailedQueue(name))
		}
		for _, companion := range companions {
			if all[companion] && companion != name {
				r.owners[companion] = layouts.Partitioned(name)
			}
		}
	}
	filtered := len(r.options.Queues)+len(r.options.Except) > 0
	r.queues = nil
	for _, q := range r.source.Queues {
		m := movedQueue{LiveQueue: q, alone: isAlone(q), ordered: hasOwner(q.Queue)}
		_, m.waits = layouts.WaitingIn(q.Name, nil, r.began)
		m.shared = m.waits && filtered
		if r.moves(q) && (m.waits || r.wants(q.Name)) {
			r.queues = append(r.queues, m)
		}
	}
	slices.SortStableFunc(r.queues, func(x, y movedQueue) int { return rank(x) - rank(y) })
	r.ways = returnWays{source: waysOf(r.source.Bindings), target: waysOf(r.target.Bindings), owners: r.owners}
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

// isAlone reports whether a queue has a single active consumer.
func isAlone(q topology.LiveQueue) bool {
	alone, _ := q.Args["x-single-active-consumer"].(bool)
	return alone
}

// moves reports whether the messages of a queue can be moved. plan notes those that cannot.
func (r *relocation) moves(q topology.LiveQueue) bool {
	return !q.Exclusive && !q.AutoDelete && !layouts.IsPassing(q.Name) && q.Type != stream
}

const stream = "stream"

// wants reports whether a queue, or the queue that it belongs to, is to be moved.
func (r *relocation) wants(queue string) bool {
	names := []string{queue, layouts.Partitioned(queue)}
	if owner, ok := r.owners[queue]; ok {
		names = append(names, owner)
	}
	matches := func(patterns []string) bool {
		return slices.ContainsFunc(patterns, func(p string) bool {
			return slices.ContainsFunc(names, func(name string) bool { return keyMatches(p, name) })
		})
	}
	return (len(r.options.Queues) == 0 || matches(r.options.Queues)) && !matches(r.options.Except)
}

// plan finds out what would be done, and what prevents it.
func (r *relocation) plan(ctx context.Context) (MovePlan, error) {
	var p MovePlan
	for _, pattern := range r.options.Queues {
		if !slices.ContainsFunc(r.source.Queues, func(q topology.LiveQueue) bool { return keyMatches(pattern, q.Name) }) {
			return p, fmt.Errorf("%w: %q on the source", ErrNoQueue, pattern)
		}
	}
	plan, err := r.definitions(ctx, &p)
	if err != nil {
		return p, err
	}
	if err := r.tryPolicies(ctx, plan.Policies, &p); err != nil {
		return p, err
	}
	for _, part := range []topology.Plan{r.options.Plan, plan} {
		done, err := r.to.apply(ctx, part, true)
		if err != nil && !errors.Is(err, ErrRefused) {
			return p, fmt.Errorf("compare the target with the source: %w", err)
		}
		p.Declared, p.Refused = append(p.Declared, done.Declared...), append(p.Refused, done.Refused...)
		for _, d := range done.Left.Of(topology.Differs, topology.Overridden, topology.Unsupported) {
			p.note("%s stays unchanged on the target: %s is %v there, and %v on the source", d.Object, d.Argument, argument(d.Have), argument(d.Want))
		}
	}
	if err := r.checkOrder(ctx, plan, &p); err != nil {
		return p, err
	}
	if r.options.Users {
		users, err := r.users(ctx, &p)
		if err != nil {
			return p, err
		}
		for _, u := range users {
			p.Users = append(p.Users, u.Name)
		}
	}
	for _, q := range r.queues {
		p.Queues = append(p.Queues, QueueSize{Name: q.Name, Messages: q.Messages()})
	}
	return p, nil
}

// checkOrder refuses to move queues whose messages could lose their order.
func (r *relocation) checkOrder(ctx context.Context, plan topology.Plan, p *MovePlan) error {
	for _, q := range r.queues {
		if !q.alone {
			continue
		}
		depth, exists, err := existing(r.from.read.Inspect(ctx, q.Name))
		if err != nil {
			return err
		}
		if !exists {
			continue
		}
		switch err := r.keepsOrder(ctx, q, depth.Consumers); {
		case errors.Is(err, ErrInOrder):
			p.refuse(q.Object(), "%v", err)
		case err != nil:
			return err
		}
		there, planned := r.onTarget(q.Name, plan)
		if q.ordered && planned && (!hasOwner(there) || layouts.PartitionsOf(there.Args) != layouts.PartitionsOf(q.Args)) {
			p.refuse(q.Object(), "its messages are handled in order by key on the source, and on the target with other settings or not at all: "+
				"messages that wait in order would be left behind; use the same order-by and partitions, or let the source handle them to the end first")
		}
	}
	return nil
}

// onTarget is a queue as the target has it, or will have it.
func (r *relocation) onTarget(name string, plan topology.Plan) (topology.Queue, bool) {
	if q, exists := r.target.Queue(name); exists {
		return q.Queue, true
	}
	for _, q := range append(slices.Clone(r.options.Plan.Queues), plan.Queues...) {
		if q.Name == name {
			return q, true
		}
	}
	return topology.Queue{}, false
}
