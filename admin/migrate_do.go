package admin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/internal/rabbit"
	"github.com/rehop/rehop/layout"
	"github.com/rehop/rehop/topology"
)

// do does one step. Each can be repeated.
func (m *migration) do(ctx context.Context, step Step) error {
	queue, keeping := m.want.Name, layouts.MigratingQueue(m.want.Name)
	gateToQueue := topology.Binding{Source: keeping, Destination: queue}
	diverted := step.binding
	diverted.Destination, diverted.ToExchange = keeping, true
	switch step.Action {
	case ActionDeadLetters:
		return m.admin.write.Declare(ctx, m.missing)
	case ActionDeleteHeld:
		return m.deleteHeld(ctx)
	case ActionPrepare:
		return m.prepare(ctx)
	case ActionDivert:
		return m.bind(ctx, diverted)
	case ActionUnbind:
		return m.unbind(ctx, step.binding)
	case ActionRestore:
		return m.bind(ctx, step.binding)
	case ActionUndivert:
		return m.unbind(ctx, diverted)
	case ActionClose:
		if m.options.KeepOrder {
			return m.closeInOrder(ctx, gateToQueue)
		}
		return m.unbind(ctx, gateToQueue)
	case ActionOpen:
		if m.options.KeepOrder && m.state.aside {
			return m.openInOrder(ctx, gateToQueue)
		}
		return m.bind(ctx, gateToQueue)
	case ActionMove:
		return m.catchUp(ctx, queue, layouts.AsideExchange(queue))
	case ActionReturnEarly:
		return m.catchUp(ctx, keeping, layouts.BackExchange(queue))
	case ActionEmpty:
		if err := m.resume(ctx); err != nil {
			return err
		}
		return m.vacate(ctx)
	case ActionDelete:
		return m.delete(ctx)
	case ActionDeclare:
		return m.declare(ctx, topology.Plan{Queues: []topology.Queue{m.want}})
	case ActionPrepareReturn:
		back := layouts.BackExchange(queue)
		return m.declare(ctx, topology.Plan{
			Exchanges: []topology.Exchange{{Name: back, Type: "fanout"}},
			Bindings:  []topology.Binding{{Source: back, Destination: queue}},
		})
	case ActionReturn:
		// Because of the lock, nobody else consumes it.
		return m.empty(ctx, keeping, layouts.BackExchange(queue), inFlight)
	case ActionClear:
		return m.clear(ctx)
	}
	return fmt.Errorf("there is no step %q", step.Action)
}

// inFlight is how long a message may take from the exchange, after it was routed, to the queue. Settle has nothing to do with it, which may be shorter.
const inFlight = time.Second

// keeping is what keeps messages during the migration. The gate is bound to the queue until the first binding is diverted to it.
func (m *migration) keeping() topology.Plan {
	queue := m.want.Name
	gate, aside := layouts.MigratingQueue(queue), layouts.AsideExchange(queue)
	plan := topology.Plan{
		Exchanges: []topology.Exchange{
			{Name: aside, Type: "fanout"},
		},
		Bindings: []topology.Binding{{Source: aside, Destination: gate}},
	}
	pausing := m.pausing()
	plan.Exchanges = append(append(plan.Exchanges, pausing.Exchanges...),
		topology.Exchange{Name: gate, Type: "fanout", Args: topology.Args{"alternate-exchange": layouts.LettersExchange(queue)}})
	plan.Bindings = append(plan.Bindings, pausing.Bindings...)
	if m.kept.Name == "" {
		plan.Queues = append(plan.Queues, topology.Queue{Name: gate, Args: m.keepingArgs()})
	}
	if len(m.state.diverted) == 0 {
		plan.Bindings = append(plan.Bindings, topology.Binding{Source: gate, Destination: queue})
	}
	return plan
}

// keepingArgs are the arguments of the queue that keeps messages. Messages that expire there are dead-lettered as from the queue itself.
func (m *migration) keepingArgs() topology.Args {
	kind := layout.Classic
	if m.have.Type == quorum || layouts.IsQuorum(m.want) {
		kind = layout.Quorum
	}
	args := layouts.KeepArgs(kind)
	args["x-overflow"] = "reject-publish" // if a policy limits its length, new messages must not push out others
	exchange, dies := m.have.Effective("dead-letter-exchange")
	if !dies {
		return args
	}
	args["x-dead-letter-exchange"] = exchange
	if key, ok := m.have.Effective("dead-letter-routing-key"); ok {
		args["x-dead-letter-routing-key"] = key
	}
	if kind == layout.Quorum {
		args["x-dead-letter-strategy"] = "at-least-once"
	}
	return args
}

func (m *migration) bind(ctx context.Context, b topology.Binding) error {
	return m.admin.write.Declare(ctx, topology.Plan{Bindings: []topology.Binding{b}})
}

// unbind removes a binding with the management API. If several bindings are equal, it removes all of them.
func (m *migration) unbind(ctx context.Context, b topology.Binding) error {
	api, kind := m.admin.management, "q"
	if b.ToExchange {
		kind = "e"
	}
	path := api.path("/api/bindings/%s/e/%s/"+kind+"/%s", b.Source, b.Destination)
	var found []apiRoute
	if err := api.call(ctx, http.MethodGet, path, nil, &found); err != nil && !missing(err) {
		return err
	}
	typed, err := m.typing.routes(ctx, found)
	if err != nil {
		return err
	}
	for i, f := range found {
		if !b.Equal(typed[i]) {
			continue
		}
		if err := api.call(ctx, http.MethodDelete, path+"/"+url.PathEscape(f.Properties), nil, nil); err != nil && !missing(err) {
			return err
		}
	}
	return nil
}

// delete deletes the queue if it is empty and unused, and if nobody has bound it meanwhile. It checks that itself, because the broker does not
// check it for quorum queues.
func (m *migration) delete(ctx context.Context) error {
	if err := m.refresh(ctx); err != nil {
		return err
	}
	if len(m.state.direct) > 0 || m.state.open && len(m.state.diverted) > 0 {
		return errChanged
	}
	queue := m.want.Name
	depth, err := m.admin.read.InspectClosely(ctx, queue)
	if err != nil {
		return queueError(err)
	}
	ignore := m.options.Consumers == IgnoreConsumers
	if depth.Messages > 0 || depth.Consumers > 0 && !ignore {
		return errChanged
	}
	spare := m.have.Type == classic && !(ignore && depth.Consumers > 0)
	lost, err := m.admin.write.DeleteQueue(ctx, queue, spare)
	switch {
	case errors.Is(err, rabbit.ErrInUse):
		return errChanged
	case err == nil && lost > 0:
		return fmt.Errorf("%d messages were published to the name of the queue at the moment when it was deleted, and are lost: pause publishers that use its name", lost)
	}
	return err
}

// clear deletes what was declared for the migration, in the direction in which messages flow.
func (m *migration) clear(ctx context.Context) error {
	queue := m.want.Name
	keeping := layouts.MigratingQueue(queue)
	for _, x := range []string{keeping, layouts.LettersExchange(queue), layouts.PauseQueue(queue), layouts.AsideExchange(queue)} {
		if err := m.admin.write.DeleteExchange(ctx, x); err != nil {
			return err
		}
	}
	if m.kept.Name != "" || m.state.aside {
		depth, _, err := existing(m.admin.read.InspectClosely(ctx, keeping))
		switch {
		case err != nil:
			return err
		case depth.Messages > 0:
			m.state.returned = false
			return errChanged
		}
		if _, err := m.admin.write.DeleteQueue(ctx, keeping, false); err != nil {
			return err
		}
	}
	if err := m.admin.write.DeleteExchange(ctx, layouts.BackExchange(queue)); err != nil {
		return err
	}
	_, err := m.admin.write.DeleteQueue(ctx, layouts.PauseQueue(queue), false)
	return err
}

// lock keeps others from migrating or reading the queue at the same time. The broker removes the lock with the connection that reads messages, and
// requeues what that has read.
func (m *migration) lock(ctx context.Context) error {
	err := m.admin.read.Declare(ctx, topology.Plan{Queues: []topology.Queue{{Name: layouts.LockQueue(m.want.Name), Exclusive: true}}})
	if declareCode(err) == resourceLocked {
		return errors.New("it is being migrated; if the process that did so has died, the broker notices within seconds")
	}
	return err
}

func (m *migration) unlock() {
	ctx, cancel := context.WithTimeout(context.Background(), unlockLimit)
	defer cancel()
	// If that fails, the lock ends with the connection.
	_, _ = m.admin.read.DeleteQueue(ctx, layouts.LockQueue(m.want.Name), false)
}

const unlockLimit = 2 * time.Second

// tryExpires is after how long the broker deletes a queue that was declared to try its arguments, if this process dies.
const tryExpires = time.Minute

// try finds out whether the broker accepts the new arguments, before the old queue is deleted. It does nothing once the new queue exists, or was tried
// in this run.
func (m *migration) try(ctx context.Context) error {
	if m.state.wanted || m.tried {
		return nil
	}
	err := m.admin.tryQueue(ctx, m.want)
	if d, ok := errors.AsType[*rabbit.DeclareError](err); ok && !errors.Is(err, errNotTried) {
		return fmt.Errorf("the broker refuses a queue with %s: %s (%d); nothing has been changed. Correct the arguments in the plan, or what the broker names, and run it again",
			arguments(m.want.Args), d.Reason, d.Code)
	}
	m.tried = err == nil
	return err
}

// errNotTried: the user may not declare the queue for the trial.
var errNotTried = errors.New("the arguments were not tried: give the user configure permission for queues " + tryPrefix + "*")

// tryQueue declares a permanent queue under another name, and deletes it. If the broker refuses it, the error is a *rabbit.DeclareError with the name of
// the queue itself.
func (a *Admin) tryQueue(ctx context.Context, want topology.Queue) error {
	q := want
	q.Name = tryPrefix + rabbit.NewID()
	q.Args = make(topology.Args)
	maps.Copy(q.Args, want.Args)
	// The plan's own x-expires is tried if it is short enough: the broker may not accept it.
	const most = int(tryExpires / time.Millisecond)
	if own, set := number(q.Args["x-expires"]); q.Args["x-expires"] == nil || set && own > most {
		q.Args["x-expires"] = int64(most)
	}
	err := a.write.Declare(ctx, topology.Plan{Queues: []topology.Queue{q}})
	d, isRefusal := errors.AsType[*rabbit.DeclareError](err)
	if isRefusal && d.Code == accessRefused && strings.Contains(d.Reason, q.Name) {
		return fmt.Errorf("%w: %w", errNotTried, err)
	}
	if isRefusal {
		refused := *d
		refused.Name, refused.Reason, refused.Hint = want.Name, strings.ReplaceAll(d.Reason, q.Name, want.Name), "correct this in the plan, or what the broker names"
		return &refused
	}
	if err != nil {
		return err
	}
	longer, end := rabbit.Grace(ctx, unlockLimit)
	defer end()
	_, err = a.write.DeleteQueue(longer, q.Name, false)
	return err
}

// declare declares a part of what the migration needs. If the broker refuses the queue itself because another program has declared it meanwhile with its
// old arguments, the next refresh shows what to do.
func (m *migration) declare(ctx context.Context, plan topology.Plan) error {
	err := m.admin.write.Declare(ctx, plan)
	d, isRefusal := errors.AsType[*rabbit.DeclareError](err)
	if !isRefusal || d.Code != preconditionFailed || d.Object != "queue" || d.Name != m.want.Name {
		return err
	}
	_, exists, fault := existing(m.admin.read.Inspect(ctx, m.want.Name))
	switch {
	case exists:
		return errChanged
	case fault == nil:
		return fmt.Errorf("%w; its messages are kept meanwhile, and the same migration continues when the broker accepts the queue", err)
	}
	return errors.Join(err, fault)
}
