package topology

import (
	"slices"
	"strings"
)

// Compare returns how a broker differs from a plan. own reports whether a queue is one of rehop's own:
// such a queue is superfluous if it is empty and not in the plan. If own is nil, no queue is superfluous.
func Compare(plan Plan, live Live, own func(queue string) bool) Diff {
	c := &comparison{plan: plan, live: live, rules: rulesOf(plan.Policies)}
	c.policies()
	c.exchanges()
	c.queues()
	c.bindings()
	c.superfluous(own)
	order := []Kind{Unsupported, Missing, Differs, Overridden, Unexpected, Superfluous, Unchecked}
	slices.SortStableFunc(c.found, func(a, b Difference) int { return slices.Index(order, a.Kind) - slices.Index(order, b.Kind) })
	return c.found
}

type comparison struct {
	plan      Plan
	live      Live
	rules     rules // of the plan
	found     Diff
	unsettled []string // policies of the plan that are missing or differ
}

func (c *comparison) add(d Difference) { c.found = append(c.found, d) }

const (
	hintDeclare  = "declare it"
	hintAsk      = "another application declares it: have it created, or correct the name"
	hintMigrate  = "use it unchanged as an existing queue, or migrate it; until then, declaring it fails"
	hintRecreate = "use it unchanged as an existing exchange, or change the plan to what exists; until then, declaring it fails"
	hintPolicy   = "change the policy or its pattern: it applies at once, and the object itself stays unchanged"
	hintBoth     = "a policy sets it: remove the argument from the plan, or migrate the queue; until then, declaring it fails"
	hintUnbind   = "remove the binding unless it is needed: it brings messages that the plan does not have"
	hintDelete   = "it was empty when it was checked: delete it if no other service uses this delay"
	hintPartial  = "AMQP alone shows neither bindings nor policies: set the address of the management API"
)

func (c *comparison) policies() {
	if c.live.Partial {
		for _, p := range c.plan.Policies {
			c.unsettled = append(c.unsettled, p.Name)
			c.add(Difference{Kind: Unchecked, Object: p.Object(), Do: Check, Hint: hintPartial})
		}
		return
	}
	for _, p := range c.plan.Policies {
		before := len(c.found)
		i := slices.IndexFunc(c.live.Policies, func(q Policy) bool { return q.Name == p.Name })
		if i < 0 {
			c.add(Difference{Kind: Missing, Object: p.Object(), Do: Declare, Hint: "set it"})
		} else {
			have := c.live.Policies[i]
			differs := func(argument string, want, have any) {
				if !same(want, have) {
					c.add(Difference{Kind: Differs, Object: p.Object(), Argument: argument, Want: want, Have: have, Do: ChangePolicy,
						Hint: "change the policy, which takes effect at once, or the plan"})
				}
			}
			differs("pattern", p.Pattern, have.Pattern)
			differs("apply-to", p.ApplyTo, have.ApplyTo)
			differs("priority", p.Priority, have.Priority)
			for _, key := range names(p.Definition, have.Definition) {
				differs(key, p.Definition[key], have.Definition[key])
			}
		}
		if len(c.found) > before {
			c.unsettled = append(c.unsettled, p.Name)
		}
	}
}

// object compares one object; do is the remedy for what differs.
type object struct {
	*comparison
	name Object
	do   Remedy
	hint string
}

func (o object) differs(argument string, want, have any) {
	if !same(want, have) {
		o.add(Difference{Kind: Differs, Object: o.name, Argument: argument, Want: want, Have: have, Do: o.do, Hint: o.hint})
	}
}

func (c *comparison) missing(name Object, passive bool) {
	if passive {
		c.add(Difference{Kind: Missing, Object: name, Do: Ask, Hint: hintAsk})
		return
	}
	c.add(Difference{Kind: Missing, Object: name, Do: Declare, Hint: hintDeclare})
}

func (c *comparison) exchanges() {
	for _, x := range c.plan.Exchanges {
		have, ok := c.live.Exchange(x.Name)
		switch {
		case !ok:
			c.missing(x.Object(), x.Passive)
			continue
		case x.Passive:
			continue
		}
		o := object{c, x.Object(), Recreate, hintRecreate}
		o.differs("type", x.Type, have.Type)
		o.differs("durable", true, have.Durable)
		o.differs("auto_delete", x.AutoDelete, have.AutoDelete)
		o.differs("internal", x.Internal, have.Internal)
		for _, name := range names(x.Args, have.Args) {
			o.differs(name, x.Args[name], have.Args[name])
		}
		rule := c.rules.policyFor(x.Name, "", forExchange)
		if _, declared := x.Args[alternateExchange]; !declared && !slices.Contains(c.unsettled, rule.Name) {
			c.byPolicy(x.Object(), alternateExchange, rule.Definition[alternateExchange], have.PolicyArgs[alternateExchange], have.Policy)
		}
	}
}

// alternateExchange is the one argument of an exchange that can be a policy, by the same name.
const alternateExchange = "alternate-exchange"

func (c *comparison) byPolicy(name Object, key string, want, have any, policy string) {
	if !same(want, have) {
		c.add(Difference{Kind: Overridden, Object: name, Argument: key, Want: want, Have: have, Policy: policy, Do: ChangePolicy, Hint: hintPolicy})
	}
}

func (c *comparison) queues() {
	for _, q := range c.plan.Queues {
		have, ok := c.live.Queue(q.Name)
		if hint := c.live.unsupported(q); hint != "" {
			c.add(Difference{Kind: Unsupported, Object: q.Object(), Do: ChangePlan, Hint: hint})
			if !ok {
				continue
			}
		}
		switch {
		case !ok && q.Temporary():
			continue
		case !ok:
			c.missing(q.Object(), q.Passive)
			continue
		case q.Passive:
			continue
		}
		c.queue(q, have)
	}
}

func (c *comparison) queue(q Queue, have LiveQueue) {
	o := object{c, q.Object(), Migrate, hintMigrate}
	o.differs("durable", !q.Exclusive, have.Durable)
	o.differs("auto_delete", q.AutoDelete, have.AutoDelete)
	o.differs("exclusive", q.Exclusive, have.Exclusive)
	kind := typeOf(q.Args)
	if q.Args[typeArgument] == nil && c.live.DefaultType != "" && !q.Temporary() {
		kind = c.live.DefaultType
	}
	o.differs(typeArgument, kind, typeOf(have.Args))
	for _, name := range names(q.Args, have.Args) {
		if name == typeArgument || same(q.Args[name], have.Args[name]) {
			continue
		}
		d := Difference{Kind: Differs, Object: o.name, Argument: name, Want: q.Args[name], Have: have.Args[name], Do: Migrate, Hint: hintMigrate}
		if key, ok := policyKey(kind, name); ok && have.Args[name] == nil && have.PolicyArgs[key] != nil {
			d.Policy, d.Hint = have.policyOf(c.live, key), hintBoth
		}
		c.add(d)
	}
	rule := c.rules.policyFor(q.Name, "", forQueue(kind))
	if slices.Contains(c.unsettled, rule.Name) || c.live.Partial {
		return
	}
	for _, key := range names(rule.Definition, have.PolicyArgs) {
		if canBePolicy(kind, key) {
			c.byPolicy(o.name, key, effective(kind, q.Args, rule.Definition, key), effective(kind, q.Args, have.PolicyArgs, key), have.policyOf(c.live, key))
		}
	}
}

// policyOf is the policy that sets a key.
func (q LiveQueue) policyOf(l Live, key string) string {
	for _, p := range l.Policies {
		if p.Name == q.Policy && same(p.Definition[key], q.PolicyArgs[key]) {
			return p.Name
		}
	}
	if q.OperatorPolicy != "" {
		return q.OperatorPolicy
	}
	return q.Policy
}

const typeArgument = "x-queue-type"

// typeOf is the type of a queue with these arguments. For a broker, no type is the same as classic.
func typeOf(args Args) string {
	if kind, ok := args[typeArgument].(string); ok {
		return strings.ToLower(kind)
	}
	return "classic"
}

func (c *comparison) bindings() {
	if c.live.Partial {
		if len(c.plan.Bindings) > 0 {
			c.add(Difference{Kind: Unchecked, Object: Object{Kind: AllBindings}, Do: Check, Hint: hintPartial})
		}
		return
	}
	gone := make(map[string]bool) // temporary queues that are not there
	ours := make(map[string]bool)
	for _, q := range c.plan.Queues {
		_, there := c.live.Queue(q.Name)
		gone[q.Name] = !there && q.Temporary()
		ours[q.Name] = !q.Passive
	}
	for _, b := range c.plan.Bindings {
		if !slices.ContainsFunc(c.live.Bindings, b.Equal) && (b.ToExchange || !gone[b.Destination]) {
			c.missing(b.Object(), false)
		}
	}
	for _, b := range c.live.Bindings {
		if !b.ToExchange && ours[b.Destination] && !slices.ContainsFunc(c.plan.Bindings, b.Equal) {
			c.add(Difference{Kind: Unexpected, Object: b.Object(), Do: Unbind, Hint: hintUnbind})
		}
	}
}

func (c *comparison) superfluous(own func(queue string) bool) {
	for _, q := range c.live.Queues {
		planned := slices.ContainsFunc(c.plan.Queues, func(p Queue) bool { return p.Name == q.Name })
		if own != nil && own(q.Name) && !planned && q.Messages() == 0 && q.Consumers == 0 && !c.live.Partial {
			c.add(Difference{Kind: Superfluous, Object: q.Object(), Do: Delete, Hint: hintDelete})
		}
	}
}
