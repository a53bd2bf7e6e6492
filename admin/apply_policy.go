package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"

	"github.com/rehop/rehop/layout"
	"github.com/rehop/rehop/topology"
)

// lengthLimits are the settings by which a queue is full.
var lengthLimits = []string{"max-length", "max-length-bytes"}

// inOrder is the order in which policies are set: a queue is never under one only because that which is to rule it is not there yet.
func inOrder(policies []topology.Policy) []topology.Policy {
	return slices.SortedStableFunc(slices.Values(policies), func(a, b topology.Policy) int { return cmp.Compare(b.Priority, a.Priority) })
}

func limitsLength(p topology.Policy) bool {
	return slices.ContainsFunc(lengthLimits, func(key string) bool { return p.Definition[key] != nil })
}

// refuseDropping refuses policies, which are set in this order, that would make RabbitMQ drop messages though they say reject-publish: on a
// classic queue that holds more it applies the limit before it learns that it is not to drop.
func (a *Admin) refuseDropping(ctx context.Context, policies []topology.Policy) error {
	if !slices.ContainsFunc(policies, limitsLength) {
		return nil
	}
	then, err := a.management.live(ctx)
	if err != nil {
		return err
	}
	for _, p := range policies {
		now := then
		then.Policies = append(slices.Clip(now.Policies), asFeared(p))
		for _, q := range then.Queues {
			ruled := foreseen(then, q)
			if q.Type != string(layout.Classic) || !drops(foreseen(now, q)) || drops(ruled) {
				continue
			}
			for _, key := range lengthLimits {
				if err := a.refuseLimit(ctx, then, ruled, key); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// asFeared is a policy as it may be at worst: if only the broker can read its pattern, it fits every name.
func asFeared(p topology.Policy) topology.Policy {
	if _, err := regexp.Compile(p.Pattern); err != nil && limitsLength(p) {
		p.Pattern = ""
	}
	return p
}

// refuseLimit refuses a limit that is lower than what a queue holds.
func (a *Admin) refuseLimit(ctx context.Context, then topology.Live, ruled topology.LiveQueue, key string) error {
	limit, limited := limitOf(ruled, key)
	if !limited {
		return nil
	}
	holds, unit, err := a.holding(ctx, ruled, key)
	if errors.Is(err, ErrNoQueue) {
		return nil // it has been deleted meanwhile
	}
	if err != nil {
		return fmt.Errorf("see what the classic queue %q holds, for which %s sets %s: %w", ruled.Name, ruler(then, ruled, key), key, err)
	}
	if holds <= limit {
		return nil
	}
	return fmt.Errorf("%s sets %s to %d for the classic queue %q, which holds %d %s, and RabbitMQ would drop the oldest before it learns that overflow is %s; "+
		"set a policy with overflow alone first, or consume until it holds no more, and apply the plan again",
		ruler(then, ruled, key), key, limit, ruled.Name, holds, unit, setting(ruled, "overflow"))
}

// holding is what a queue holds, of what a limit limits.
func (a *Admin) holding(ctx context.Context, q topology.LiveQueue, key string) (holds int, unit string, err error) {
	ready := q.Ready
	if !q.Exclusive { // nobody else may ask for one that is
		depth, err := a.read.Inspect(ctx, q.Name)
		if err != nil {
			return 0, "", queueError(err)
		}
		ready = depth.Messages
	}
	if key == "max-length" {
		return ready, "messages", nil
	}
	f, err := a.management.figures(ctx, q.Name)
	bytes, counted := f.bytes()
	if err == nil && counted < ready {
		err = fmt.Errorf("the broker's statistics have the size of %d of its %d messages; apply the plan again in some seconds, "+
			"or set a policy with overflow alone first if some messages are not persistent, which RabbitMQ 4 does not count", counted, ready)
	}
	var answer *statusError
	if errors.As(err, &answer) && answer.status == http.StatusNotFound {
		err = ErrNoQueue
	}
	return bytes, "bytes", err
}
