package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/rehop/rehop/internal/delays"
	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/internal/rabbit"
	"github.com/rehop/rehop/layout"
	"github.com/rehop/rehop/topology"
)

// define declares on the target what the source has.
func (m *move) define(ctx context.Context) error {
	var p MovePlan
	plan, err := m.definitions(ctx, &p)
	if err == nil {
		err = p.refusal()
	}
	if err != nil {
		return err
	}
	if _, err := m.to.apply(ctx, m.options.planWith(plan), false); err != nil {
		return fmt.Errorf("declare on the target what the source has: %w", err)
	}
	if m.options.Users {
		if err := m.moveUsers(ctx); err != nil {
			return err
		}
	}
	for _, q := range m.queues {
		m.defined[q.Name] = true
	}
	if err := m.readBothBrokers(ctx); err != nil {
		return err
	}
	if m.delays == nil {
		m.delays = &delays.Delays{Declarer: delays.NewDeclarer(m.to.write), Native: layouts.Native{Type: m.delayType()}, Public: func(err error) error { return err }}
	}
	return nil
}

// delayType is the type of the target's delay queues: that of its orphan queue, which has the same.
func (m *move) delayType() layout.QueueType {
	if q, exists := m.target.Queue(layouts.OrphansQueue); exists && q.Type == classic {
		return layout.Classic
	}
	return layout.Quorum
}

// definitions are what the source has and Plan does not have, as far as that is to be moved. Refusals and notes go to p.
func (m *move) definitions(ctx context.Context, p *MovePlan) (topology.Plan, error) {
	d := &defining{move: m, report: p, exchanges: make(map[string]bool), queues: make(map[string]bool), planned: make(map[string]bool)}
	for _, x := range m.options.Plan.Exchanges {
		d.planned[x.Object().String()] = !x.Passive
	}
	for _, q := range m.options.Plan.Queues {
		d.planned[q.Object().String()] = !q.Passive
	}
	for _, q := range m.source.Queues {
		d.queue(q)
	}
	needed := d.needed()
	if err := d.types(ctx); err != nil {
		return topology.Plan{}, err
	}
	for _, x := range m.source.Exchanges {
		if needed[x.Name] {
			d.exchange(x)
		}
	}
	for _, rule := range m.source.Policies {
		d.policy(rule)
	}
	return d.plan, d.bindings(ctx)
}

// planWith is Plan with what the source has besides. What Plan has as existing, because another program declares it, is moved if the source has it. All is
// one plan: bindings of one part can need exchanges and queues of the other.
func (o MoveOptions) planWith(source topology.Plan) topology.Plan {
	all := o.Plan
	has := make(map[string]bool)
	for _, x := range source.Exchanges {
		has[x.Object().String()] = true
	}
	for _, q := range source.Queues {
		has[q.Object().String()] = true
	}
	all.Exchanges = slices.DeleteFunc(slices.Clone(all.Exchanges), func(x topology.Exchange) bool { return has[x.Object().String()] })
	all.Queues = slices.DeleteFunc(slices.Clone(all.Queues), func(q topology.Queue) bool { return has[q.Object().String()] })
	all.Exchanges = append(all.Exchanges, source.Exchanges...)
	all.Queues = append(all.Queues, source.Queues...)
	all.Bindings = slices.Clone(all.Bindings)
	for _, b := range source.Bindings {
		if !slices.ContainsFunc(all.Bindings, b.Equal) {
			all.Bindings = append(all.Bindings, b)
		}
	}
	all.Policies = append(slices.Clone(all.Policies), slices.DeleteFunc(slices.Clone(source.Policies), func(p topology.Policy) bool {
		return slices.ContainsFunc(o.Plan.Policies, func(other topology.Policy) bool { return other.Name == p.Name })
	})...)
	return all
}

// defining is a plan for the target.
type defining struct {
	*move
	report    *MovePlan
	plan      topology.Plan
	planned   map[string]bool // objects of Plan
	exchanges map[string]bool // that the target has or gets
	queues    map[string]bool
	kinds     map[string]bool // types of exchanges that the target has; empty: not known
}

// queue plans a queue.
func (d *defining) queue(q topology.LiveQueue) {
	object := q.Object()
	ours := strings.HasPrefix(q.Name, "rehop.") // delay queues and those that all queues share
	switch {
	case layouts.IsMigrating(q.Name):
		d.report.refuse(object, "queue %q of the source is being migrated: finish the migration first (rehop topology migrate)", layouts.Migrated(q.Name))
		return
	case q.Exclusive, layouts.IsPassing(q.Name), !ours && !d.wants(q.Name):
		return
	case q.AutoDelete:
		d.report.note("%s is temporary: its consumers declare it, and its messages are not moved", object)
		return
	case d.planned[object.String()]:
		d.queues[q.Name] = true
		return
	case q.Type == stream:
		d.report.refuse(object, "it is a stream, whose messages are not removed when they are read: leave it out (--except), and copy it with a shovel")
		return
	case !q.Durable && !d.options.Durable && !d.has(q.Name):
		d.report.refuse(object, "it is transient: a broker that restarts loses it, and RabbitMQ 4.3 refuses it; declare it as durable (--durable), or leave it out (--except)")
		return
	}
	want := topology.Queue{Name: q.Name, Args: declarable(q.Args)}
	switch {
	case q.Type == classic && d.options.QueueType == layout.Quorum:
		want.Args = d.asQuorum(want)
		d.report.note("%s is classic on the source, and quorum on the target", object)
	case want.Args["x-queue-type"] == nil && q.Type != "" && q.Type != defaultType(d.target):
		want.Args["x-queue-type"] = q.Type
	}
	d.queues[q.Name] = true
	d.plan.Queues = append(d.plan.Queues, want)
}

// has reports whether the target has a queue.
func (d *defining) has(queue string) bool {
	_, exists := d.target.Queue(queue)
	return exists
}

// defaultType is the type of queues that are declared without one.
func defaultType(live topology.Live) string {
	if live.DefaultType == "" {
		return classic
	}
	return live.DefaultType
}

// asQuorum are the arguments of a classic queue for a quorum queue, without those that only concern how classic queues store messages. rehop's queues
// get what its clients declare.
func (d *defining) asQuorum(q topology.Queue) topology.Args {
	for _, name := range []string{"x-queue-mode", "x-queue-version", "x-queue-master-locator"} {
		delete(q.Args, name)
	}
	_, companion := d.owners[q.Name]
	if companion || strings.HasPrefix(q.Name, "rehop.") || (layouts.Native{}).DeadLettersToFailed(q) {
		return layouts.AsQuorum(q.Name, q.Args)
	}
	q.Args["x-queue-type"] = quorum
	return q.Args
}

// declarable are arguments that the management API shows, as they are declared: RabbitMQ does not distinguish types of numbers there.
func declarable(args topology.Args) topology.Args {
	out := make(topology.Args, len(args)+1)
	for name, value := range args {
		out[name] = declarableValue(value)
	}
	return out
}

func declarableValue(v any) any {
	switch v := v.(type) {
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
		f, _ := v.Float64() // JSON has nothing else
		return f
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = declarableValue(e)
		}
		return out
	case map[string]any:
		return map[string]any(declarable(v))
	}
	return v
}

// needed are the exchanges that are moved: all, or those that lead to the queues that are moved or get their dead letters, and rehop's own.
func (d *defining) needed() map[string]bool {
	needed := make(map[string]bool)
	all := len(d.options.Queues) == 0
	for _, x := range d.source.Exchanges {
		if x.Name != "" && !layouts.IsPassing(x.Name) && (all || strings.HasPrefix(x.Name, "rehop.")) {
			needed[x.Name] = true
		}
	}
	for _, q := range d.source.Queues {
		if exchange, _ := q.Effective("dead-letter-exchange"); d.queues[q.Name] && exchange != nil && exchange != "" {
			needed[fmt.Sprint(exchange)] = true
		}
	}
	for before := -1; before != len(needed); {
		before = len(needed)
		for _, b := range d.source.Bindings {
			if b.ToExchange && needed[b.Destination] || !b.ToExchange && d.queues[b.Destination] && !layouts.IsPassing(b.Source) {
				needed[b.Source] = true
			}
		}
		for _, x := range d.source.Exchanges {
			if other, _ := x.Effective("alternate-exchange"); needed[x.Name] && other != nil {
				needed[fmt.Sprint(other)] = true
			}
		}
	}
	return needed
}

// types finds which types of exchanges the target has.
func (d *defining) types(ctx context.Context) error {
	var overview struct {
		Types []struct{ Name string } `json:"exchange_types"`
	}
	if err := d.to.management.get(ctx, "/api/overview?columns=exchange_types", &overview); err != nil {
		return fmt.Errorf("types of exchanges of the target: %w", err)
	}
	d.kinds = make(map[string]bool)
	for _, t := range overview.Types {
		d.kinds[t.Name] = true
	}
	return nil
}

// exchange plans an exchange.
func (d *defining) exchange(x topology.LiveExchange) {
	object := x.Object()
	switch {
	case strings.HasPrefix(x.Name, "amq."): // every broker has these
		d.exchanges[x.Name] = true
		return
	case d.planned[object.String()]:
		d.exchanges[x.Name] = true
		return
	case len(d.kinds) > 0 && !d.kinds[x.Type]:
		d.report.refuse(object, "the target has no exchanges of type %s: enable the plugin that has them", x.Type)
		return
	case !x.Durable && !d.options.Durable:
		d.report.refuse(object, "it is transient; declare it as durable (--durable), or delete it on the source")
		return
	case x.Type == "x-delayed-message":
		d.report.note("%s keeps messages that it delays for itself, and these are not moved: wait until none is left", object)
	}
	d.exchanges[x.Name] = true
	d.plan.Exchanges = append(d.plan.Exchanges, topology.Exchange{Name: x.Name, Type: x.Type, Internal: x.Internal, AutoDelete: x.AutoDelete, Args: declarable(x.Args)})
}

// bindings plans the bindings between what is planned, with the types of their arguments.
func (d *defining) bindings(ctx context.Context) error {
	chosen := slices.DeleteFunc(slices.Clone(d.source.Bindings), func(b topology.Binding) bool {
		return !d.exchanges[b.Source] || b.ToExchange && !d.exchanges[b.Destination] || !b.ToExchange && !d.queues[b.Destination]
	})
	typed, err := d.from.newTyping().of(ctx, chosen)
	if err != nil {
		return fmt.Errorf("bindings of the source: %w", err)
	}
	d.plan.Bindings = typed
	return nil
}

// policy plans a policy, if it applies to something that is moved.
func (d *defining) policy(rule topology.Policy) {
	if len(d.options.Queues) > 0 && !d.rules(rule.Name) {
		return
	}
	rule.Definition = declarable(rule.Definition)
	var mirroring []string
	for name := range rule.Definition {
		if strings.HasPrefix(name, "ha-") {
			mirroring = append(mirroring, name)
		}
	}
	if len(mirroring) > 0 && isMajor(d.target, 4) {
		if d.options.QueueType == "" {
			d.report.refuse(rule.Object(), "it mirrors classic queues, which RabbitMQ 4 cannot do: make them quorum queues, which are replicated (--queue-type quorum), "+
				"or leave them without copies (--queue-type classic)")
			return
		}
		d.report.note("%s mirrors classic queues, which RabbitMQ 4 cannot do; it is moved without that", rule.Object())
		for _, name := range mirroring {
			delete(rule.Definition, name)
		}
		if len(rule.Definition) == 0 {
			return
		}
	}
	d.plan.Policies = append(d.plan.Policies, rule)
}

// rules reports whether a policy applies to something that is moved.
func (d *defining) rules(policy string) bool {
	return slices.ContainsFunc(d.source.Queues, func(q topology.LiveQueue) bool { return d.queues[q.Name] && q.Policy == policy }) ||
		slices.ContainsFunc(d.source.Exchanges, func(x topology.LiveExchange) bool { return d.exchanges[x.Name] && x.Policy == policy })
}

// isMajor reports whether a broker follows this major release of RabbitMQ, or a later one.
func isMajor(live topology.Live, major int) bool {
	var has int
	_, err := fmt.Sscanf(live.Version, "%d.", &has)
	return err == nil && has >= major
}

// tryPolicies finds out which policies the target refuses. It sets each that is missing under another name, with a pattern that no
// queue has, and deletes it.
func (m *move) tryPolicies(ctx context.Context, policies []topology.Policy, p *MovePlan) error {
	api := m.to.management
	for _, rule := range policies {
		if slices.ContainsFunc(m.target.Policies, func(has topology.Policy) bool { return has.Name == rule.Name }) {
			continue
		}
		try, object := rule, rule.Object()
		try.Name = tryPrefix + rabbit.NewID()
		try.Pattern = `^rehop\.try\.nothing$`
		path := api.path("/api/policies/%s/%s", try.Name)
		err := api.call(ctx, http.MethodPut, path, try, nil)
		switch {
		case statusOf(err) == http.StatusBadRequest:
			p.refuse(object, "%v; change it on the source, or delete it there", err)
		case err != nil:
			return fmt.Errorf("try %s on the target: %w", object, err)
		default:
			longer, end := rabbit.Grace(ctx, unlockLimit)
			err := api.call(longer, http.MethodDelete, path, nil, nil)
			end()
			if err != nil && !missing(err) {
				return fmt.Errorf("remove policy %q, with which %s was tried on the target: %w", try.Name, object, err)
			}
		}
	}
	return nil
}
