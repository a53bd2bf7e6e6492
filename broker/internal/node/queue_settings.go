package node

import (
	"slices"
	"time"

	"github.com/rehop/rehop/broker/internal/queue"
	"github.com/rehop/rehop/internal/wire"
)

// queueSettings returns the settings of a queue with these arguments and this policy.
func queueSettings(c Compat, typ queue.Type, args wire.Table, policy map[string]any) queue.Settings {
	rules := ruleSources{args, policy}
	s := queue.Unlimited()
	s.TTL = milliseconds(rules.lower("message-ttl"))
	s.Expires = milliseconds(rules.lower("expires"))
	if c.queuesHaveConsumerTimeout() {
		s.ConsumerTimeout = milliseconds(rules.lower("consumer-timeout"))
	}
	s.MaxLength = rules.lower("max-length")
	s.MaxBytes = rules.lower("max-length-bytes")
	s.DeadLetter, s.HasDeadLetter = rules.argumentFirst("dead-letter-exchange")
	s.DeadLetterKey, s.HasDeadLetterKey = rules.argumentFirst("dead-letter-routing-key")
	if typ == queue.Classic {
		if overflow, ok := rules.argumentFirst("overflow"); ok {
			s.Overflow = queue.Overflow(overflow)
		}
		return s
	}
	if expires, ok := rules.byPolicy("expires"); ok && c.quorumExpiresByPolicy() {
		s.Expires = milliseconds(expires)
	}
	// Unlike in classic queues, the policy has priority over the argument, and there is only one way to refuse messages.
	if overflow, _ := rules.policyFirst("overflow"); overflow == string(queue.RejectPublish) {
		s.Overflow = queue.RejectPublish
		// Only with this: a queue that drops messages when it is full could not keep its dead letters either.
		strategy, _ := rules.argumentFirst("dead-letter-strategy")
		s.AtLeastOnce = strategy == "at-least-once"
	}
	s.DeliveryLimit = rules.deliveryLimit(c)
	if c.delaysRetries() {
		s.Retry = rules.retry()
	}
	return s
}

// ruleSources is where a queue's settings come from. The name of an argument is "x-" and the policy's key.
type ruleSources struct {
	args   wire.Table
	policy map[string]any
}

func (r ruleSources) byArgument(name string) (int64, bool) { return integerArgument(r.args, "x-"+name) }

func (r ruleSources) byPolicy(name string) (int64, bool) { return wire.Integer(r.policy[name]) }

// lower returns the lower of argument and policy, or -1 if there is none.
func (r ruleSources) lower(name string) int64 {
	a, hasArgument := r.byArgument(name)
	p, hasPolicy := r.byPolicy(name)
	switch {
	case hasArgument && hasPolicy:
		return min(a, p)
	case hasArgument:
		return a
	case hasPolicy:
		return p
	}
	return -1
}

func (r ruleSources) argumentFirst(name string) (string, bool) {
	value, _ := r.args.Get("x-" + name)
	if s, ok := value.(string); ok {
		return s, true
	}
	s, ok := r.policy[name].(string)
	return s, ok
}

func (r ruleSources) policyFirst(name string) (string, bool) {
	if s, ok := r.policy[name].(string); ok {
		return s, true
	}
	return r.argumentFirst(name)
}

func (r ruleSources) deliveryLimit(c Compat) int {
	const name = "delivery-limit"
	a, hasArgument := r.byArgument(name)
	p, hasPolicy := r.byPolicy(name)
	limit := r.lower(name)
	switch {
	case !hasArgument && !hasPolicy:
		limit = c.deliveryLimit()
	case !c.negativeIsUnlimited():
		limit = max(limit, 0)
	case hasArgument && hasPolicy && limit < 0:
		limit = max(a, p) // a limit is safer than none
	}
	return int(max(limit, -1))
}

// retry returns how returned messages are delayed. RabbitMQ accepts any arguments, and ignores those that make no sense.
func (r ruleSources) retry() queue.Retry {
	name, _ := r.policyFirst("delayed-retry-type")
	typ := queue.RetryType(name)
	least, most := r.lower("delayed-retry-min"), r.lower("delayed-retry-max")
	if !slices.Contains([]queue.RetryType{queue.RetryAll, queue.RetryFailed, queue.RetryReturned}, typ) || least <= 0 {
		return queue.Retry{}
	}
	if most <= 0 {
		most = least
	}
	return queue.Retry{Type: typ, Min: milliseconds(least), Max: milliseconds(most)}
}

// milliseconds limits a lifetime, because policies may have any.
func milliseconds(n int64) time.Duration {
	if n < 0 {
		return -1
	}
	return time.Duration(min(n, maxLifetime)) * time.Millisecond
}
