package admin

import (
	"context"
	"fmt"

	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/internal/topologies"
	"github.com/rehop/rehop/topology"
)

// Diff compares a plan (see rehop.Topology) with the broker. It changes nothing. A subscription whose layout has several forms is
// compared in the form that the broker has.
//
// Without the management API it uses AMQP, which shows only whether exchanges and queues exist and whether their declarations differ.
// Bindings and policies are then not compared.
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

// nameMigrations marks differences that come from an unfinished migration: to declare such an object again would duplicate messages, and to remove what
// a migration has added would lose them.
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
			diff[i].Hint = fmt.Sprintf("queue %q is being migrated, its messages are in queue %q: finish the migration (rehop topology migrate), and do not declare or remove anything until then",
				queue, layouts.MovingQueue(queue))
		}
	}
	return nil
}

// migrating reports whether a migration of a queue has begun and is not finished.
func (a *Admin) migrating(ctx context.Context, queue string) (bool, error) {
	_, migrating, err := existing(a.read.Inspect(ctx, layouts.MovingQueue(queue)))
	return migrating, err
}

// compare finds how the broker differs from the plan, and returns the plan in the forms in which it was compared.
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

// compareBlind is compare with AMQP only.
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

// isForm reports whether the broker would accept all declarations of a form. Policies do not count: they are set, not declared.
func isForm(form topology.Plan, live topology.Live) bool {
	form.Policies = nil
	return len(topology.Compare(form, live, nil).Of(topology.Differs)) == 0
}

// onlyEmpty removes superfluous queues that are not empty: the counts of the management API are late.
func (a *Admin) onlyEmpty(ctx context.Context, diff topology.Diff) (topology.Diff, error) {
	var sure topology.Diff
	for _, d := range diff {
		if d.Kind == topology.Superfluous {
			depth, exists, err := existing(a.read.InspectClosely(ctx, d.Object.Name))
			if err != nil {
				return nil, err
			}
			if !exists || depth.Messages > 0 || depth.Consumers > 0 {
				continue
			}
		}
		sure = append(sure, d)
	}
	return sure, nil
}

// ownOf recognises queues that belong to queues of the plan only: their landing queues. Delay queues are not among them: all services of a virtual host
// share them, so those that are not in this plan may belong to another service.
func ownOf(plan topology.Plan) func(queue string) bool {
	landings := make(map[string]bool)
	for _, q := range plan.Queues {
		landings[layouts.LandingQueue(q.Name)] = true
		landings[layouts.HomeQueue(q.Name)] = true
	}
	return func(queue string) bool { return landings[queue] }
}
