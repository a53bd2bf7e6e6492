package admin

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/internal/topologies"
	"github.com/rehop/rehop/topology"
)

func (c *checkup) policies() {
	overruled, idle := topologies.Matches(c.chart.live)
	type pair struct{ loser, winner string }
	found := make(map[pair][]topologies.Overruled)
	for _, o := range overruled {
		p := pair{o.Policy.Name, o.By.Name}
		found[p] = append(found[p], o)
	}
	for p, all := range found { // findings are sorted later
		first, tied, more := all[0], "", ""
		if first.Tied {
			tied = "; both have the same priority, so it is undefined which one applies"
		}
		if len(all) > 1 {
			more = fmt.Sprintf(" and %d more", len(all)-1)
		}
		c.find("policy.clash", first.Policy.Object(), "write the keys of both into one policy, or narrow the pattern of one: "+c.setPolicy(),
			"it matches %s%s, to which policy %q applies: %s has no effect%s", first.Object, more, p.winner, strings.Join(first.Keys, ", "), tied)
	}
	for _, p := range idle {
		if len(mirroring(p)) == 0 {
			c.find("policy.unused", p.Object(), "correct the pattern, or delete the policy", "its pattern %q matches nothing for %s", p.Pattern, p.ApplyTo)
		}
	}
}

// mirroring are the keys of a policy for mirrored classic queues.
func mirroring(p topology.Policy) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(p.Definition)), func(key string) bool { return !strings.HasPrefix(key, "ha-") })
}

// mirrors finds policies for mirrored classic queues.
func (c *checkup) mirrors() {
	if c.embedded() {
		return
	}
	for _, p := range slices.Concat(c.chart.live.Policies, c.chart.live.OperatorPolicies) {
		keys := mirroring(p)
		switch {
		case len(keys) == 0:
		case c.chart.version.atLeast(4, 0):
			c.find("policy.mirrors", p.Object(), "migrate its classic queues to quorum queues (rehop topology migrate), and remove these keys from the policy: RabbitMQ 4 does not accept a policy with them, not even in definitions",
				"it sets %s, which RabbitMQ %s ignores", strings.Join(keys, ", "), c.chart.live.Version)
		default:
			c.findAs(Info, "policy.mirrors", p.Object(), "before an upgrade to RabbitMQ 4, migrate its classic queues to quorum queues (rehop topology migrate), and delete the policy",
				"it sets %s, which RabbitMQ 4 ignores", strings.Join(keys, ", "))
		}
	}
}

// harmful are keys that change how long and how safely rehop's own queues keep messages.
var harmful = []string{"message-ttl", "max-length", "max-length-bytes", "expires", "overflow", "dead-letter-exchange", "dead-letter-routing-key",
	"dead-letter-strategy", "delivery-limit", "delayed-retry-type"}

// ours matches rehop's own queues, in all layouts, with their default names.
var ours = regexp.MustCompile(`^(rehop\.|.*(\.failed|\.landing|\.home|@failed|@retry|-error|-retry|\.dead\.q|\.retry\.q)$)`)

// sparing is a pattern for policies that matches none of rehop's own queues, and not this one.
func sparing(queue string) string {
	none := strings.Replace(ours.String(), "(", "(?!", 1)
	if ours.MatchString(queue) {
		return none
	}
	return strings.TrimSuffix(none, ")") + "|" + regexp.QuoteMeta(queue) + "$)"
}

// ownPolicies finds policies that change rehop's own queues.
func (c *checkup) ownPolicies() {
	for _, q := range c.chart.live.Queues {
		policies := strings.Join(slices.DeleteFunc([]string{q.Policy, q.OperatorPolicy}, func(s string) bool { return s == "" }), " and ")
		switch c.chart.roles[q.Name] {
		case roleDelay, roleFailed, roleMigrating:
			var keys []string
			for _, key := range harmful {
				if value, set := q.PolicyArgs[key]; set && value != "disabled" { // which only delayed-retry-type can be
					if effect, _ := q.Effective(key); fmt.Sprint(effect) == fmt.Sprint(value) && fmt.Sprint(q.Args["x-"+key]) != fmt.Sprint(value) {
						keys = append(keys, fmt.Sprintf("%s = %v", key, value))
					}
				}
			}
			if len(keys) > 0 {
				c.find("policy.own", q.Object(), "narrow the policy's pattern, so that it matches none of rehop's own queues, as in "+sparing(q.Name), "policy %s sets %s", policies, strings.Join(keys, ", "))
			}
		case roleConsumed:
			limited := q.PolicyArgs["max-length"] != nil || q.PolicyArgs["max-length-bytes"] != nil
			declared := q.Args["x-max-length"] != nil || q.Args["x-max-length-bytes"] != nil
			if limited && !declared && !drops(q) && c.chart.roles[layouts.LandingQueue(q.Name)] != roleDelay {
				c.find("policy.full", q.Object(), "set the maximum length in its subscription (max-length, overflow) instead of the policy: retries then return through a landing queue", "policy %s gives it a maximum length, and it rejects messages above that", policies)
			}
		}
	}
}
