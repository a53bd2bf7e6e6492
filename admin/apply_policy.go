package admin

import (
	"context"
	"fmt"
	"slices"

	"github.com/rehop/rehop/internal/topology"
	"github.com/rehop/rehop/layout"
)

// refuseDropping refuses policies that would make RabbitMQ drop messages though they say reject-publish: on a classic queue that holds more
// it applies the limit before it learns that it is not to drop.
func (a *Admin) refuseDropping(ctx context.Context, policies []topology.Policy) error {
	limits := []string{"max-length", "max-length-bytes"}
	if !slices.ContainsFunc(policies, func(p topology.Policy) bool {
		return slices.ContainsFunc(limits, func(key string) bool { return p.Definition[key] != nil })
	}) {
		return nil
	}
	now, err := a.management.live(ctx)
	if err != nil {
		return err
	}
	then := now
	then.Policies = slices.DeleteFunc(slices.Clone(now.Policies), func(old topology.Policy) bool {
		return slices.ContainsFunc(policies, func(p topology.Policy) bool { return p.Name == old.Name })
	})
	then.Policies = append(then.Policies, policies...)
	for _, q := range now.Queues {
		ruled := foreseen(then, q)
		if q.Type != string(layout.Classic) || !drops(q) || drops(ruled) {
			continue
		}
		for _, key := range limits {
			if err := a.refuseLimit(ctx, then, ruled, key); err != nil {
				return err
			}
		}
	}
	return nil
}

// refuseLimit refuses a limit that is lower than what a queue holds.
func (a *Admin) refuseLimit(ctx context.Context, then Live, ruled topology.LiveQueue, key string) error {
	limit, limited := limitOf(ruled, key)
	if !limited {
		return nil
	}
	depth, err := a.read.Inspect(ctx, ruled.Name)
	if err != nil {
		return queueError(err)
	}
	holds, unit := depth.Messages, "messages"
	if key == "max-length-bytes" {
		f, err := a.management.figures(ctx, ruled.Name)
		if err != nil {
			return err
		}
		holds, unit = f.Bytes, "bytes"
	}
	if holds <= limit {
		return nil
	}
	return fmt.Errorf("%s sets %s to %d for the classic queue %q, which holds %d %s, and RabbitMQ would drop the oldest before it learns that overflow is %s; "+
		"set a policy with overflow alone first, or consume until it holds no more, and apply the plan again",
		ruler(then, ruled, key), key, limit, ruled.Name, holds, unit, setting(ruled, "overflow"))
}
