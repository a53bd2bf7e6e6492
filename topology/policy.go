package topology

import (
	"maps"
	"regexp"
	"slices"
)

// Policy sets arguments of all queues and exchanges whose names match, and can be changed at any time. At
// most one policy and one operator policy apply to each.
type Policy struct {
	Name       string `json:"name"`
	Pattern    string `json:"pattern"`
	ApplyTo    string `json:"apply-to"` // queues, exchanges or all; from RabbitMQ 3.12 on also classic_queues, quorum_queues, streams
	Priority   int    `json:"priority"`
	Definition Args   `json:"definition"` // by the names of policies, as in message-ttl
}

// equal reports whether two policies of the same name have the same settings.
func (p Policy) equal(q Policy) bool {
	return p.Pattern == q.Pattern && p.ApplyTo == q.ApplyTo && p.Priority == q.Priority && p.Definition.Equal(q.Definition)
}

// exactly is a pattern that matches one name alone. The dollar would let pass a line break after it.
func exactly(name string) string { return "^" + regexp.QuoteMeta(name) + `\z` }

func forExchange(p Policy) bool { return p.ApplyTo == "exchanges" || p.ApplyTo == "all" }

// excludingKeys are keys that prevent a whole policy from applying to queues of a type, in all versions of
// RabbitMQ.
var excludingKeys = map[string][]string{
	"classic": {"dead-letter-strategy", "delivery-limit", "initial-cluster-size", "max-age", "stream-max-segment-size-bytes"},
	"quorum": {"ha-mode", "ha-params", "ha-promote-on-failure", "ha-promote-on-shutdown", "ha-sync-mode", "initial-cluster-size", "max-age",
		"max-priority", "queue-master-locator", "queue-mode", "stream-max-segment-size-bytes"},
	"stream": {"dead-letter-exchange", "dead-letter-routing-key", "dead-letter-strategy", "delivery-limit", "expires", "ha-mode", "ha-params",
		"max-in-memory-bytes", "max-in-memory-length", "max-length", "max-priority", "message-ttl", "overflow", "queue-mode"},
}

// targets are what a policy for queues of one type applies to.
var targets = map[string]string{"classic": "classic_queues", "quorum": "quorum_queues", "stream": "streams"}

func forQueue(kind string) func(Policy) bool {
	return func(p Policy) bool {
		if !slices.Contains([]string{"all", "queues", targets[kind]}, p.ApplyTo) {
			return false
		}
		return !slices.ContainsFunc(excludingKeys[kind], func(key string) bool {
			_, has := p.Definition[key]
			return has
		})
	}
}

// rules are policies, ready to be matched.
type rules []rule

type rule struct {
	Policy
	matcher *regexp.Regexp // nil: the pattern is not valid in Go, and may match or not
}

func rulesOf(policies []Policy) rules {
	all := make(rules, len(policies))
	for i, p := range policies {
		matcher, _ := regexp.Compile(p.Pattern) // nil if it fails
		all[i] = rule{p, matcher}
	}
	return all
}

// policyFor finds the one policy that applies to a name. reported is the one that the broker has named, if
// any: it applies unless another is known to have a higher priority.
func (r rules) policyFor(name, reported string, fits func(Policy) bool) Policy {
	var best, named Policy
	for _, p := range r {
		if p.matcher != nil && !p.matcher.MatchString(name) || !fits(p.Policy) {
			continue
		}
		if p.Name == reported {
			named = p.Policy
		}
		if p.matcher != nil && (best.Name == "" || p.Priority > best.Priority || p.Priority == best.Priority && p.Name < best.Name) {
			best = p.Policy
		}
	}
	if named.Name != "" && (best.Name == "" || named.Priority >= best.Priority) {
		return named
	}
	return best
}

// underOperator is a policy combined with an operator policy: the lower of two numbers, otherwise the
// operator's value.
func underOperator(policy, operator Args) Args {
	if len(operator) == 0 {
		return policy
	}
	merged := maps.Clone(operator)
	for key, value := range policy {
		if theirs, both := operator[key]; both {
			value = lower(theirs, value)
		}
		merged[key] = value
	}
	return merged
}
