package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/topology"
)

// ApplyOptions are options of Apply.
type ApplyOptions struct {
	// DryRun returns what Apply would do, and changes nothing. To find out whether the broker accepts the arguments of a missing queue,
	// it declares a queue with these arguments under another name (rehop.try.ID) and deletes it. Exchanges, bindings and policies are
	// not tried. Default: the plan is applied.
	DryRun bool
}

// Applied is what Apply has done.
type Applied struct {
	// Declared is what was missing and has been declared; in a dry run, what would be.
	Declared []topology.Object `json:"declared"`
	// Ensured are bindings that were declared without knowing whether they existed, because AMQP does not show bindings. In a dry run,
	// what would be.
	Ensured []topology.Object `json:"ensured"`
	// Left are other differences between the plan and the broker. Apply did not change them.
	Left topology.Diff `json:"left"`
	// Refused is what the broker has refused; in a dry run, the queues that it would refuse.
	Refused []Refusal `json:"refused,omitempty"`
}

// Refusal is an object that the broker refuses.
type Refusal struct {
	Object topology.Object `json:"object"`
	Reason string          `json:"reason"` // why, and what to do
}

// ErrRefused: the broker has refused parts of the plan, which are in Applied.Refused. Nothing else failed.
var ErrRefused = errors.New("the broker refuses parts of the plan")

type refusals []error

func (r refusals) Error() string        { return errors.Join(r...).Error() }
func (r refusals) Unwrap() []error      { return r }
func (r refusals) Is(target error) bool { return target == ErrRefused }

// String has a line for each object that was declared, and for each difference that is left.
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
	return cmp.Or(s.String(), "nothing to do\n")
}

// Apply declares what a plan has and the broker does not have. Objects that exist are not changed, even if they differ; the result
// names the differences, and what to do about them. Apply can be repeated.
//
// Temporary queues are left to their consumers, and queues that this release of the broker cannot create as planned are not declared.
// If the broker refuses something, Apply declares the rest, and the error names what was refused. A plan with policies needs the
// management API.
//
// Apply changes nothing if the broker refuses a policy, because queues would be without their settings; if a queue that needs a
// declaration is being migrated; and if a policy with overflow reject-publish would make the broker drop messages of a classic queue.
func (a *Admin) Apply(ctx context.Context, plan topology.Plan, o ApplyOptions) (Applied, error) {
	done, err := a.apply(ctx, plan, o.DryRun)
	if err != nil {
		err = fmt.Errorf("apply the plan: %w", err)
	}
	return done, err
}

func (a *Admin) apply(ctx context.Context, plan topology.Plan, dry bool) (Applied, error) {
	if len(plan.Policies) > 0 && a.management.base == "" {
		return Applied{}, fmt.Errorf("it has policies: %w", ErrNoManagement)
	}
	plan, diff, err := a.compare(ctx, plan)
	if err != nil {
		return Applied{}, fmt.Errorf("compare it with the broker: %w", err)
	}
	w := &application{admin: a, dry: dry, absent: make(map[string]bool)}
	work := plan.Missing(diff)
	for _, d := range diff {
		switch {
		case d.Kind == topology.Missing && d.Do == topology.Declare:
		case d.Kind == topology.Unchecked && d.Object.Kind == topology.AllBindings:
			work.Bindings, w.blind = plan.WithoutTemporary().Bindings, true
		default:
			w.done.Left = append(w.done.Left, d)
			w.absent[d.Object.String()] = d.Kind == topology.Missing || d.Kind == topology.Unsupported
		}
	}
	// The highest priority first: no queue gets a policy only because the one that is planned for it is not set yet.
	slices.SortStableFunc(work.Policies, func(a, b topology.Policy) int { return cmp.Compare(b.Priority, a.Priority) })
	if err := a.refuseMigrating(ctx, work); err != nil {
		return Applied{Left: w.done.Left}, err
	}
	if err := a.refuseDropping(ctx, work.Policies); err != nil {
		return Applied{Left: w.done.Left}, err
	}
	err = w.declare(ctx, work)
	return w.done, err
}

// refuseMigrating refuses work on queues that are being migrated: declaring a binding that the migration has diverted would duplicate messages.
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
			return fmt.Errorf("queue %q is being migrated, its messages are in queue %q; finish the migration, then apply again", queue, layouts.MigratingQueue(queue))
		}
	}
	return nil
}

// application is a plan that is being applied.
type application struct {
	admin    *Admin
	dry      bool
	blind    bool            // bindings cannot be seen
	absent   map[string]bool // exchanges and queues that do not exist, so that they cannot be bound; by Object.String
	refused  []error
	accepted []topology.Args // settings of queues that the broker accepts, in a dry run
	done     Applied
}

// declare sets the policies first, so that no queue is ever without its own.
func (w *application) declare(ctx context.Context, work topology.Plan) error {
	for _, p := range work.Policies {
		var err error
		if api := w.admin.management; !w.dry {
			err = api.call(ctx, http.MethodPut, api.path("/api/policies/%s/%s", p.Name), p, nil)
		}
		if err != nil {
			err = fmt.Errorf("set %s: %w", p.Object(), err)
		}
		if err := w.note(p.Object(), err); err != nil {
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
				Hint: "declare it when its exchange and its destination exist"})
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
	if w.dry {
		return w.note(name, w.try(ctx, plan.Queues))
	}
	return w.note(name, w.admin.write.Declare(ctx, plan))
}

// try finds out whether the broker would accept queues. Of queues with the same settings only one is tried; their dead-letter routing keys may differ.
// A user that may not declare the queue for the trial may be allowed to declare the planned one.
func (w *application) try(ctx context.Context, queues []topology.Queue) error {
	for _, q := range queues {
		settings := maps.Clone(q.Args)
		if _, isText := settings["x-dead-letter-routing-key"].(string); isText && settings["x-dead-letter-exchange"] != nil {
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

// note records the outcome of a declaration. It returns an error if Apply must stop, which it need not if the broker refuses this object.
func (w *application) note(name topology.Object, err error) error {
	switch {
	case declareCode(err) != 0, statusOf(err) != 0:
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

func limitsLength(p topology.Policy) bool {
	return slices.ContainsFunc(lengthLimits, func(key string) bool { return p.Definition[key] != nil })
}

// refuseDropping refuses policies that would make RabbitMQ drop messages although they set overflow reject-publish: on a classic queue that holds more
// than the new limit, RabbitMQ applies the limit before the overflow behaviour. The policies are set in this order.
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
		then.Policies = append(slices.Clip(now.Policies), widest(p))
		for _, q := range then.Queues {
			expected := foreseen(then, q)
			if q.Type != classic || !drops(foreseen(now, q)) || drops(expected) {
				continue
			}
			for _, key := range lengthLimits {
				if err := a.refuseLimit(ctx, then, expected, key); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// widest is a policy that limits at least what p limits: if only the broker can read its pattern, it matches every name.
func widest(p topology.Policy) topology.Policy {
	if _, err := regexp.Compile(p.Pattern); err != nil && limitsLength(p) {
		p.Pattern = ""
	}
	return p
}

// refuseLimit refuses a limit that is lower than what a queue holds.
func (a *Admin) refuseLimit(ctx context.Context, then topology.Live, expected topology.LiveQueue, key string) error {
	limit, limited := limitOf(expected, key)
	if !limited {
		return nil
	}
	holds, unit, err := a.holding(ctx, expected, key)
	if errors.Is(err, ErrNoQueue) {
		return nil // it was deleted meanwhile
	}
	if err != nil {
		return fmt.Errorf("see what the classic queue %q holds, for which %s sets %s: %w", expected.Name, policyOf(then, expected, key), key, err)
	}
	if holds <= limit {
		return nil
	}
	return fmt.Errorf("%s sets %s to %d for the classic queue %q, which holds %d %s, and RabbitMQ would drop the oldest before it applies overflow %s; "+
		"set a policy with only overflow first, or consume until it holds no more than that, and apply the plan again",
		policyOf(then, expected, key), key, limit, expected.Name, holds, unit, setting(expected, "overflow"))
}

// holding is how many messages or bytes a queue holds, depending on the limit.
func (a *Admin) holding(ctx context.Context, q topology.LiveQueue, key string) (holds int, unit string, err error) {
	ready := q.Ready
	if !q.Exclusive { // only its own connection may inspect an exclusive queue
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
			"or set a policy with only overflow first if some messages are not persistent, which RabbitMQ 4 does not count", counted, ready)
	}
	if missing(err) {
		err = ErrNoQueue
	}
	return bytes, "bytes", err
}
