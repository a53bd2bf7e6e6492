package admin

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/internal/topologies"
	"github.com/rehop/rehop/topology"
)

func policyObject(p topology.Policy) topology.Object {
	return topology.Object{Kind: "policy", Name: p.Name}
}

func (c *checkup) policies() {
	overruled, idle := topologies.Matches(c.chart.live)
	type pair struct{ loser, winner string }
	found := make(map[pair][]topologies.Overruled)
	var order []pair
	for _, o := range overruled {
		p := pair{o.Policy.Name, o.By.Name}
		if found[p] == nil {
			order = append(order, p)
		}
		found[p] = append(found[p], o)
	}
	for _, p := range order {
		all := found[p]
		first, tied := all[0], ""
		if first.Tied {
			tied = "; both have the same priority, and which one applies is chance"
		}
		more := ""
		if len(all) > 1 {
			more = fmt.Sprintf(" and %d more", len(all)-1)
		}
		c.find("policy.clash", policyObject(first.Policy), "write the keys of both into one policy, or narrow the pattern of one: "+c.ctl("rabbitmqctl set_policy -p %q …", "PUT /api/policies/%s/…"),
			"it matches %s%s, to which policy %q applies: %s has no effect%s", first.Object, more, p.winner, strings.Join(first.Keys, ", "), tied)
	}
	for _, p := range idle {
		if len(mirroring(p)) == 0 {
			c.find("policy.unused", policyObject(p), "correct the pattern, or delete the policy", "its pattern %q matches nothing for %s", p.Pattern, p.ApplyTo)
		}
	}
}

// mirroring are the keys of a policy that are about mirrored classic queues.
func mirroring(p topology.Policy) (keys []string) {
	for key := range p.Definition {
		if strings.HasPrefix(key, "ha-") {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
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
			c.find("policy.mirrors", policyObject(p), "migrate its classic queues to quorum queues (rehop topology migrate), and take these keys out of the policy: RabbitMQ 4 does not take it again with them, also not in definitions",
				"it sets %s, which RabbitMQ %s ignores", strings.Join(keys, ", "), c.chart.live.Version)
		default:
			c.findAs(Info, "policy.mirrors", policyObject(p), "before an upgrade to RabbitMQ 4, migrate its classic queues to quorum queues (rehop topology migrate), and delete the policy",
				"it sets %s, which RabbitMQ 4 ignores", strings.Join(keys, ", "))
		}
	}
}

// harmful are keys that change how long and how safely a queue of rehop's keeps messages.
var harmful = []string{"message-ttl", "max-length", "max-length-bytes", "expires", "overflow", "dead-letter-exchange", "dead-letter-routing-key",
	"dead-letter-strategy", "delivery-limit", "delayed-retry-type"}

// ours matches the queues that rehop has for itself, in all layouts, by the names that they have unless set otherwise.
var ours = regexp.MustCompile(`^(rehop\.|.*(\.failed|\.landing|\.home|@failed|@retry|-error|-retry|\.dead\.q|\.retry\.q)$)`)

// sparing is a pattern for policies that matches none of rehop's queues, and not this one.
func sparing(queue string) string {
	none := strings.Replace(ours.String(), "(", "(?!", 1)
	if ours.MatchString(queue) {
		return none
	}
	return strings.TrimSuffix(none, ")") + "|" + regexp.QuoteMeta(queue) + "$)"
}

// ownPolicies finds policies that change rehop's own queues.
func (c *checkup) ownPolicies() {
	roles := c.roles()
	landings := make(map[string]bool)
	for name, r := range roles {
		if r == waiting {
			landings[name] = true
		}
	}
	for _, q := range c.chart.live.Queues {
		rulers := strings.Join(slices.DeleteFunc([]string{q.Policy, q.OperatorPolicy}, func(s string) bool { return s == "" }), " and ")
		switch roles[q.Name] {
		case waiting, resting, moving:
			var keys []string
			for _, key := range harmful {
				if value, set := q.PolicyArgs[key]; set && value != "disabled" { // only a delayed retry can be
					if effect, _ := q.Effective(key); fmt.Sprint(effect) == fmt.Sprint(value) && fmt.Sprint(q.Args["x-"+key]) != fmt.Sprint(value) {
						keys = append(keys, fmt.Sprintf("%s = %v", key, value))
					}
				}
			}
			if len(keys) > 0 {
				c.find("policy.own", q.Object(), "narrow the policy's pattern, so that it matches none of rehop's queues, as in "+sparing(q.Name), "policy %s sets %s", rulers, strings.Join(keys, ", "))
			}
		case consumed:
			_, length := q.PolicyArgs["max-length"]
			_, bytes := q.PolicyArgs["max-length-bytes"]
			_, declared := q.Args["x-max-length"]
			_, declaredBytes := q.Args["x-max-length-bytes"]
			if (length || bytes) && !declared && !declaredBytes && strings.HasPrefix(setting(q, "overflow"), "reject-publish") && !landings[layouts.LandingQueue(q.Name)] {
				c.find("policy.full", q.Object(), "set Subscriber.MaxLength and Overflow instead of the policy: messages then return by a queue of their own", "policy %s gives it a maximum length, and it refuses what exceeds it", rulers)
			}
		}
	}
}
