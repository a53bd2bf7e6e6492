package topology

import "fmt"

// Live is what a broker has in one virtual host.
type Live struct {
	Version   string // of the broker, as in 3.10.8; "" if not known
	Product   string // as in RabbitMQ; "" if not known
	Exchanges []LiveExchange
	Queues    []LiveQueue
	Bindings  []Binding // without those of the default exchange
	Policies  []Policy
	// OperatorPolicies is also empty if the user may not read them.
	OperatorPolicies []Policy
	// DefaultType is the type of queues that are declared without one. "": classic.
	DefaultType string
	// Partial: it was read through AMQP alone, without bindings, policies, contents and objects that were not
	// asked for.
	Partial bool
}

// LiveExchange is an exchange that exists.
type LiveExchange struct {
	Exchange
	Durable bool
	Policy  string // that applies to it, if any
	// PolicyArgs is what its policy sets, by the names of policies, as in alternate-exchange.
	PolicyArgs Args
}

// LiveQueue is a queue that exists.
type LiveQueue struct {
	Queue
	Type           string // classic, quorum, stream; "" if not known
	Durable        bool
	Policy         string // that applies to it, if any
	OperatorPolicy string // that applies to it, if any
	// PolicyArgs is what its policies set, by the names of policies, as in message-ttl.
	PolicyArgs Args
	Ready      int
	Unacked    int
	Delayed    int // came back, and RabbitMQ 4.3 holds them back for a while (x-delayed-retry-type)
	Consumers  int
}

// Messages is how many messages it holds.
func (q LiveQueue) Messages() int { return q.Ready + q.Unacked + q.Delayed }

// Effective returns the value that an argument and the policies give, and whether there is one. The name is
// that of a policy, as in message-ttl.
func (q LiveQueue) Effective(name string) (any, bool) {
	v := effective(q.Type, q.Args, q.PolicyArgs, name)
	return v, v != nil
}

// Effective returns the value that an argument and the policy give, and whether there is one. The name is
// that of a policy, as in alternate-exchange.
func (x LiveExchange) Effective(name string) (any, bool) {
	if v, ok := x.Args[name]; ok {
		return v, true
	}
	v, ok := x.PolicyArgs[name]
	return v, ok
}

// Exchange finds an exchange by name.
func (l Live) Exchange(name string) (LiveExchange, bool) {
	for _, x := range l.Exchanges {
		if x.Name == name {
			return x, true
		}
	}
	return LiveExchange{}, false
}

// Queue finds a queue by name.
func (l Live) Queue(name string) (LiveQueue, bool) {
	for _, q := range l.Queues {
		if q.Name == name {
			return q, true
		}
	}
	return LiveQueue{}, false
}

// unsupported is why this release of the broker does not support a planned queue, and what to do. "": it
// does, as far as is known.
func (l Live) unsupported(q Queue) string {
	var major, minor int
	if _, err := fmt.Sscanf(l.Version, "%d.%d", &major, &minor); err != nil || major >= 4 || !q.Priorities {
		return ""
	}
	return fmt.Sprintf("quorum queues of RabbitMQ %s have no priorities, and a subscription that asks for them is refused: use a classic queue, leave out max-priority, or use RabbitMQ 4.0 or later",
		l.Version)
}

// ApplyPolicies computes which policies apply to each queue and exchange, and what they set. The broker
// reports that, too, but seconds late; its report is used where two policies have the same priority or a
// pattern is not valid in Go.
func (l *Live) ApplyPolicies() {
	policies, operators := rulesOf(l.Policies), rulesOf(l.OperatorPolicies)
	for i := range l.Exchanges {
		x := &l.Exchanges[i]
		p := policies.policyFor(x.Name, x.Policy, forExchange)
		x.Policy, x.PolicyArgs = p.Name, p.Definition
	}
	for i := range l.Queues {
		q := &l.Queues[i]
		fits := forQueue(q.Type)
		p, o := policies.policyFor(q.Name, q.Policy, fits), operators.policyFor(q.Name, q.OperatorPolicy, fits)
		q.Policy, q.OperatorPolicy, q.PolicyArgs = p.Name, o.Name, underOperator(p.Definition, o.Definition)
	}
}
