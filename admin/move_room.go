package admin

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/rehop/rehop/topology"
)

// checkRoom refuses to move messages to queues of the target that would remove them: queues that are too small and drop their oldest messages,
// and queues that remove messages, or themselves, after a while, unless those of the source do so, too.
func (m *move) checkRoom(ctx context.Context, plan topology.Plan, p *MovePlan) error {
	live := m.target
	live.Policies = slices.Concat(live.Policies, m.options.Plan.Policies, plan.Policies)
	for _, q := range m.queues {
		if q.waits {
			continue // rehop's delay queues are declared as rehop needs them
		}
		there := m.futureQueue(live, q.Name, plan)
		by := func(key string) string {
			if _, byPolicy := there.PolicyArgs[key]; byPolicy {
				return policyOf(live, there, key) + " of the target sets it"
			}
			return "it is an argument of the queue"
		}
		for _, key := range lengthLimits {
			limit, limited := limitOf(there, key)
			if !limited || !drops(there) {
				continue
			}
			n, unit, err := m.together(ctx, q, there, key)
			if err != nil {
				return err
			}
			if n > limit {
				p.refuse(q.Object(), "the queue of the target drops its oldest messages: its %s is %d (%s), and %d %s are to be in it; raise it, or set overflow to reject-publish, or let consumers handle messages first",
					key, limit, by(key), n, unit)
			}
		}
		for key, effect := range map[string]string{"message-ttl": "messages that are older are removed", "expires": "the queue is deleted with its messages if it has no consumers"} {
			limit, limited := limitOf(there, key)
			mine, also := limitOf(q.LiveQueue, key)
			switch {
			case !limited, key == "message-ttl" && sets(there, "dead-letter-exchange"):
			case !also || limit < mine:
				source := "not set"
				if also {
					source = strconv.Itoa(mine)
				}
				p.refuse(q.Object(), "on the target %s: %s is %d ms there (%s), and %s on the source; raise it, or remove it", effect, key, limit, by(key), source)
			case key == "expires" && q.Messages() > 0:
				p.note("on the target queue %q is deleted, with the messages that are moved, if it has no consumers for %d ms, as on the source: start its consumers first", q.Name, limit)
			}
		}
	}
	return nil
}

// futureQueue is a queue as the target has it, or will have it, with the policies that apply to it then.
func (m *move) futureQueue(live topology.Live, name string, plan topology.Plan) topology.LiveQueue {
	if q, exists := m.target.Queue(name); exists {
		return foreseen(live, q)
	}
	q, _ := m.onTarget(name, plan)
	kind, _ := q.Args["x-queue-type"].(string)
	return foreseen(live, topology.LiveQueue{Queue: q, Type: cmp.Or(strings.ToLower(kind), live.DefaultType, classic), Durable: true})
}

// together is how much the queues of source and target hold, in the unit of a limit.
func (m *move) together(ctx context.Context, here movedQueue, there topology.LiveQueue, limit string) (n int, unit string, err error) {
	if limit == "max-length" {
		return here.Messages() + there.Messages(), "messages", nil
	}
	for _, side := range []*Admin{m.from, m.to} {
		f, err := side.management.figures(ctx, here.Name)
		if missing(err) {
			continue
		}
		if err != nil {
			return 0, "", err
		}
		bytes, _ := f.bytes()
		n += bytes
	}
	return n, "bytes", nil
}
