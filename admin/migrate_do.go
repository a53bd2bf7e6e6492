package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/internal/rabbit"
	"github.com/rehop/rehop/layout"
	"github.com/rehop/rehop/topology"
)

// do takes one step. Each can be repeated.
func (m *migration) do(ctx context.Context, step Step) error {
	queue, moving := m.want.Name, layouts.MovingQueue(m.want.Name)
	gateToQueue := topology.Binding{Source: moving, Destination: queue}
	diverted := step.binding
	diverted.Destination, diverted.ToExchange = moving, true
	switch step.Action {
	case ActionLetters:
		return m.admin.write.Declare(ctx, m.missing)
	case ActionPrepare:
		return m.prepare(ctx)
	case ActionDivert:
		return m.bind(ctx, diverted)
	case ActionRelease:
		return m.unbind(ctx, step.binding)
	case ActionRestore:
		return m.bind(ctx, step.binding)
	case ActionWithdraw:
		return m.unbind(ctx, diverted)
	case ActionClose:
		return m.unbind(ctx, gateToQueue)
	case ActionOpen:
		return m.bind(ctx, gateToQueue)
	case ActionCarry:
		return m.catchUp(ctx, queue, layouts.AsideExchange(queue))
	case ActionAhead:
		return m.catchUp(ctx, moving, layouts.BackExchange(queue))
	case ActionEmpty:
		return m.vacate(ctx)
	case ActionDelete:
		return m.delete(ctx)
	case ActionDeclare:
		return m.declare(ctx, topology.Plan{Queues: []topology.Queue{m.want}})
	case ActionLead:
		back := layouts.BackExchange(queue)
		return m.declare(ctx, topology.Plan{
			Exchanges: []topology.Exchange{{Name: back, Type: "fanout"}},
			Bindings:  []topology.Binding{{Source: back, Destination: queue}},
		})
	case ActionReturn:
		// Nobody else consumes it: the lock sees to that.
		return m.empty(ctx, moving, layouts.BackExchange(queue), min(m.options.Settle, inFlight))
	case ActionClear:
		return m.clear(ctx)
	}
	return fmt.Errorf("there is no step %q", step.Action)
}

// inFlight is how long a message may take from an exchange that was asked where it goes to the queue.
const inFlight = time.Second

// keeping is what keeps messages meanwhile. The gate leads to the queue until the first binding leads to it.
func (m *migration) keeping() topology.Plan {
	queue := m.want.Name
	gate, aside := layouts.MovingQueue(queue), layouts.AsideExchange(queue)
	plan := topology.Plan{
		Exchanges: []topology.Exchange{
			{Name: aside, Type: "fanout"},
			{Name: gate, Type: "fanout", Args: topology.Args{"alternate-exchange": aside}},
		},
		Bindings: []topology.Binding{{Source: aside, Destination: gate}},
	}
	if m.kept.Name == "" {
		plan.Queues = append(plan.Queues, topology.Queue{Name: gate, Args: m.keepingArgs()})
	}
	if len(m.state.diverted) == 0 {
		plan.Bindings = append(plan.Bindings, topology.Binding{Source: gate, Destination: queue})
	}
	return plan
}

// keepingArgs are those of the queue that keeps messages. What expires there goes where it would have gone
// from the queue itself.
func (m *migration) keepingArgs() topology.Args {
	kind := layout.Classic
	if m.have.Type == string(layout.Quorum) || layouts.IsQuorum(m.want) {
		kind = layout.Quorum
	}
	args := layouts.KeepArgs(kind)
	args["x-overflow"] = "reject-publish" // should a policy limit it: what is confirmed must not drop what was before it
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

// unbind removes a binding through the management API, which does so in one call for each that it shows.
func (m *migration) unbind(ctx context.Context, b topology.Binding) error {
	api, kind := m.admin.management, "q"
	if b.ToExchange {
		kind = "e"
	}
	ends := fmt.Sprintf("/api/bindings/%s/e/%s/%s/%s", url.PathEscape(api.vhost), url.PathEscape(b.Source), kind, url.PathEscape(b.Destination))
	var found []apiRoute
	if err := api.call(ctx, http.MethodGet, ends, nil, &found); err != nil && !missing(err) {
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
		if err := api.call(ctx, http.MethodDelete, ends+"/"+url.PathEscape(f.Properties), nil, nil); err != nil && !missing(err) {
			return err
		}
	}
	return nil
}

func missing(err error) bool {
	var s *statusError
	return errors.As(err, &s) && s.status == http.StatusNotFound
}

// delete deletes the queue if it is empty and unused, and if nobody has bound it meanwhile. A quorum queue is not
// asked for that by the broker.
func (m *migration) delete(ctx context.Context) error {
	if err := m.look(ctx); err != nil {
		return err
	}
	if len(m.state.direct) > 0 || m.state.open && len(m.state.diverted) > 0 {
		return errLook
	}
	queue := m.want.Name
	depth, err := m.admin.read.InspectClosely(ctx, queue)
	if err != nil {
		return queueError(err)
	}
	ignore := m.options.Consumers == IgnoreConsumers
	if depth.Messages > 0 || depth.Consumers > 0 && !ignore {
		return errLook
	}
	spare := m.have.Type == string(layout.Classic) && !(ignore && depth.Consumers > 0)
	lost, err := m.admin.write.DeleteQueue(ctx, queue, spare)
	switch {
	case errors.Is(err, rabbit.ErrInUse):
		return errLook
	case err == nil && lost > 0:
		return fmt.Errorf("%d messages came by the queue's name in the moment in which it was deleted, and are lost: have those who publish by name pause", lost)
	}
	return err
}

// clear deletes what was only there for the migration, from the way in on.
func (m *migration) clear(ctx context.Context) error {
	queue := m.want.Name
	moving := layouts.MovingQueue(queue)
	for _, x := range []string{moving, layouts.AsideExchange(queue)} {
		if err := m.admin.write.DeleteExchange(ctx, x); err != nil {
			return err
		}
	}
	if m.kept.Name != "" || m.state.aside {
		depth, err := m.admin.read.InspectClosely(ctx, moving)
		switch {
		case err != nil && !errors.Is(queueError(err), ErrNoQueue):
			return err
		case err == nil && depth.Messages > 0:
			m.state.returned = false
			return errLook
		}
		if _, err := m.admin.write.DeleteQueue(ctx, moving, false); err != nil {
			return err
		}
	}
	return m.admin.write.DeleteExchange(ctx, layouts.BackExchange(queue))
}

// lock keeps others from migrating the queue at the same time. The broker forgets it with the connection that
// reads messages, and gives back what that held.
func (m *migration) lock(ctx context.Context) error {
	err := m.admin.read.Declare(ctx, topology.Plan{Queues: []topology.Queue{{Name: layouts.LockQueue(m.want.Name), Exclusive: true}}})
	var d *rabbit.DeclareError
	if errors.As(err, &d) && d.Code == resourceLocked {
		return errors.New("it is being migrated; if the process that did so has died, the broker notices within seconds")
	}
	return err
}

func (m *migration) unlock() {
	ctx, cancel := context.WithTimeout(context.Background(), unlockLimit)
	defer cancel()
	// If that fails, the connection ends, and the lock with it.
	_, _ = m.admin.read.DeleteQueue(ctx, layouts.LockQueue(m.want.Name), false)
}

const unlockLimit = 2 * time.Second

// number reads an argument that is a whole number.
func number(v any) (int, bool) {
	switch v := v.(type) {
	case int:
		return v, true
	case int32:
		return int(v), true
	case int64:
		return int(v), true
	case float64:
		return int(v), v == math.Trunc(v)
	case json.Number:
		n, err := v.Int64()
		return int(n), err == nil
	}
	return 0, false
}

// plainValue is a value in which all whole numbers are of one type.
func plainValue(v any) any {
	if n, ok := number(v); ok {
		return n
	}
	return v
}

// argument is a value as people read it.
func argument(v any) string {
	switch v := v.(type) {
	case nil:
		return "none"
	case string:
		return fmt.Sprintf("%q", v)
	}
	return fmt.Sprint(v)
}

// arguments are as in: x-message-ttl 5000, x-queue-type "quorum".
func arguments(args topology.Args) string {
	if len(args) == 0 {
		return "no arguments"
	}
	var all []string
	for name, value := range args {
		all = append(all, name+" "+argument(value))
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}
