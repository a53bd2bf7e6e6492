package admin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"

	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/internal/rabbit"
	"github.com/rehop/rehop/topology"
)

// ApplyOptions say how to apply a plan.
type ApplyOptions struct {
	// DryRun says what would be done, and does none of it. To learn whether the broker accepts the arguments of a missing queue, it declares a queue
	// with these arguments under another name (rehop.try.ID), and deletes it. Exchanges, bindings and policies are not tried.
	DryRun bool
}

// Applied is what applying a plan did.
type Applied struct {
	// Declared is what was missing and has been declared; in a dry run, what would be.
	Declared []topology.Object `json:"declared"`
	// Ensured are bindings that have been declared without knowing whether they were there: AMQP alone does
	// not show them. In a dry run, what would be.
	Ensured []topology.Object `json:"ensured"`
	// Left is what differs in other ways, and was not touched.
	Left topology.Diff `json:"left"`
	// Refused is what the broker has refused; in a dry run, the queues that it would refuse.
	Refused []Refusal `json:"refused,omitempty"`
}

// Refusal is an object that the broker refuses.
type Refusal struct {
	Object topology.Object `json:"object"`
	Reason string          `json:"reason"` // why, and what to do
}

// ErrRefused is what the error of Apply is if the broker has refused parts of the plan, and nothing else went wrong. Applied.Refused has the parts.
var ErrRefused = errors.New("the broker refuses parts of the plan")

type refusals []error

func (r refusals) Error() string        { return errors.Join(r...).Error() }
func (r refusals) Unwrap() []error      { return r }
func (r refusals) Is(target error) bool { return target == ErrRefused }

// String has a line for each thing that was declared, and for each that was left.
func (x Applied) String() string {
	var s strings.Builder
	for _, o := range x.Declared {
		fmt.Fprintf(&s, "declared: %s\n", o)
	}
	for _, o := range x.Ensured {
		fmt.Fprintf(&s, "ensured: %s\n", o)
	}
	for _, d := range x.Left {
		fmt.Fprintf(&s, "%s\n", d)
	}
	if s.Len() == 0 {
		return "nothing to do\n"
	}
	return s.String()
}

// Apply declares what a plan has and the broker has not. What exists stays as it is, even if it differs: the
// result says what to do about that. It is safe to repeat.
//
// Queues that come and go with their consumers are left to those, and a queue that this release of the broker cannot make as planned is not declared. When the broker refuses something, the rest is
// declared all the same, and the error names what was refused. A plan with policies needs the management
// API, and nothing is declared when one of them is refused: queues would be without their settings. Nor is anything
// declared while one of the queues that lack something is being migrated, or when a policy that says reject-publish would make the broker drop
// messages that a classic queue holds.
func (a *Admin) Apply(ctx context.Context, plan topology.Plan, o ApplyOptions) (Applied, error) {
	if len(plan.Policies) > 0 && a.management.base == "" {
		return Applied{}, fmt.Errorf("apply the plan: it has policies: %w", ErrNoManagement)
	}
	plan, diff, err := a.compare(ctx, plan)
	if err != nil {
		return Applied{}, fmt.Errorf("apply the plan: compare it with the broker: %w", err)
	}
	w := &application{admin: a, dry: o.DryRun, absent: make(map[string]bool)}
	work := plan.Missing(diff)
	for _, d := range diff {
		switch {
		case d.Kind == topology.Missing && d.Do == topology.Declare:
		case d.Kind == topology.Unchecked && d.Object.Kind == topology.AllBindings:
			work.Bindings, w.blind = plan.Lasting().Bindings, true
		default:
			w.done.Left = append(w.done.Left, d)
			w.absent[d.Object.String()] = d.Kind == topology.Missing || d.Kind == topology.Unsupported
		}
	}
	if err := a.refuseMigrating(ctx, work); err != nil {
		return Applied{Left: w.done.Left}, fmt.Errorf("apply the plan: %w", err)
	}
	work.Policies = inOrder(work.Policies)
	if err := a.refuseDropping(ctx, work.Policies); err != nil {
		return Applied{Left: w.done.Left}, fmt.Errorf("apply the plan: %w", err)
	}
	if err := w.declare(ctx, work); err != nil {
		return w.done, fmt.Errorf("apply the plan: %w", err)
	}
	return w.done, nil
}

// refuseMigrating refuses work on queues that are being migrated: a binding that the migration has turned aside, made anew, would
// multiply messages.
func (a *Admin) refuseMigrating(ctx context.Context, work topology.Plan) error {
	touched := make(map[string]bool)
	for _, q := range work.Queues {
		touched[q.Name] = true
	}
	for _, b := range work.Bindings {
		if !b.ToExchange {
			touched[b.Destination] = true
		}
	}
	for _, queue := range slices.Sorted(maps.Keys(touched)) {
		migrating, err := a.migrating(ctx, queue)
		switch {
		case err != nil:
			return err
		case migrating:
			return fmt.Errorf("queue %q is being migrated, its messages are in queue %q; migrate it to the end, then apply again", queue, layouts.MovingQueue(queue))
		}
	}
	return nil
}

// application is a plan that is being applied.
type application struct {
	admin    *Admin
	dry      bool
	blind    bool            // bindings cannot be seen
	absent   map[string]bool // exchanges and queues, as objects are written, that no binding can lead from or to
	refused  []error
	accepted []topology.Args // settings of queues that the broker accepts, in a dry run
	done     Applied
}

// declare sets the policies first, so that no queue is ever without its own.
func (w *application) declare(ctx context.Context, work topology.Plan) error {
	for _, p := range work.Policies {
		put := func() error { return w.admin.management.putPolicy(ctx, p) }
		if w.dry {
			put = func() error { return nil }
		}
		if err := w.one(p.Object(), put); err != nil {
			return err
		}
	}
	if w.refused != nil {
		return refusals(w.refused)
	}
	for _, x := range work.Exchanges {
		if err := w.part(ctx, x.Object(), topology.Plan{Exchanges: []topology.Exchange{x}}); err != nil {
			return err
		}
	}
	for _, q := range work.Queues {
		if err := w.part(ctx, q.Object(), topology.Plan{Queues: []topology.Queue{q}}); err != nil {
			return err
		}
	}
	for _, b := range work.Bindings {
		source, destination := topology.Exchange{Name: b.Source}.Object(), topology.Queue{Name: b.Destination}.Object()
		if b.ToExchange {
			destination = topology.Exchange{Name: b.Destination}.Object()
		}
		if w.absent[source.String()] || w.absent[destination.String()] {
			w.done.Left = append(w.done.Left, topology.Difference{Kind: topology.Missing, Object: b.Object(), Do: topology.Check,
				Hint: "declare it when both of its ends are there"})
			continue
		}
		if err := w.part(ctx, b.Object(), topology.Plan{Bindings: []topology.Binding{b}}); err != nil {
			return err
		}
	}
	if w.refused != nil {
		return refusals(w.refused)
	}
	return nil
}

func (w *application) part(ctx context.Context, name topology.Object, plan topology.Plan) error {
	do := func() error { return w.admin.write.Declare(ctx, plan) }
	if w.dry {
		do = func() error { return w.try(ctx, plan.Queues) }
	}
	return w.one(name, do)
}

// try asks the broker whether it would accept queues. Of many queues with the same settings one is tried; they may differ in the key with which they
// dead-letter. A user who may not declare the queue that is tried may well declare the planned one.
func (w *application) try(ctx context.Context, queues []topology.Queue) error {
	for _, q := range queues {
		settings := maps.Clone(q.Args)
		if _, text := settings["x-dead-letter-routing-key"].(string); text && settings["x-dead-letter-exchange"] != nil {
			delete(settings, "x-dead-letter-routing-key")
		}
		if slices.ContainsFunc(w.accepted, func(other topology.Args) bool { return reflect.DeepEqual(settings, other) }) {
			continue
		}
		err := w.admin.tryQueue(ctx, q)
		if errors.Is(err, errNotTried) {
			w.done.Left = append(w.done.Left, topology.Difference{Kind: topology.Unchecked, Object: q.Object(), Do: topology.Check, Hint: errNotTried.Error()})
			continue
		}
		if err != nil {
			return err
		}
		w.accepted = append(w.accepted, settings)
	}
	return nil
}

// one declares one object. An error ends it all; that the broker refuses this object does not.
func (w *application) one(name topology.Object, do func() error) error {
	err := do()
	var refused *rabbit.DeclareError
	var answer *statusError
	switch {
	case errors.As(err, &refused), errors.As(err, &answer):
		w.refused = append(w.refused, err)
		w.done.Refused = append(w.done.Refused, Refusal{Object: name, Reason: err.Error()})
		w.absent[name.String()] = true
		return nil
	case err != nil:
		return errors.Join(append(w.refused, err)...)
	}
	if w.blind && name.Kind == topology.BindingObject {
		w.done.Ensured = append(w.done.Ensured, name)
	} else {
		w.done.Declared = append(w.done.Declared, name)
	}
	return nil
}

// putPolicy sets a policy.
func (m *management) putPolicy(ctx context.Context, p topology.Policy) error {
	err := m.call(ctx, http.MethodPut, "/api/policies/"+url.PathEscape(m.vhost)+"/"+url.PathEscape(p.Name), p, nil)
	if err != nil {
		return fmt.Errorf("set %s: %w", p.Object(), err)
	}
	return nil
}
