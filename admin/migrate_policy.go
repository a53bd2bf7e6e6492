package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/topology"
)

// Policies change a queue at once, whatever its arguments are. A migration computes what they do to the queue that keeps messages and to the new queue,
// before either exists.

// keeper is the queue that keeps messages, which may not exist yet.
func (m *migration) keeper(live topology.Live) topology.LiveQueue {
	if m.kept.Name != "" {
		return m.kept
	}
	args := m.keepingArgs()
	return foreseen(live, topology.LiveQueue{Queue: topology.Queue{Name: layouts.MigratingQueue(m.want.Name), Args: args}, Type: args["x-queue-type"].(string)})
}

// newQueue is the queue as it will be. The policies of the present queue are used for patterns that only the broker can read.
func (m *migration) newQueue(live topology.Live) topology.LiveQueue {
	wanted, _ := m.want.Args["x-queue-type"].(string)
	kind := cmp.Or(strings.ToLower(wanted), live.DefaultType, classic)
	return foreseen(live, topology.LiveQueue{Queue: m.want, Type: kind, Durable: true, Policy: m.have.Policy, OperatorPolicy: m.have.OperatorPolicy})
}

// safekeeping refuses policies that would remove messages from the queue that keeps them, while the queue itself would keep them.
func (m *migration) safekeeping(ctx context.Context, live topology.Live, kept topology.LiveQueue) error {
	own := m.have
	if !m.state.there {
		own = m.fresh
	}
	refuse := func(key, why string) error {
		v, _ := kept.Effective(key)
		return fmt.Errorf("%s sets %s to %s for queue %q, which is to keep its messages meanwhile: %s; "+
			`narrow its pattern so that it does not match rehop's queues, as in ^(?!rehop\.), or set one of a higher priority for ^rehop\.migrating\. without this setting, and run the migration again`,
			policyOf(live, kept, key), key, argument(plainValue(v)), kept.Name, why)
	}
	if sets(kept, "expires") {
		return refuse("expires", "the broker would delete it with all its messages")
	}
	if limit, set := limitOf(kept, "delivery-limit"); set && limit >= 0 && limit < highLimit {
		return refuse("delivery-limit", "messages that are moved and requeued too often would be removed from it")
	}
	if ttl, set := limitOf(kept, "message-ttl"); set {
		if mine, also := limitOf(own, "message-ttl"); !also || ttl < mine {
			return refuse("message-ttl", "messages that are not moved back by then would be removed from it")
		}
	}
	for _, key := range []string{"dead-letter-exchange", "dead-letter-routing-key"} {
		_, declared := kept.Args["x-"+key]
		v, set := kept.Effective(key)
		if mine, _ := own.Effective(key); set && !declared && plainValue(mine) != plainValue(v) {
			return refuse(key, "expired messages would be dead-lettered differently than from the queue itself")
		}
	}
	return m.room(ctx, own, kept, refuse)
}

// room refuses limits with which the queue that keeps messages would drop some, or hold less than the queue itself.
func (m *migration) room(ctx context.Context, own, kept topology.LiveQueue, refuse func(key, why string) error) error {
	for _, key := range lengthLimits {
		limit, limited := limitOf(kept, key)
		if !limited {
			continue
		}
		if drops(kept) {
			if _, byPolicy := kept.PolicyArgs["overflow"]; byPolicy {
				return refuse("overflow", "with its limit it would drop the oldest messages")
			}
			return refuse(key, "it would drop the oldest messages")
		}
		if m.state.wanted {
			continue // on the way back it rejects what exceeds the limit, and loses nothing
		}
		if mine, also := limitOf(own, key); !also || limit < mine {
			return refuse(key, "the queue itself may hold more")
		}
		n, unit, err := m.size(ctx, key)
		if err != nil {
			return err
		}
		if n > limit {
			return refuse(key, fmt.Sprintf("the queue holds %d %s", n, unit))
		}
	}
	return nil
}

// plannedQueue is the new queue with only the policies of the plan.
func (m *migration) plannedQueue() topology.LiveQueue {
	return foreseen(topology.Live{Policies: m.policies}, topology.LiveQueue{Queue: m.want, Type: m.fresh.Type})
}

// plannedPolicies refuses to continue while the plan's policy for the queue does not apply to it.
func (m *migration) plannedPolicies(live topology.Live) error {
	planned := m.plannedQueue()
	if planned.Policy == "" || m.state.wanted {
		return nil
	}
	const advice = "apply the plan's policies first (rehop topology apply), or set it by hand"
	without := strings.Join(slices.Sorted(maps.Keys(planned.PolicyArgs)), ", ")
	i := slices.IndexFunc(m.policies, func(p topology.Policy) bool { return p.Name == planned.Policy })
	differs := topology.Compare(topology.Plan{Policies: m.policies[i : i+1]}, live, func(string) bool { return false })
	switch {
	case len(differs.Of(topology.Missing)) > 0:
		return fmt.Errorf("policy %q of the plan is not set, and the new queue would be without %s: %s", planned.Policy, without, advice)
	case len(differs) > 0:
		return fmt.Errorf("policy %q of the plan is set otherwise (%s is %s, planned is %s): change the policy or the plan",
			planned.Policy, differs[0].Argument, argument(plainValue(differs[0].Have)), argument(plainValue(differs[0].Want)))
	case m.fresh.Policy != planned.Policy:
		return fmt.Errorf("policy %q applies in the place of policy %q of the plan, and the new queue would be without %s: give the policy of the plan the higher priority",
			m.fresh.Policy, planned.Policy, without)
	}
	return nil
}

// newcomers refuses policies that would remove messages from the new queue although neither the plan nor the present queue has such a setting.
func (m *migration) newcomers(live topology.Live) error {
	if m.state.wanted || !m.state.there {
		return nil
	}
	planned := m.plannedQueue()
	for key, why := range map[string]string{"message-ttl": "older messages would be removed from it", "expires": "the broker would delete it while it has no consumers"} {
		limit, set := limitOf(m.fresh, key)
		if _, byPolicy := m.fresh.PolicyArgs[key]; !set || !byPolicy {
			continue
		}
		intended, said := limitOf(planned, key)
		now, already := limitOf(m.have, key)
		if !(said && intended <= limit) && !(already && now <= limit) {
			return fmt.Errorf("%s sets %s to %d for the new queue, and neither the plan nor the present queue has this setting: %s; narrow its pattern, or add the setting to the plan",
				policyOf(live, m.fresh, key), key, limit, why)
		}
	}
	return nil
}

// unread reports whether there are policies that may remove messages, with a pattern that only the broker can read.
func unread(live topology.Live) bool {
	return slices.ContainsFunc(slices.Concat(live.Policies, live.OperatorPolicies), func(p topology.Policy) bool {
		_, err := regexp.Compile(p.Pattern)
		return err != nil && slices.ContainsFunc(harmful, func(key string) bool { return p.Definition[key] != nil })
	})
}

// prepare declares what keeps messages. If only the broker knows which policies apply to that queue, it is asked before any message is routed there. If
// one is harmful, everything is deleted again.
func (m *migration) prepare(ctx context.Context) error {
	if err := m.declare(ctx, m.keeping()); err != nil || !m.unread {
		return err
	}
	keeping := layouts.MigratingQueue(m.want.Name)
	for {
		f, err := m.admin.management.figures(ctx, keeping)
		if err == nil && len(f.PolicyArgs) == 0 {
			err = m.waiting(ctx, fmt.Sprintf("the broker to show which policies apply to queue %q", keeping))
			if err == nil {
				continue
			}
		}
		if err != nil {
			return err
		}
		live, err := m.admin.Live(ctx)
		if err != nil {
			return err
		}
		kept, _ := live.Queue(keeping)
		kept.Policy, kept.OperatorPolicy = f.Policy, f.OperatorPolicy
		fault := m.safekeeping(ctx, live, foreseen(live, kept))
		if fault != nil && len(m.state.diverted) == 0 {
			m.state.aside = true
			return errors.Join(fault, m.clear(ctx))
		}
		return fault
	}
}
