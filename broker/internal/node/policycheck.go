package node

import (
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/rehop/rehop/broker/internal/erlang"
	"github.com/rehop/rehop/internal/wire"
)

// InvalidPolicy lists what is wrong with a policy, in RabbitMQ's words.
type InvalidPolicy []string

func (e InvalidPolicy) Error() string { return "Validation failed\n\n" + strings.Join(e, "\n") + "\n" }

// policyRule is which values a key may have, and RabbitMQ's text for others.
type policyRule struct {
	valid func(value any) bool
	fault string // %s is the value
}

var policyRules = map[string]policyRule{
	"alternate-exchange":            {isText, "%s is not a valid alternate exchange name"},
	"dead-letter-exchange":          {isText, "%s is not a valid dead letter exchange name"},
	"dead-letter-routing-key":       {isText, "%s is not a valid dead letter routing key"},
	"dead-letter-strategy":          {among("at-most-once", "at-least-once"), "%s is not a valid dead letter strategy"},
	"message-ttl":                   {atLeast(0), "%s is not a valid message TTL"},
	"expires":                       {atLeast(1), "%s is not a valid queue expiry"},
	"max-length":                    {atLeast(0), "%s is not a valid maximum length"},
	"max-length-bytes":              {atLeast(0), "%s is not a valid maximum length in bytes"},
	"max-in-memory-length":          {atLeast(0), "%s is not a valid maximum memory in bytes"},
	"max-in-memory-bytes":           {atLeast(0), "%s is not a valid maximum memory in bytes"},
	"queue-mode":                    {among("default", "lazy"), "%s is not a valid queue-mode value"},
	"queue-version":                 {between(1, 2), "%s is not a valid queue-version value"},
	"overflow":                      {among("drop-head", "reject-publish", "reject-publish-dlx"), "%s is not a valid overflow value"},
	"delivery-limit":                {atLeast(0), "%s is not a valid delivery limit"},
	"consumer-timeout":              {atLeast(0), "%s is not a valid consumer timeout"},
	"delayed-retry-type":            {among("all", "failed", "returned", "disabled"), "%s is not a valid delayed retry type. Must be one of: all, failed, returned, disabled"},
	"delayed-retry-min":             {atLeast(1), "%s is not a valid delayed retry minimum delay. Must be a positive integer"},
	"delayed-retry-max":             {atLeast(1), "%s is not a valid delayed retry maximum delay. Must be a positive integer"},
	"max-age":                       {anAge, "%s is not a valid max age"},
	"queue-leader-locator":          {among("client-local", "balanced", "random", "least-leaders"), "%s is not a valid queue leader locator value"},
	"initial-cluster-size":          {atLeast(0), "%s is not a valid cluster size"},
	"stream-max-segment-size-bytes": {between(0, 3_000_000_000), "%s is not a valid segment size"},
	"queue-master-locator":          {among("min-masters", "client-local", "random"), "%s invalid queue-master-locator value"},
}

// policyKeysSince are the releases that added a key. The other keys are older.
var policyKeysSince = map[string]Compat{
	"consumer-timeout": RabbitMQ313, "delayed-retry-type": RabbitMQ43, "delayed-retry-min": RabbitMQ43, "delayed-retry-max": RabbitMQ43,
}

// mirrorRules are for mirrored classic queues, which a broker without a cluster cannot have: such policies are accepted
// and have no effect.
var mirrorRules = map[string]policyRule{
	"ha-params":              {func(any) bool { return true }, ""}, // see checkMirrors
	"ha-mode":                {among("all", "exactly", "nodes"), "%s is not a valid ha-mode value"},
	"ha-sync-mode":           {among("automatic", "manual"), `ha-sync-mode must be "manual" or "automatic", got %s`},
	"ha-sync-batch-size":     {atLeast(1), "ha-sync-batch-size takes an integer greater than 0, %s given"},
	"ha-promote-on-shutdown": {among("always", "when-synced"), `ha-promote-on-shutdown must be "always" or "when-synced", got %s`},
	"ha-promote-on-failure":  {among("always", "when-synced"), `ha-promote-on-failure must be "always" or "when-synced", got %s`},
}

// check compiles the pattern and finds all faults.
func (p *Policy) check(c Compat) error {
	var faults InvalidPolicy
	for _, fault := range []string{checkDefinition(c, p.Definition, p.Operator), checkApplyTo(c, p.ApplyTo), p.compile()} {
		if fault != "" {
			faults = append(faults, fault)
		}
	}
	if faults != nil {
		return faults
	}
	return nil
}

func checkApplyTo(c Compat, to string) string {
	switch {
	case slices.Contains([]string{"all", "exchanges", "queues"}, to):
		return ""
	case !c.policiesByQueueType():
		return fmt.Sprintf("apply-to '%s' unrecognised; should be 'queues', 'exchanges' or 'all'", to)
	case slices.Contains([]string{"classic_queues", "quorum_queues", "streams"}, to):
		return ""
	}
	return fmt.Sprintf("apply-to '%s' unrecognised; should be one of: 'queues', 'classic_queues',  'quorum_queues', 'streams', 'exchanges', or 'all'", to)
}

// operatorKeys are the keys that policies of operators can have.
var operatorKeys = []string{"expires", "message-ttl", "max-length", "max-length-bytes", "max-in-memory-length", "max-in-memory-bytes", "delivery-limit",
	"delayed-retry-type", "delayed-retry-min", "delayed-retry-max"}

// checkDefinition returns the first fault by key. If there is none, it returns the unknown keys.
func checkDefinition(c Compat, definition map[string]any, operator bool) string {
	if len(definition) == 0 {
		return "no policy provided"
	}
	var unknown []string
	for _, key := range slices.Sorted(maps.Keys(definition)) {
		value := definition[key]
		rule, ok := policyRules[key]
		ok = ok && c >= policyKeysSince[key]
		if !ok && c.hasMirrors() && strings.HasPrefix(key, "ha-") {
			if fault := checkMirrors(definition); fault != "" {
				return fault
			}
			rule, ok = mirrorRules[key]
		}
		ok = ok && (!operator || slices.Contains(operatorKeys, key))
		switch {
		case !ok:
			unknown = append(unknown, key)
		case key == "delivery-limit" && c.negativeIsUnlimited() && erlang.Type(value) == "long":
		case !rule.valid(value):
			return fmt.Sprintf(rule.fault, policyTerm(value))
		}
	}
	if fault := checkRetry(definition); fault != "" && c.delaysRetries() {
		return fault
	}
	if unknown != nil {
		return erlang.List(unknown, func(key string) string {
			return "{" + erlang.Binary(key) + "," + policyTerm(definition[key]) + "}"
		}) + " are not recognised policy settings"
	}
	return ""
}

// checkRetry returns a conflict between the keys of delayed retries. Each is valid alone.
func checkRetry(definition map[string]any) string {
	least, hasMin := wire.Integer(definition["delayed-retry-min"])
	most, hasMax := wire.Integer(definition["delayed-retry-max"])
	switch typ := definition["delayed-retry-type"]; {
	case typ != nil && typ != "disabled" && !hasMin:
		return fmt.Sprintf("delayed-retry-min is required when delayed-retry-type is %s", typ)
	case hasMin && hasMax && most < least:
		return fmt.Sprintf("delayed-retry-max (%d) must not be smaller than delayed-retry-min (%d)", most, least)
	}
	return ""
}

// checkMirrors returns a conflict between the keys of mirrors.
func checkMirrors(definition map[string]any) string {
	params, given := definition["ha-params"]
	shown := "none"
	if given {
		shown = policyTerm(params)
	}
	switch definition["ha-mode"] {
	case nil:
		return "ha-mode must be specified to specify ha-params, ha-sync-mode or ha-promote-on-shutdown"
	case "all":
		if given {
			return `ha-mode="all" does not take parameters`
		}
	case "exactly":
		if !atLeast(1)(params) {
			return `ha-mode="exactly" takes an integer, ` + shown + " given"
		}
	case "nodes":
		if _, ok := params.([]any); !ok {
			return `ha-mode="nodes" takes a list, ` + shown + " given"
		}
	}
	return ""
}

func policyTerm(value any) string {
	if value == nil {
		return "null"
	}
	return erlang.Term(value)
}

func isText(value any) bool {
	_, ok := value.(string)
	return ok
}

func among(choice ...string) func(any) bool {
	return func(value any) bool {
		s, ok := value.(string)
		return ok && slices.Contains(choice, s)
	}
}

func atLeast(low int64) func(any) bool { return between(low, math.MaxInt64) }

func between(low, high int64) func(any) bool {
	return func(value any) bool {
		n, ok := wire.Integer(value)
		return ok && n >= low && n <= high
	}
}

var ages = regexp.MustCompile(`^0*[1-9][0-9]*[YMDhms]$`)

// anAge is how long a stream keeps messages, such as 7D.
func anAge(value any) bool {
	s, ok := value.(string)
	return ok && ages.MatchString(s)
}
