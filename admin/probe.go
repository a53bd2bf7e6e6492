package admin

import (
	"context"
	"errors"
	"regexp"
	"strconv"

	"github.com/rehop/rehop/internal/rabbit"
	"github.com/rehop/rehop/topology"
)

// probe finds through AMQP alone what a broker has of a plan.
//
// Nothing is created: what does not exist is asked for passively only. What exists is then declared as planned,
// which changes nothing, and the broker's no names what differs.
type probe struct {
	link  *rabbit.Link
	live  topology.Live
	blind topology.Diff // what could not be compared
}

// The broker's answers to a declaration, from AMQP.
const (
	accessRefused      = 403
	notFound           = 404
	resourceLocked     = 405
	preconditionFailed = 406
)

func (p *probe) look(ctx context.Context, plan topology.Plan) error {
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
	passive := topology.Exchange{Name: x.Name, Passive: true}
	there, err := p.there(ctx, x.Object(), topology.Plan{Exchanges: []topology.Exchange{passive}})
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
	there, err := p.there(ctx, q.Object(), topology.Plan{Queues: []topology.Queue{passive}})
	if !there || err != nil {
		return err
	}
	have := topology.LiveQueue{Queue: q, Durable: !q.Exclusive}
	if !q.Passive && !q.Temporary() { // which might be gone by now, and would be made
		err = p.refusals(ctx, q.Object(),
			func() topology.Plan { return topology.Plan{Queues: []topology.Queue{have.Queue}} },
			func(r refusal) bool { return r.ofQueue(&have) })
	}
	p.live.Queues = append(p.live.Queues, have)
	return err
}

// there reports whether an object exists. One that cannot be seen does: it is in somebody else's hands.
func (p *probe) there(ctx context.Context, name topology.Object, passive topology.Plan) (bool, error) {
	err := p.link.Declare(ctx, passive)
	var d *rabbit.DeclareError
	switch {
	case err == nil:
		return true, nil
	case errors.As(err, &d) && d.Code == notFound:
		return false, nil
	case errors.As(err, &d) && (d.Code == resourceLocked || d.Code == accessRefused):
		return true, nil // refusals says so, too
	}
	return false, err
}

// maxRefusals is more than an object has arguments.
const maxRefusals = 40

// refusals declares an object that exists until the broker agrees, each time adapted to what it said last.
func (p *probe) refusals(ctx context.Context, name topology.Object, object func() topology.Plan, adapt func(refusal) bool) error {
	said := ""
	for range maxRefusals {
		err := p.link.Declare(ctx, object())
		var d *rabbit.DeclareError
		if !errors.As(err, &d) {
			return err
		}
		r, ok := readRefusal(d)
		if ok && r.argument != said && adapt(r) {
			said = r.argument
			continue
		}
		if !ok {
			p.blind = append(p.blind, topology.Difference{Kind: topology.Unchecked, Object: name, Do: topology.Check, Hint: d.Reason})
		}
		return nil
	}
	return nil
}

// refusal is what a broker says about the one thing in which a declaration differs from what exists.
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

// ofExchange notes it, and reports whether an exchange like that can be declared, to learn what else differs.
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

// ofQueue notes it, and reports whether a queue like that can be declared, to learn what else differs.
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

// in is a table that has it.
func (r refusal) in(args topology.Args) topology.Args {
	changed := make(topology.Args, len(args)+1)
	for name, value := range args {
		changed[name] = value
	}
	if r.have == nil {
		delete(changed, r.argument)
	} else {
		changed[r.argument] = r.have
	}
	return changed
}
