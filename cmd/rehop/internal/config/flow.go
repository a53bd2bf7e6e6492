package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/internal/consume"
	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/layout"
)

// Flow is a subscription with a target. Two flows that are read from the same text are equal by reflect.DeepEqual.
type Flow struct {
	Name string
	// Subscriber has everything but the handler, and the function of OrderBy.
	Subscriber rehop.Subscriber
	// OrderBy is where the key is by which messages are ordered.
	OrderBy OrderKey
	// PauseWhenDown pauses the flow, without using attempts, while the target cannot be reached.
	PauseWhenDown bool
	Target        Target
}

func (r *reader) flows(n *yaml.Node, f *File) {
	r.named(n, "flows", func(name string, key, value *yaml.Node) {
		before := len(r.faults)
		flow, at := r.flow(name, key, value)
		for i, other := range f.Flows {
			if other.Subscriber.Queue == flow.Subscriber.Queue {
				r.fault(at.at("queue"), "flow %q has the same queue %q as flow %q in line %d: they would take each other's messages",
					name, flow.Subscriber.Queue, other.Name, r.flowsAt[i].self.Line)
			}
		}
		at.faulty = len(r.faults) > before
		f.Flows, r.flowsAt = append(f.Flows, flow), append(r.flowsAt, at)
	})
}

// agree checks that the flows can be declared, together with the exchanges and with each other.
func (r *reader) agree(f *File) {
	var sound []rehop.Subscriber
	for i, at := range r.flowsAt {
		if at.faulty {
			continue
		}
		s := f.Flows[i].Ordered()
		if _, err := rehop.Topology(f.Config(), s); err != nil {
			r.blame(at, err, fieldKeys)
			continue
		}
		for _, other := range sound {
			if _, err := rehop.Topology(f.Config(), other, s); err != nil {
				r.blame(at, err, fieldKeys)
				break
			}
		}
		sound = append(sound, s)
	}
}

// fieldKeys are the keys of fields whose name differs from the key.
var fieldKeys = map[string]string{"QueueArgs": "arguments", "ExchangeType": "exchange-type", "Retry": "retry",
	"OrderBy": "order-by", "Partitions": "partitions", "MaxHeld": "max-held", "AfterFail": "after-fail", "Rate": "rate", "Burst": "burst", "Prefetch": "prefetch", "Concurrency": "concurrency"}

func (r *reader) flow(name string, key, n *yaml.Node) (Flow, places) {
	flow := Flow{Name: name, Subscriber: rehop.Subscriber{Queue: name}}
	s := &flow.Subscriber
	what := fmt.Sprintf("flow %q", name)
	if n.Tag == "!!null" {
		r.fault(key, "%s is empty; it needs a target", what)
		return flow, places{what: what, self: key}
	}
	targets := 0
	at := r.mapping(n, what, keys{
		"queue":                  r.text(&s.Queue),
		"exchange":               r.text(&s.Exchange),
		"exchange-type":          choice(r, &s.ExchangeType, "topic", "direct", "fanout", "headers"),
		"existing-exchange":      r.whether(&s.ExistingExchange),
		"keys":                   r.texts(&s.Keys),
		"layout":                 r.layout(&s.Layout),
		"retry":                  r.retry(&s.Retry),
		"concurrency":            r.count(&s.Concurrency),
		"prefetch":               r.count(&s.Prefetch),
		"timeout":                r.period(&s.Timeout),
		"crash-limit":            r.count(&s.CrashLimit),
		"rate":                   r.rate(s),
		"order-by":               value(r, &flow.OrderBy, "a text", "header.NAME, body.PATH, key or type", parseOrderKey),
		"partitions":             r.count(&s.Partitions),
		"max-held":               r.count(&s.MaxHeld),
		"after-fail":             r.afterFail(&s.AfterFail),
		"pause-when-down":        r.whether(&flow.PauseWhenDown),
		"probe-min":              r.period(&s.ProbeMin),
		"probe-max":              r.period(&s.ProbeMax),
		"queue-type":             choice(r, &s.QueueType, layout.Quorum, layout.Classic),
		"existing-queue":         r.whether(&s.ExistingQueue),
		"message-ttl":            r.period(&s.MessageTTL),
		"expires":                r.period(&s.Expires),
		"max-length":             r.count(&s.MaxLength),
		"max-bytes":              r.bytes(&s.MaxBytes),
		"overflow":               choice(r, &s.Overflow, "reject-publish", "drop-head", "reject-publish-dlx"),
		"max-priority":           r.count(&s.MaxPriority),
		"single-active-consumer": r.whether(&s.SingleActiveConsumer),
		"consumer-priority":      r.count(&s.ConsumerPriority),
		"arguments":              r.arguments(&s.QueueArgs),
		"policy-priority":        r.count(&s.PolicyPriority),
		"target":                 func(n *yaml.Node) { targets++; r.target(n, what, &flow.Target) },
	})
	at.self = key
	if targets == 0 && n.Kind == yaml.MappingNode {
		r.fault(key, "%s has no target; it needs http, command or forward", what)
	}
	r.checkTimes(flow, at)
	r.checkCircle(flow, at)
	r.noteSharing(flow, at)
	if flow.QuorumPriorities() {
		r.note(at.at("max-priority"), "%s: quorum queues have priorities since RabbitMQ 4.0; on an earlier release the flow does not start. For such a release, use queue-type classic or leave out max-priority", what)
	}
	return flow, at
}

// noteSharing notes a layout whose count of failures RabbitMQ 4 does not let other programs share.
func (r *reader) noteSharing(f Flow, at places) {
	of := f.Subscriber.Layout
	quorum := f.Subscriber.QueueType == layout.Quorum
	switch {
	case of == nil:
	case layouts.CountsInDeaths(of):
		r.note(at.at("layout"), "flow %q: layout %s counts failures in the header x-death, which RabbitMQ 4 ignores if a client writes it: programs that share the queue do not see each other's failures. To change that, %s",
			f.Name, layouts.Name(of), layouts.WithoutDeaths(of, true))
	case layouts.CountsInRejections(of) && !quorum:
		r.note(at.at("layout"), "flow %q: with reject, layout %s has the broker count failures. From RabbitMQ 4.3 on, that lasts only in a quorum queue: in a classic queue, programs that share it do not see all of each other's failures. To change that, %s",
			f.Name, layouts.Name(of), layouts.WithoutRejections(of))
	}
}

// QuorumPriorities reports whether the flow needs priorities of a quorum queue.
func (f Flow) QuorumPriorities() bool {
	return f.Subscriber.MaxPriority > 0 && f.Subscriber.QueueType == layout.Quorum
}

// usualFlowTimeout is the default timeout of a flow.
const usualFlowTimeout = 5 * time.Minute

// Holds is the longest time that the flow holds a message, without immediate retries: its timeout, times the number of prefetched messages
// that a worker handles one after the other, plus the time that the rate limit needs for them.
func (f Flow) Holds() time.Duration {
	s := f.Subscriber
	t := consume.Timeout{Concurrency: cmp.Or(s.Concurrency, 1), Rate: s.Rate}
	if f.OrderBy != "" {
		t.Handler = cmp.Or(s.Timeout, usualFlowTimeout)
		return t.Ordered()
	}
	t.Prefetch = cmp.Or(s.Prefetch, consume.UsualPrefetch(t.Concurrency, t.Rate))
	rounds := (t.Prefetch + t.Concurrency - 1) / t.Concurrency
	return cmp.Or(s.Timeout, usualFlowTimeout)*time.Duration(rounds) + t.RateWait()
}

// arguments reads queue arguments. Their values are not checked.
func (r *reader) arguments(to *map[string]any) func(*yaml.Node) {
	return func(n *yaml.Node) {
		*to = make(map[string]any)
		r.named(n, "arguments", func(name string, key, value *yaml.Node) {
			var decoded any
			if err := value.Decode(&decoded); err != nil {
				r.fault(value, "the value of argument %s cannot be read", name)
				return
			}
			switch v := decoded.(type) {
			case nil, string, bool, float64:
			case int:
				decoded = int64(v)
			default:
				r.fault(value, "the value of argument %s must be a text, a number, true, false or null", name)
				return
			}
			(*to)[name] = decoded
		})
	}
}

// checkTimes reports a target with a longer timeout than its flow. A target without a timeout gets at most that of the flow.
func (r *reader) checkTimes(f Flow, at places) {
	limit := cmp.Or(f.Subscriber.Timeout, usualFlowTimeout)
	own := f.Target.timeout()
	if own == nil {
		return
	}
	if *own == 0 {
		*own = min(limit, usualTimeout)
	}
	if *own > limit {
		r.fault(at.at("target"), "flow %q: its target has a timeout of %v, and the flow one of %v; the timeout of the flow must not be shorter", f.Name, *own, limit)
	}
}

// usualTimeout is the default timeout of a target.
const usualTimeout = 30 * time.Second

// checkCircle reports a flow that forwards messages to its own queue.
func (r *reader) checkCircle(f Flow, at places) {
	to := f.Target.Forward
	if to == nil {
		return
	}
	s := f.Subscriber
	circle := to.Exchange == "" && to.Key == s.Queue
	if to.Exchange != "" && to.Exchange == s.Exchange {
		bound := s.Keys
		if len(bound) == 0 {
			bound = []string{"#"}
		}
		// A message without a new key matches the binding by which it came.
		circle = to.Key == "" || s.ExchangeType == "fanout" || slices.ContainsFunc(bound, func(b string) bool {
			if s.ExchangeType == "direct" {
				return b == to.Key
			}
			return matches(strings.Split(b, "."), strings.Split(to.Key, "."))
		})
	}
	if circle {
		r.fault(at.at("target"), "flow %q forwards messages to its own queue, which is an endless loop", f.Name)
	}
}

// matches reports whether a binding key of a topic exchange matches a routing key.
func matches(binding, key []string) bool {
	switch {
	case len(binding) == 0:
		return len(key) == 0
	case binding[0] == "#":
		return matches(binding[1:], key) || len(key) > 0 && matches(binding, key[1:])
	case len(key) == 0:
		return false
	}
	return (binding[0] == "*" || binding[0] == key[0]) && matches(binding[1:], key[1:])
}
