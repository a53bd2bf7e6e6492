package admin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"strconv"

	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/internal/rabbit"
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
		case d.Kind == topology.Unexpected && (d.Object.Source == layouts.MigratingQueue(queue) || d.Object.Source == layouts.BackExchange(queue)):
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
				queue, layouts.MigratingQueue(queue))
		}
	}
	return nil
}

// migrating reports whether a migration of a queue has begun and is not finished.
func (a *Admin) migrating(ctx context.Context, queue string) (bool, error) {
	_, migrating, err := existing(a.read.Inspect(ctx, layouts.MigratingQueue(queue)))
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
		err := p.read(ctx, form)
		return isForm(form, p.live), err
	})
	if err != nil {
		return plan, nil, err
	}
	p := &probe{link: a.read}
	if err := p.read(ctx, plan); err != nil {
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

// probe finds out, with AMQP only, what a broker has of a plan.
//
// It creates nothing: it first declares each object passively, to see whether it exists. If so, it declares it as planned, which changes nothing, and
// the error of the broker names what differs.
type probe struct {
	link  *rabbit.Link
	live  topology.Live
	blind topology.Diff // what could not be compared
}

func (p *probe) read(ctx context.Context, plan topology.Plan) error {
	line, err := p.link.Conn(ctx)
	if err != nil {
		return err
	}
	p.live.Partial, p.live.Version = true, line.Version()
	for _, x := range plan.Exchanges {
		if err := p.exchange(ctx, x); err != nil {
			return err
		}
	}
	for _, q := range plan.Queues {
		if err := p.queue(ctx, q); err != nil {
			return err
		}
	}
	return nil
}

func (p *probe) exchange(ctx context.Context, x topology.Exchange) error {
	exists, err := p.exists(ctx, topology.Plan{Exchanges: []topology.Exchange{{Name: x.Name, Passive: true}}})
	if !exists || err != nil {
		return err
	}
	have := topology.LiveExchange{Exchange: x, Durable: true}
	if !x.Passive {
		err = p.refusals(ctx, x.Object(),
			func() topology.Plan { return topology.Plan{Exchanges: []topology.Exchange{have.Exchange}} },
			func(r refusal) bool { return r.ofExchange(&have) })
	}
	p.live.Exchanges = append(p.live.Exchanges, have)
	return err
}

func (p *probe) queue(ctx context.Context, q topology.Queue) error {
	exists, err := p.exists(ctx, topology.Plan{Queues: []topology.Queue{{Name: q.Name, Passive: true}}})
	if !exists || err != nil {
		return err
	}
	have := topology.LiveQueue{Queue: q, Durable: !q.Exclusive}
	if !q.Passive && !q.Temporary() { // a temporary queue may be gone by now, and would be created
		err = p.refusals(ctx, q.Object(),
			func() topology.Plan { return topology.Plan{Queues: []topology.Queue{have.Queue}} },
			func(r refusal) bool { return r.ofQueue(&have) })
	}
	p.live.Queues = append(p.live.Queues, have)
	return err
}

// exists reports whether an object exists. An object that this user cannot see exists: refusals then adds what could not be compared.
func (p *probe) exists(ctx context.Context, passive topology.Plan) (bool, error) {
	err := p.link.Declare(ctx, passive)
	if isMissing(err) {
		return false, nil
	}
	switch declareCode(err) {
	case resourceLocked, accessRefused:
		return true, nil
	}
	return err == nil, err
}

// maxRefusals is more than the number of arguments of an object.
const maxRefusals = 40

// refusals declares an existing object until the broker accepts the declaration, each time adapted to its last error.
func (p *probe) refusals(ctx context.Context, name topology.Object, object func() topology.Plan, adapt func(refusal) bool) error {
	last := ""
	for range maxRefusals {
		err := p.link.Declare(ctx, object())
		d, isRefusal := errors.AsType[*rabbit.DeclareError](err)
		if !isRefusal {
			return err
		}
		r, ok := readRefusal(d)
		if ok && r.argument != last && adapt(r) {
			last = r.argument
			continue
		}
		if !ok {
			p.blind = append(p.blind, topology.Difference{Kind: topology.Unchecked, Object: name, Do: topology.Check, Hint: d.Reason})
		}
		return nil
	}
	return nil
}

// refusal is one difference between a declaration and the existing object, from the broker's error.
type refusal struct {
	argument string // or property, as in durable
	have     any    // nil: nothing
}

// currentValue is an argument with its type, a property, or nothing.
var currentValue = regexp.MustCompile(`but current is (?:none|the value '(.*)' of type '([a-z]*)'|'(.*)')$`)

func readRefusal(d *rabbit.DeclareError) (refusal, bool) {
	m := currentValue.FindStringSubmatch(d.Reason)
	if d.Code != preconditionFailed || d.Argument == "" || m == nil {
		return refusal{}, false
	}
	r := refusal{argument: d.Argument}
	switch text, kind := m[1]+m[3], m[2]; {
	case m[0] == "but current is none":
	case kind == "longstr":
		r.have = text
	case text == "true" || text == "false":
		r.have = text == "true"
	default:
		r.have = text
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			r.have = n
		}
	}
	return r, true
}

// ofExchange applies the refusal to an exchange, and reports whether it can be declared again, to find out what else differs.
func (r refusal) ofExchange(x *topology.LiveExchange) bool {
	flag, _ := r.have.(bool)
	switch r.argument {
	case "type":
		x.Type, _ = r.have.(string)
	case "internal":
		x.Internal = flag
	case "durable":
		x.Durable = flag
		return false
	case "auto_delete":
		x.AutoDelete = flag
		return false
	default:
		x.Args = r.in(x.Args)
	}
	return true
}

// ofQueue applies the refusal to a queue, and reports whether it can be declared again, to find out what else differs.
func (r refusal) ofQueue(q *topology.LiveQueue) bool {
	flag, _ := r.have.(bool)
	switch r.argument {
	case "auto_delete":
		q.AutoDelete = flag
	case "durable":
		q.Durable = flag
		return false
	default:
		q.Args = r.in(q.Args)
	}
	return true
}

// in returns a copy of a table with the value that the broker has.
func (r refusal) in(args topology.Args) topology.Args {
	changed := make(topology.Args, len(args)+1)
	maps.Copy(changed, args)
	if r.have == nil {
		delete(changed, r.argument)
	} else {
		changed[r.argument] = r.have
	}
	return changed
}
