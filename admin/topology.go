package admin

import (
	"context"
	"errors"
	"fmt"

	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/internal/topologies"
	"github.com/rehop/rehop/topology"
)

// Diff compares a plan (see rehop.Topology) with what the broker has. It changes nothing. A subscription whose layout has several forms is compared
// in the one that the broker has.
//
// Without the management API it asks through AMQP, which tells whether exchanges and queues exist and are
// declared alike, and nothing about bindings and policies.
func (a *Admin) Diff(ctx context.Context, plan topology.Plan) (topology.Diff, error) {
	_, diff, err := a.compare(ctx, plan)
	if err == nil {
		err = a.nameMigrations(ctx, diff)
	}
	if err != nil {
		return diff, fmt.Errorf("compare the broker with the plan: %w", err)
	}
	return diff, nil
}

// nameMigrations says of what a migration has turned aside that it has: to declare it again would double messages, to remove what
// leads there would lose them.
func (a *Admin) nameMigrations(ctx context.Context, diff topology.Diff) error {
	known := make(map[string]bool)
	for i, d := range diff {
		queue := d.Object.Name
		switch {
		case d.Object.Kind == topology.QueueObject && (d.Kind == topology.Missing || d.Kind == topology.Differs):
		case d.Object.Kind == topology.BindingObject && !d.Object.ToExchange && d.Kind == topology.Missing:
		case d.Kind == topology.Unexpected && (d.Object.Source == layouts.MovingQueue(queue) || d.Object.Source == layouts.BackExchange(queue)):
		default:
			continue
		}
		migrating, asked := known[queue]
		if !asked {
			var err error
			if migrating, err = a.migrating(ctx, queue); err != nil {
				return err
			}
			known[queue] = migrating
		}
		if migrating {
			diff[i].Do = topology.Migrate
			diff[i].Hint = fmt.Sprintf("queue %q is being migrated, its messages are in queue %q: migrate it to the end (rehop topology migrate), and declare and remove nothing until then",
				queue, layouts.MovingQueue(queue))
		}
	}
	return nil
}

// migrating reports whether a queue is being migrated, or was and is not at the end of it.
func (a *Admin) migrating(ctx context.Context, queue string) (bool, error) {
	_, err := a.read.Inspect(ctx, layouts.MovingQueue(queue))
	if errors.Is(queueError(err), ErrNoQueue) {
		return false, nil
	}
	return err == nil, err
}

// compare finds how the broker differs from the plan, and returns the plan in the forms that it has been compared in.
func (a *Admin) compare(ctx context.Context, plan topology.Plan) (topology.Plan, topology.Diff, error) {
	if a.management.base == "" {
		return a.compareBlind(ctx, plan)
	}
	live, err := a.management.live(ctx)
	if err != nil {
		return plan, nil, err
	}
	plan, err = topologies.Fit(plan, func(form topology.Plan) (bool, error) { return isForm(form, live), nil })
	if err != nil {
		return plan, nil, err
	}
	diff, err := a.onlyEmpty(ctx, topology.Compare(plan, live, ownOf(plan)))
	return plan, diff, err
}

// compareBlind is compare through AMQP alone.
func (a *Admin) compareBlind(ctx context.Context, plan topology.Plan) (topology.Plan, topology.Diff, error) {
	plan, err := topologies.Fit(plan, func(form topology.Plan) (bool, error) {
		p := &probe{link: a.read}
		err := p.look(ctx, form)
		return isForm(form, p.live), err
	})
	if err != nil {
		return plan, nil, err
	}
	p := &probe{link: a.read}
	if err := p.look(ctx, plan); err != nil {
		return plan, nil, err
	}
	return plan, append(topology.Compare(plan, p.live, ownOf(plan)), p.blind...), nil
}

// isForm reports whether the broker would accept all declarations of a form. Policies are set, and not declared.
func isForm(form topology.Plan, live topology.Live) bool {
	form.Policies = nil
	return len(topology.Compare(form, live, nil).Of(topology.Differs)) == 0
}

// onlyEmpty takes out what is said to be superfluous and is not empty: the management API counts late.
func (a *Admin) onlyEmpty(ctx context.Context, diff topology.Diff) (topology.Diff, error) {
	var sure topology.Diff
	for _, d := range diff {
		if d.Kind == topology.Superfluous {
			depth, err := a.read.InspectClosely(ctx, d.Object.Name)
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

// ownOf tells the queues that rehop has for queues of the plan alone: their landing queues. Steps and levels of the cascade are not among them: all
// services of a virtual host share them, and those that this plan does not have may be another's.
func ownOf(plan topology.Plan) func(queue string) bool {
	landings := make(map[string]bool)
	for _, q := range plan.Queues {
		landings[layouts.LandingQueue(q.Name)] = true
		landings[layouts.HomeQueue(q.Name)] = true
	}
	return func(queue string) bool {
		return landings[queue]
	}
}
