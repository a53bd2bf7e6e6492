package admin

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/rehop/rehop/internal/topology"
	"github.com/rehop/rehop/layout"
)

// Diff is how a broker differs from a plan: a list that can be printed, and written as JSON.
type Diff = topology.Diff

// Difference is one thing in which a broker differs from a plan, and what to do about it.
type Difference = topology.Difference

// Diff compares a plan (see rehop.Topology) with what the broker has. It changes nothing.
//
// Without the management API it asks through AMQP, which tells whether exchanges and queues exist and are
// declared alike, and nothing about bindings and policies.
func (a *Admin) Diff(ctx context.Context, plan layout.Plan) (Diff, error) {
	diff, err := a.compare(ctx, plan)
	if err != nil {
		return diff, fmt.Errorf("compare the broker with the plan: %w", err)
	}
	return diff, nil
}

func (a *Admin) compare(ctx context.Context, plan layout.Plan) (Diff, error) {
	if a.management.base == "" {
		p := &probe{link: a.read}
		if err := p.look(ctx, plan); err != nil {
			return nil, err
		}
		return append(topology.Compare(plan, p.live, ownOf(plan)), p.blind...), nil
	}
	live, err := a.management.live(ctx)
	if err != nil {
		return nil, err
	}
	return a.onlyEmpty(ctx, topology.Compare(plan, live, ownOf(plan)))
}

// onlyEmpty takes out what is said to be superfluous and is not empty: the management API counts late.
func (a *Admin) onlyEmpty(ctx context.Context, diff Diff) (Diff, error) {
	var sure Diff
	for _, d := range diff {
		if d.Kind == topology.Superfluous {
			depth, err := a.read.Inspect(ctx, d.Object.Name)
			switch {
			case errors.Is(queueError(err), ErrNoQueue) || depth.Messages > 0 || depth.Consumers > 0:
				continue
			case err != nil:
				return nil, err
			}
		}
		sure = append(sure, d)
	}
	return sure, nil
}

// ownOf tells the queues that rehop has for itself: steps, and landing queues of queues in the plan. Levels of the
// cascade are not among them: whoever needs one declares it then, and no plan has it.
func ownOf(plan layout.Plan) func(queue string) bool {
	landings := make(map[string]bool)
	for _, q := range plan.Queues {
		landings[layout.LandingQueue(q.Name)] = true
	}
	return func(queue string) bool {
		return strings.HasPrefix(queue, layout.StepExchange+".") || landings[queue]
	}
}
