package admin

import (
	"context"
	"errors"
	"maps"
	"regexp"
	"strconv"

	"github.com/rehop/rehop/internal/rabbit"
	"github.com/rehop/rehop/topology"
)

// probe finds out, with AMQP only, what a broker has of a plan.
//
// It creates nothing: it first declares each object passively, to see whether it exists. If so, it declares it as planned, which changes nothing, and
// the error of the broker names what differs.
type probe struct {
	link  *rabbit.Link
	live  topology.Live
	blind topology.Diff // what could not be compared
}

func (p *probe) look(ctx context.Context, plan topology.Plan) error {
	line, err := p.link.Line(ctx)
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
	passive := topology.Exchange{Name: x.Name, Passive: true}
	there, err := p.there(ctx, topology.Plan{Exchanges: []topology.Exchange{passive}})
	if !there || err != nil {
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
	passive := topology.Queue{Name: q.Name, Passive: true}
	there, err := p.there(ctx, topology.Plan{Queues: []topology.Queue{passive}})
	if !there || err != nil {
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

// there reports whether an object exists. An object that this user cannot see exists: refusals then adds what could not be compared.
func (p *probe) there(ctx context.Context, passive topology.Plan) (bool, error) {
	err := p.link.Declare(ctx, passive)
	switch declareCode(err) {
	case notFound:
		return false, nil
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
			p.blind = append(p.blind, topology.Difference{Kind: topology.Unchecked, Object: name, Do: topology.Look, Hint: d.Reason})
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
		x.Kind, _ = r.have.(string)
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
