package node

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"regexp"

	"github.com/rehop/rehop/broker/internal/queue"
	"github.com/rehop/rehop/internal/wire"
)

// Policy has settings for all queues and exchanges with matching names. At most one policy of users and one of operators
// apply to each.
type Policy struct {
	Name string `json:"Name"`
	// Pattern is a regular expression that can match anywhere in a name.
	Pattern string `json:"Pattern"`
	// ApplyTo is all, queues, exchanges, classic_queues or quorum_queues; empty: all.
	ApplyTo string `json:"ApplyTo"`
	// Priority decides between policies: the highest, then the first by name.
	Priority int `json:"Priority"`
	// Definition has RabbitMQ's keys and JSON values.
	Definition map[string]any `json:"Definition"`
	// Operator: it is a policy of operators, which limits arguments and policies of users. Both kinds have their own names.
	Operator bool `json:"-"`

	re *regexp.Regexp
}

// key is the key of the definition in the log.
func (p *Policy) key(vhost string) string {
	if p.Operator {
		return definitionKey(operatorKind, vhost, p.Name)
	}
	return definitionKey(policyKind, vhost, p.Name)
}

// target is what a policy applies to, in the words of ApplyTo.
type target string

const exchangeTarget target = "exchanges"

func queueTarget(t queue.Type) target { return target(t) + "_queues" }

// uselessPolicyKeys are keys with which a policy does not apply to a queue type at all.
var uselessPolicyKeys = map[target][]string{
	queueTarget(queue.Classic): {"max-age", "stream-max-segment-size-bytes", "queue-leader-locator", "initial-cluster-size",
		"delivery-limit", "dead-letter-strategy"},
	queueTarget(queue.Quorum): {"max-priority", "queue-mode", "single-active-consumer", "ha-mode", "ha-params", "ha-sync-mode",
		"ha-promote-on-shutdown", "ha-promote-on-failure", "queue-master-locator", "max-age", "stream-max-segment-size-bytes",
		"initial-cluster-size"},
}

// PutPolicy creates or replaces a policy, and applies it.
func (v *Vhost) PutPolicy(p Policy) error {
	p = p.normal()
	if err := checkUTF8("policy", p.Name); err != nil {
		return err
	}
	if err := p.check(v.node.Config.Compat); err != nil {
		return err
	}
	v.mu.Lock()
	if v.deleted {
		v.mu.Unlock()
		return fmt.Errorf("put policy %q: no virtual host %q", p.Name, v.Name)
	}
	v.policiesOf(p.Operator)[p.Name] = p
	reactions := v.applyPolicies()
	mark := v.node.define(put(p.key(v.Name), p))
	v.mu.Unlock()
	v.handle(reactions)
	return v.node.kept(mark)
}

// policiesOf returns the policies of operators, or those of users. The virtual host is locked.
func (v *Vhost) policiesOf(operator bool) map[string]Policy {
	if operator {
		return v.operators
	}
	return v.policies
}

// DeletePolicy removes a policy of users or of operators, and all settings that came from it.
func (v *Vhost) DeletePolicy(name string, operator bool) error {
	v.mu.Lock()
	p, ok := v.policiesOf(operator)[name]
	if !ok {
		v.mu.Unlock()
		return fmt.Errorf("no policy %q in virtual host %q", name, v.Name)
	}
	delete(v.policiesOf(operator), name)
	reactions := v.applyPolicies()
	mark := v.node.define(change{removed: []string{p.key(v.Name)}})
	v.mu.Unlock()
	v.handle(reactions)
	return v.node.kept(mark)
}

// Policies returns those of users, by name.
func (v *Vhost) Policies() []Policy { return v.listPolicies(false) }

// OperatorPolicies returns those of operators, by name.
func (v *Vhost) OperatorPolicies() []Policy { return v.listPolicies(true) }

func (v *Vhost) listPolicies(operator bool) []Policy {
	v.mu.RLock()
	defer v.mu.RUnlock()
	all := byName(v.policiesOf(operator))
	for i := range all {
		all[i].Definition = maps.Clone(all[i].Definition)
	}
	return all
}

// restorePolicy adds a policy that was checked before. Queues have no messages yet, so that nothing follows from it.
func (v *Vhost) restorePolicy(p Policy) error {
	p = p.normal()
	if fault := p.compile(); fault != "" {
		return InvalidPolicy{fault}
	}
	v.policiesOf(p.Operator)[p.Name] = p
	v.applyPolicies()
	return nil
}

// reaction is what follows from a change of a queue's settings.
type reaction struct {
	queue   *Queue
	effects queue.Effects
}

// applyPolicies applies the policies to all queues and exchanges. The virtual host is locked.
func (v *Vhost) applyPolicies() (reactions []reaction) {
	for _, x := range v.exchanges {
		x.applyPolicy(v.policies)
	}
	for _, q := range v.queues {
		// A queue with the same settings is not touched, because its expiry would start again.
		if s := v.settingsFor(q); s != q.Core.Settings() {
			reactions = append(reactions, reaction{q, q.Core.Configure(s)})
		}
	}
	v.changed()
	return reactions
}

func (v *Vhost) handle(reactions []reaction) {
	for _, r := range reactions {
		v.node.Apply(r.queue, r.effects)
	}
}

// settingsFor returns a queue's settings from its arguments and its policies, whose names it keeps. The virtual host is locked.
func (v *Vhost) settingsFor(q *Queue) queue.Settings {
	typ := queueType(q.Arguments)
	p := policyFor(v.policies, q.Name, queueTarget(typ))
	operator := policyFor(v.operators, q.Name, queueTarget(typ))
	q.policy, q.operatorPolicy = p.Name, operator.Name
	return queueSettings(v.node.Config.Compat, typ, q.Arguments, merged(p.Definition, operator.Definition))
}

// merged returns the settings of a policy of users and one of operators together: of two numbers the lower, except for
// the minimum delay, and otherwise the operator's value.
func merged(user, operator map[string]any) map[string]any {
	if len(operator) == 0 {
		return user
	}
	all := maps.Clone(user)
	if all == nil {
		all = make(map[string]any)
	}
	for key, value := range operator {
		bound, _ := wire.Integer(value)
		n, there := wire.Integer(all[key])
		stricter := bound < n
		if bound < 0 || n < 0 || key == "delayed-retry-min" { // negative is no limit
			stricter = bound > n
		}
		if !there || stricter {
			all[key] = value
		}
	}
	return all
}

// applyPolicy sets the exchange's policy and its alternate exchange. The virtual host is locked.
func (x *Exchange) applyPolicy(policies map[string]Policy) {
	p := policyFor(policies, x.Name, exchangeTarget)
	x.policy = p.Name
	argument, _ := x.Arguments.Get("alternate-exchange")
	if name, ok := argument.(string); ok {
		x.alternate = name
		return
	}
	x.alternate, _ = p.Definition["alternate-exchange"].(string)
}

// policyFor returns the policy that applies, or an empty one.
func policyFor(policies map[string]Policy, name string, t target) (best Policy) {
	for _, p := range policies {
		if !p.appliesTo(name, t) {
			continue
		}
		if best.re == nil || p.Priority > best.Priority || p.Priority == best.Priority && p.Name < best.Name {
			best = p
		}
	}
	return best
}

func (p *Policy) appliesTo(name string, t target) bool {
	switch {
	case p.ApplyTo == "all", p.ApplyTo == string(t), p.ApplyTo == "queues" && t != exchangeTarget:
	default:
		return false
	}
	for _, key := range uselessPolicyKeys[t] {
		if _, ok := p.Definition[key]; ok {
			return false
		}
	}
	return p.re.MatchString(name)
}

// normal returns the policy with its defaults, and with whole numbers as int64. Only a json.Number distinguishes 1 from 1.0.
func (p Policy) normal() Policy {
	if p.ApplyTo == "" {
		p.ApplyTo = "all"
	}
	p.Definition = maps.Clone(p.Definition)
	for key, value := range p.Definition {
		switch n := value.(type) {
		case json.Number:
			if i, err := n.Int64(); err == nil {
				p.Definition[key] = i
			} else if f, err := n.Float64(); err == nil {
				p.Definition[key] = f
			}
		case float64:
			if n == math.Trunc(n) && math.Abs(n) < 1<<53 {
				p.Definition[key] = int64(n)
			}
		case int:
			p.Definition[key] = int64(n)
		}
	}
	return p
}

func (p *Policy) compile() (fault string) {
	if len(p.Pattern) > maxPattern {
		return fmt.Sprintf("pattern should have at most %d bytes, actually has %d", maxPattern, len(p.Pattern))
	}
	re, err := regexp.Compile(p.Pattern)
	if err != nil {
		return fmt.Sprintf("pattern should be regular expression but is invalid: %s", err)
	}
	p.re = re
	return ""
}
