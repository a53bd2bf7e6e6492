package admin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/layout"
	"github.com/rehop/rehop/topology"
)

// Policies change a queue at once, whatever it was declared with. A migration looks at what they make of the queue that
// keeps messages and of the new one, before either exists.

// foreseen is a queue as policies have it, or would have it.
func foreseen(live topology.Live, q topology.LiveQueue) topology.LiveQueue {
	live.Exchanges, live.Queues = nil, []topology.LiveQueue{q}
	live.ApplyPolicies()
	return live.Queues[0]
}

// ruler names the policy that sets a key of a queue.
func ruler(live topology.Live, q topology.LiveQueue, key string) string {
	for _, p := range live.OperatorPolicies {
		if v, sets := p.Definition[key]; p.Name == q.OperatorPolicy && sets && plainValue(v) == plainValue(q.PolicyArgs[key]) {
			return fmt.Sprintf("operator policy %q", p.Name)
		}
	}
	return fmt.Sprintf("policy %q", q.Policy)
}

// limitOf is a setting that is a number.
func limitOf(q topology.LiveQueue, key string) (int, bool) {
	v, set := q.Effective(key)
	if !set {
		return 0, false
	}
	return number(v)
}

// drops reports whether a queue that is full makes room by dropping its oldest messages.
func drops(q topology.LiveQueue) bool {
	return !strings.HasPrefix(setting(q, "overflow"), "reject-publish")
}

// keeper is the queue that keeps messages, as it is or will be.
func (m *migration) keeper(live topology.Live) topology.LiveQueue {
	if m.kept.Name != "" {
		return m.kept
	}
	args := m.keepingArgs()
	return foreseen(live, topology.LiveQueue{Queue: topology.Queue{Name: layouts.MovingQueue(m.want.Name), Args: args}, Type: args["x-queue-type"].(string)})
}

// newQueue is the queue as it will be. What the broker says of the present one helps with patterns that only it can read.
func (m *migration) newQueue(live topology.Live) topology.LiveQueue {
	kind := live.DefaultType
	if said, ok := m.want.Args["x-queue-type"].(string); ok {
		kind = strings.ToLower(said)
	}
	if kind == "" {
		kind = string(layout.Classic)
	}
	return foreseen(live, topology.LiveQueue{Queue: m.want, Type: kind, Durable: true, Policy: m.have.Policy, OperatorPolicy: m.have.OperatorPolicy})
}

// safekeeping refuses policies that take messages from the queue that keeps them, while the queue itself would not lose them.
func (m *migration) safekeeping(ctx context.Context, live topology.Live, kept topology.LiveQueue) error {
	own := m.have
	if !m.state.there {
		own = m.fresh
	}
	refuse := func(key, why string) error {
		v, _ := kept.Effective(key)
		return fmt.Errorf("%s sets %s to %s for queue %q, which is to keep its messages meanwhile: %s; "+
			`narrow its pattern so that it leaves out rehop's queues, as in ^(?!rehop\.), or set one of a higher priority for ^rehop\.moving\. that does not, and run the migration again`,
			ruler(live, kept, key), key, argument(plainValue(v)), kept.Name, why)
	}
	if _, set := kept.Effective("expires"); set {
		return refuse("expires", "the broker would delete it with all that it holds")
	}
	if limit, set := limitOf(kept, "delivery-limit"); set && limit >= 0 && limit < highLimit {
		return refuse("delivery-limit", "what is moved and given back too often would be taken out of it")
	}
	if ttl, set := limitOf(kept, "message-ttl"); set {
		if mine, also := limitOf(own, "message-ttl"); !also || ttl < mine {
			return refuse("message-ttl", "what is not moved back by then would be taken out of it")
		}
	}
	for _, key := range []string{"dead-letter-exchange", "dead-letter-routing-key"} {
		_, declared := kept.Args["x-"+key]
		v, set := kept.Effective(key)
		if mine, _ := own.Effective(key); set && !declared && plainValue(mine) != plainValue(v) {
			return refuse(key, "what expires there would go elsewhere than from the queue itself")
		}
	}
	return m.room(ctx, own, kept, refuse)
}

// room refuses limits with which the queue that keeps messages would drop some, or hold fewer than the queue itself.
func (m *migration) room(ctx context.Context, own, kept topology.LiveQueue, refuse func(key, why string) error) error {
	for _, key := range []string{"max-length", "max-length-bytes"} {
		limit, limited := limitOf(kept, key)
		if !limited {
			continue
		}
		if drops(kept) {
			if _, ruled := kept.PolicyArgs["overflow"]; ruled {
				return refuse("overflow", "with its limit it would drop the oldest messages")
			}
			return refuse(key, "it would drop the oldest messages")
		}
		if m.state.wanted {
			continue // on the way back it refuses what is too much, and loses nothing
		}
		if mine, also := limitOf(own, key); !also || limit < mine {
			return refuse(key, "the queue itself may hold more")
		}
		messages, bytes, err := m.held(ctx)
		if err != nil {
			return err
		}
		if key == "max-length" && messages > limit {
			return refuse(key, fmt.Sprintf("the queue holds %d messages", messages))
		}
		if key == "max-length-bytes" && bytes > limit {
			return refuse(key, fmt.Sprintf("the queue holds %d bytes", bytes))
		}
	}
	return nil
}

// plannedQueue is the new queue as the plan alone has it.
func (m *migration) plannedQueue() topology.LiveQueue {
	return foreseen(topology.Live{Policies: m.policies}, topology.LiveQueue{Queue: m.want, Type: m.fresh.Type})
}

// plannedPolicies refuses to go on without the policies in which the plan has settings of the queue.
func (m *migration) plannedPolicies(live topology.Live) error {
	planned := m.plannedQueue()
	if planned.Policy == "" || m.state.wanted {
		return nil
	}
	const advice = "apply the plan's policies first (Admin.Apply), or set it by hand"
	without := strings.Join(slices.Sorted(maps.Keys(planned.PolicyArgs)), ", ")
	i := slices.IndexFunc(m.policies, func(p topology.Policy) bool { return p.Name == planned.Policy })
	differs := topology.Compare(topology.Plan{Policies: m.policies[i : i+1]}, live, func(string) bool { return false })
	switch {
	case len(differs.Of(topology.Missing)) > 0:
		return fmt.Errorf("policy %q of the plan is not set, and the new queue would be without %s: %s", planned.Policy, without, advice)
	case len(differs) > 0:
		return fmt.Errorf("policy %q of the plan is set otherwise (%s is %s, planned is %s): change it to what the plan says, or the plan",
			planned.Policy, differs[0].Argument, argument(plainValue(differs[0].Have)), argument(plainValue(differs[0].Want)))
	case m.fresh.Policy != planned.Policy:
		return fmt.Errorf("policy %q applies in the place of policy %q of the plan, and the new queue would be without %s: give that one the higher priority",
			m.fresh.Policy, planned.Policy, without)
	}
	return nil
}

// newcomers refuses policies that would take messages from the new queue though neither the plan nor the queue as it is has such a
// setting.
func (m *migration) newcomers(live topology.Live) error {
	if m.state.wanted || !m.state.there {
		return nil
	}
	planned := m.plannedQueue()
	for key, why := range map[string]string{"message-ttl": "what it holds for longer would be taken out of it", "expires": "the broker would delete it while nobody consumes it"} {
		limit, set := limitOf(m.fresh, key)
		if _, ruled := m.fresh.PolicyArgs[key]; !set || !ruled {
			continue
		}
		intended, said := limitOf(planned, key)
		now, already := limitOf(m.have, key)
		if !(said && intended <= limit) && !(already && now <= limit) {
			return fmt.Errorf("%s sets %s to %d for the new queue, which neither the plan nor the queue as it is has: %s; narrow its pattern, or write it into the plan",
				ruler(live, m.fresh, key), key, limit, why)
		}
	}
	return nil
}

// unread reports whether there are policies that may take messages away, with a pattern that only the broker can read.
func unread(live topology.Live) bool {
	return slices.ContainsFunc(slices.Concat(live.Policies, live.OperatorPolicies), func(p topology.Policy) bool {
		_, err := regexp.Compile(p.Pattern)
		return err != nil && slices.ContainsFunc(harmful, func(key string) bool { return p.Definition[key] != nil })
	})
}

// prepare declares what keeps messages. Where only the broker can tell which policies apply to it, it is asked before any message
// is led there; if one is harmful, nothing of it is left.
func (m *migration) prepare(ctx context.Context) error {
	if err := m.declare(ctx, m.keeping()); err != nil || !m.unread {
		return err
	}
	for {
		told, err := m.admin.management.figures(ctx, layouts.MovingQueue(m.want.Name))
		switch {
		case err != nil:
			return err
		case len(told.Ruled) == 0:
			if err := m.waiting(ctx, fmt.Sprintf("the broker to tell which policies apply to queue %q", layouts.MovingQueue(m.want.Name))); err != nil {
				return err
			}
			continue
		}
		live, err := m.admin.Live(ctx)
		if err != nil {
			return err
		}
		kept, _ := live.Queue(layouts.MovingQueue(m.want.Name))
		kept.Policy, kept.OperatorPolicy = told.Policy, told.OperatorPolicy
		fault := m.safekeeping(ctx, live, foreseen(live, kept))
		if fault != nil && len(m.state.diverted) == 0 {
			m.state.aside = true
			return errors.Join(fault, m.clear(ctx))
		}
		return fault
	}
}
