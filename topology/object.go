package topology

import (
	"fmt"
	"strings"
)

// Object names something on a broker.
type Object struct {
	Kind string `json:"kind"` // one of those below
	Name string `json:"name"` // of a binding: its destination

	// Only of bindings:

	ToExchange bool   `json:"to_exchange,omitempty"`
	Source     string `json:"source,omitempty"`
	Key        string `json:"key,omitempty"`
	Args       Args   `json:"args,omitempty"`
}

// The kinds of objects.
const (
	ExchangeObject = "exchange"
	QueueObject    = "queue"
	BindingObject  = "binding"
	AllBindings    = "bindings"
	PolicyObject   = "policy"
)

// Object is the exchange's name.
func (x Exchange) Object() Object { return Object{Kind: ExchangeObject, Name: x.Name} }

// Object is the queue's name.
func (q Queue) Object() Object { return Object{Kind: QueueObject, Name: q.Name} }

// Object is the policy's name.
func (p Policy) Object() Object { return Object{Kind: PolicyObject, Name: p.Name} }

// Object is what identifies the binding.
func (b Binding) Object() Object {
	return Object{Kind: BindingObject, Name: b.Destination, ToExchange: b.ToExchange, Source: b.Source, Key: b.Key, Args: b.Args}
}

// is reports whether two names are of the same object.
func (o Object) is(p Object) bool {
	return o.Kind == p.Kind && o.Name == p.Name && o.ToExchange == p.ToExchange && o.Source == p.Source && o.Key == p.Key && o.Args.Equal(p.Args)
}

// String is as in: queue "orders".
func (o Object) String() string {
	switch o.Kind {
	case AllBindings:
		return "all bindings"
	case BindingObject:
	default:
		return fmt.Sprintf("%s %q", o.Kind, o.Name)
	}
	to := QueueObject
	if o.ToExchange {
		to = ExchangeObject
	}
	s := fmt.Sprintf("binding of exchange %q to %s %q with key %q", o.Source, to, o.Name, o.Key)
	var args []string
	for _, name := range names(o.Args) {
		args = append(args, name+" = "+shown(o.Args[name]))
	}
	if args != nil {
		s += " and " + strings.Join(args, ", ")
	}
	return s
}
