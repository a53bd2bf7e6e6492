// Package topology describes exchanges, queues, bindings and policies as plain values.
//
// A [Plan] is what a client declares: rehop.Topology makes one of subscriptions. It can be written as
// RabbitMQ's definitions and drawn. [Live] is what a broker has, as Admin.Live of package admin reads
// it. [Compare] finds how they differ. Nothing in this package talks to a broker.
package topology

import (
	"fmt"
	"slices"
)

// Exchange is a durable exchange.
type Exchange struct {
	Name     string
	Type     string // direct, fanout, topic or headers
	Internal bool   // true: clients cannot publish to it, only bindings and dead-lettering reach it
	// AutoDelete: the broker deletes it when nothing is bound to it any more.
	AutoDelete bool `json:",omitempty"`
	Passive    bool // true: another application declares it, and rehop only checks that it exists
	Args       Args
}

// Queue is a queue.
type Queue struct {
	Name       string
	AutoDelete bool
	Exclusive  bool
	Passive    bool // true: another application declares it, and rehop only checks that it exists
	Args       Args
	// Priorities: it is a quorum queue whose messages have priorities. There is no argument for that: quorum
	// queues have priorities from RabbitMQ 4.0 on, and not before.
	Priorities bool `json:",omitempty"`
}

// Temporary reports whether the queue is deleted with its connection or its last consumer. Only its
// consumers declare such a queue.
func (q Queue) Temporary() bool { return !q.Passive && (q.Exclusive || q.AutoDelete) }

// Binding leads messages from an exchange to a queue, or to another exchange.
type Binding struct {
	Source      string
	Destination string
	ToExchange  bool
	Key         string
	Args        Args
}

// Plan is a set of objects in the order in which they can be declared.
type Plan struct {
	Exchanges []Exchange
	Queues    []Queue
	Bindings  []Binding
	// Policies set what the arguments leave out; see ByPolicy. Operators apply them, clients cannot.
	Policies []Policy `json:",omitempty"`

	// Alternatives are parts of the plan that applications with the same layout declare in several
	// forms. The plan has each part in its first form. Diff and Apply of package admin compare and
	// declare the form that the broker has.
	Alternatives [][]Plan `json:"-"`
}

// Merge adds the objects of q to p. An object that one of them declares replaces a passive one of the
// other. An object that both declare with different settings is an error.
func (p *Plan) Merge(q Plan) error {
	for _, x := range q.Exchanges {
		i := slices.IndexFunc(p.Exchanges, func(y Exchange) bool { return y.Name == x.Name })
		if i < 0 {
			p.Exchanges = append(p.Exchanges, x)
		} else if y := p.Exchanges[i]; x.Passive || y.Passive {
			if y.Passive {
				p.Exchanges[i] = x
			}
		} else if y.Type != x.Type || y.Internal != x.Internal || y.AutoDelete != x.AutoDelete || !y.Args.Equal(x.Args) {
			return fmt.Errorf("exchange %q is planned twice, differently: %s with %v and %s with %v", x.Name, y.Type, y.Args, x.Type, x.Args)
		}
	}
	for _, x := range q.Queues {
		i := slices.IndexFunc(p.Queues, func(y Queue) bool { return y.Name == x.Name })
		if i < 0 {
			p.Queues = append(p.Queues, x)
		} else if y := p.Queues[i]; x.Passive || y.Passive {
			if y.Passive {
				p.Queues[i] = x
			}
		} else if y.AutoDelete != x.AutoDelete || y.Exclusive != x.Exclusive || !y.Args.Equal(x.Args) {
			return fmt.Errorf("queue %q is planned twice, differently: with %v and with %v", x.Name, y.Args, x.Args)
		}
	}
	for _, x := range q.Bindings {
		if !slices.ContainsFunc(p.Bindings, x.Equal) {
			p.Bindings = append(p.Bindings, x)
		}
	}
	for _, x := range q.Policies {
		i := slices.IndexFunc(p.Policies, func(y Policy) bool { return y.Name == x.Name })
		if i < 0 {
			p.Policies = append(p.Policies, x)
		} else if !p.Policies[i].equal(x) {
			return fmt.Errorf("policy %q is planned twice, differently: %v and %v", x.Name, p.Policies[i], x)
		}
	}
	p.Alternatives = append(slices.Clip(p.Alternatives), q.Alternatives...)
	return nil
}

// WithoutTemporary returns the plan without temporary queues.
func (p Plan) WithoutTemporary() Plan {
	temporary := make(map[string]bool)
	for _, q := range p.Queues {
		temporary[q.Name] = q.Temporary()
	}
	p.Queues = slices.DeleteFunc(slices.Clone(p.Queues), Queue.Temporary)
	p.Bindings = slices.DeleteFunc(slices.Clone(p.Bindings), func(b Binding) bool { return !b.ToExchange && temporary[b.Destination] })
	return p
}

// Missing returns the part of the plan that is missing in a diff and can be declared.
func (p Plan) Missing(d Diff) Plan {
	missing := func(o Object) bool {
		return slices.ContainsFunc(d, func(x Difference) bool { return x.Kind == Missing && x.Do == Declare && x.Object.is(o) })
	}
	var part Plan
	part.Exchanges = chosen(p.Exchanges, missing)
	part.Queues = chosen(p.Queues, missing)
	part.Bindings = chosen(p.Bindings, missing)
	part.Policies = chosen(p.Policies, missing)
	return part
}

func chosen[T interface{ Object() Object }](all []T, choose func(Object) bool) (some []T) {
	for _, x := range all {
		if choose(x.Object()) {
			some = append(some, x)
		}
	}
	return some
}

// Equal reports whether two bindings are the same to the broker.
func (b Binding) Equal(c Binding) bool {
	return b.Source == c.Source && b.Destination == c.Destination && b.ToExchange == c.ToExchange &&
		b.Key == c.Key && b.Args.Equal(c.Args)
}

// Empty reports whether the plan declares nothing.
func (p Plan) Empty() bool {
	return len(p.Exchanges) == 0 && len(p.Queues) == 0 && len(p.Bindings) == 0 && len(p.Policies) == 0
}
