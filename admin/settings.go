package admin

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/rehop/rehop/layout"
	"github.com/rehop/rehop/topology"
)

// Types of queues.
const quorum, classic = string(layout.Quorum), string(layout.Classic)

// lengthLimits are the settings that limit how much a queue holds.
var lengthLimits = []string{"max-length", "max-length-bytes"}

// sets reports whether a queue has one of these settings, from its arguments or from policies.
func sets(q topology.LiveQueue, keys ...string) bool {
	return slices.ContainsFunc(keys, func(key string) bool {
		_, set := q.Effective(key)
		return set
	})
}

// setting is a setting that is text, "" if the queue does not have it.
func setting(q topology.LiveQueue, key string) string {
	v, _ := q.Effective(key)
	text, _ := v.(string)
	return text
}

// limitOf is a setting that is a number.
func limitOf(q topology.LiveQueue, key string) (int, bool) {
	v, _ := q.Effective(key)
	return number(v)
}

// drops reports whether a full queue drops its oldest messages to make room.
func drops(q topology.LiveQueue) bool {
	return !strings.HasPrefix(setting(q, "overflow"), "reject-publish")
}

// atLeastOnce reports whether a queue keeps dead-lettered messages until the next queue has confirmed them.
func atLeastOnce(q topology.LiveQueue) bool {
	return sets(q, "dead-letter-exchange") && q.Type == quorum && setting(q, "dead-letter-strategy") == "at-least-once" && setting(q, "overflow") == "reject-publish"
}

// foreseen is a queue with the settings that the policies give it, or would give it.
func foreseen(live topology.Live, q topology.LiveQueue) topology.LiveQueue {
	live.Exchanges, live.Queues = nil, []topology.LiveQueue{q}
	live.ApplyPolicies()
	return live.Queues[0]
}

// policyOf names the policy that gives a queue a setting.
func policyOf(live topology.Live, q topology.LiveQueue, key string) string {
	for _, p := range live.OperatorPolicies {
		if v, sets := p.Definition[key]; p.Name == q.OperatorPolicy && sets && plainValue(v) == plainValue(q.PolicyArgs[key]) {
			return fmt.Sprintf("operator policy %q", p.Name)
		}
	}
	return fmt.Sprintf("policy %q", q.Policy)
}

// number reads an argument that is a whole number.
func number(v any) (int, bool) {
	switch v := v.(type) {
	case int:
		return v, true
	case int32:
		return int(v), true
	case int64:
		return int(v), true
	case float64:
		return int(v), v == math.Trunc(v)
	case json.Number:
		n, err := v.Int64()
		return int(n), err == nil
	}
	return 0, false
}

// plainValue gives all whole numbers the same type.
func plainValue(v any) any {
	if n, ok := number(v); ok {
		return n
	}
	return v
}

// argument is a value in a message for users.
func argument(v any) string {
	switch v := v.(type) {
	case nil:
		return "none"
	case string:
		return fmt.Sprintf("%q", v)
	}
	return fmt.Sprint(v)
}

// arguments are a table in a message for users, as in: x-message-ttl 5000, x-queue-type "quorum".
func arguments(args topology.Args) string {
	if len(args) == 0 {
		return "no arguments"
	}
	var all []string
	for name, value := range args {
		all = append(all, name+" "+argument(value))
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}
