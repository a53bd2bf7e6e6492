package layouts

import (
	"cmp"
	"maps"
	"strings"
	"time"

	"github.com/rehop/rehop/internal/envelope"
	"github.com/rehop/rehop/internal/topologies"
	"github.com/rehop/rehop/layout"
	"github.com/rehop/rehop/topology"
)

// Layout is the mechanics of a layout: where the messages of a subscription are on the broker, and
// what becomes of one that fails. Of makes it of the settings that users choose.
//
// A layout is a plan and a rule. How messages are consumed, moved, confirmed and acked is the same in
// all of them: a message is acked when the broker has confirmed its copy, and it waits in queues of
// rehop's own that dead-letter at least once, unless the layout has queues of that kind.
type Layout interface {
	// Settings are those that it was made of.
	Settings() layout.Layout
	// Validate reports all settings of the layout that are impossible.
	Validate() error
	// Exchange is an exchange as publishers and subscribers declare it. Kind "" is the layout's usual one.
	Exchange(name, kind string) topology.Plan
	// KeepsUnrouted reports whether a message for which no queue is bound is kept by such an exchange.
	KeepsUnrouted() bool
	// Queue is the queue of a subscription.
	Queue(QueueSpec) topology.Queue
	// Subscription is the queue with the exchange and the bindings that feed it.
	Subscription(QueueSpec) topology.Plan
	// Around is what belongs to the queue besides: where its messages wait and rest.
	RetryTopology(QueueSpec) topology.Plan
	// FailedQueue is where messages of a queue rest that will not be retried.
	FailedQueue(queue string) string
	// Rests reports whether the broker takes what is rejected to the failed queue by itself.
	DeadLettersToFailed(topology.Queue) bool
	// Delays are the waits between attempts unless a subscription has its own.
	Delays() []time.Duration

	// KeepsKey reports whether a message keeps its routing key wherever rehop moves it, because others publish it
	// again with that.
	KeepsKey() bool
	// Origin is the exchange and the key with which a message was first published, as far as that can be told
	// of one that rehop has not written down.
	Origin(Message) (exchange, key string)
	// Failures is how often a message has failed by the layout's own record, in which programs without
	// rehop count too.
	Failures(Message) int
	// RedeliveryFails reports whether a delivery that is marked as repeated counts as a failure.
	RedeliveryFails() bool
	// Check returns why a message can never be handled.
	Check(Message) error
	// Stray reports whether a message is a copy that was meant for another queue alone.
	Stray(Message) bool
	// Record is the layout's own record of failures, as headers.
	Record(l Message, failures int) map[string]any
	// Retry says what becomes of a message that has failed and is to be tried again.
	Retry(Failure) Verdict
	// Fail says what becomes of a message that will not be tried again.
	Fail(Failure) Verdict
	// Open finds in a message that rests what it was before it failed, and what is known of its failure.
	// The letter's queue is the one whose failed messages are looked at.
	Open(Message) (Message, envelope.Failure)
}

// Letter is a message as a layout sees it.
type Message struct {
	Queue       string // that it was delivered from, or that failed it
	ID          string
	Exchange    string // where it was first published to
	Key         string
	Headers     map[string]any // as delivered, with what rehop and the broker wrote
	Body        []byte
	ContentType string
	Redelivered bool

	CorrelationID, ReplyTo, Type, AppID string

	Priority  uint8
	Transient bool // it was published as transient
}

// Failure is a message that has just failed.
type Failure struct {
	Message
	Attempt int           // which attempt it was, from 1
	Delay   time.Duration // Retry: how long it is to wait
	// Via is the queue that brings it back, if there is only one on the way; a layout that counts what the
	// broker writes can then prepare that queue's entry.
	Via   string
	Kind  string // see package envelope
	Error string
	Stack string
	At    time.Time
}

// Action is what is done with a message.
type Action int

const (
	// Wait lets it wait in rehop's own queues, from which it returns to its queue alone.
	Wait Action = iota
	// Move publishes it to an address, confirmed, and acks it then.
	Move
	// Requeue gives it back to its queue, which marks it as delivered before.
	Requeue
	// Reject has the broker dead-letter it.
	Reject
)

// Verdict is what becomes of a message that has failed.
type Verdict struct {
	Do          Action
	Address     Address        // Move: where to
	Key         string         // Move: with which routing key; "" with ToQueue set: that with which it returns to its queue
	ToQueue     bool           // Move: the routing key is the one with which it returns to its queue
	Headers     map[string]any // to be set
	Body        []byte         // nil: as it is
	ContentType string         // "": as it is
}

// Whole is everything that a subscription needs on the broker, with the given waits. It is an error if the
// layout's settings are impossible, or if the queue or its exchange is one that the layout needs for something
// else.
func SubscriptionPlan(l Layout, native Native, spec QueueSpec, waits []time.Duration) (topology.Plan, error) {
	plan, err := RetryPlan(l, native, spec, waits)
	if err != nil {
		return plan, err
	}
	err = mergeAll(&plan, l.Subscription(spec), native.returnTo(spec.Name))
	if err == nil && l.KeepsKey() {
		err = plan.Merge(native.home(l.Queue(spec)))
	}
	return plan, err
}

// Ways is what a failed message needs, without the queue itself: that belongs to the connection that
// consumes, or to somebody else.
func RetryPlan(l Layout, native Native, spec QueueSpec, waits []time.Duration) (topology.Plan, error) {
	if err := l.Validate(); err != nil {
		return topology.Plan{}, err
	}
	landing, step := native.landing, native.Step
	if l.KeepsKey() {
		landing, step = native.homeLanding, native.homeStep
	}
	parts := []topology.Plan{l.RetryTopology(spec)}
	if q := l.Queue(spec); refuses(q) {
		parts = append(parts, landing(q.Name))
	}
	known := make(map[time.Duration]bool)
	for i, d := range waits {
		if !known[d] && l.Retry(Failure{Message: Message{Queue: spec.Name}, Attempt: i + 1, Delay: d}).Do == Wait {
			parts = append(parts, step(d))
		}
		known[d] = true
	}
	plan := native.Base()
	if err := mergeAll(&plan, parts...); err != nil {
		return plan, err
	}
	return plan, checkQueue(l, spec, plan, waits)
}

func mergeAll(plan *topology.Plan, parts ...topology.Plan) error {
	for _, part := range parts {
		if err := plan.Merge(part); err != nil {
			return err
		}
	}
	return nil
}

// ReturnKey is the routing key with which a message returns to the queue.
//
// What a full queue refuses stays in the queue that dead-lettered it and is tried again minutes later,
// a few at a time: in a shared step it would hold up everybody's messages. So messages for a queue
// that refuses when it is full, or of which rehop cannot know that, return by way of a queue of its
// own, in which they stay for no time if there is room.
func ReturnKey(q topology.Queue) string {
	if refuses(q) {
		return LandingQueue(q.Name)
	}
	return q.Name
}

// refuses reports whether the queue may refuse a message.
func refuses(q topology.Queue) bool {
	if q.Passive {
		return true
	}
	_, length := q.Args["x-max-length"]
	_, bytes := q.Args["x-max-length-bytes"]
	overflow, _ := q.Args["x-overflow"].(string)
	return (length || bytes) && strings.HasPrefix(overflow, "reject-publish")
}

// IsQuorum reports whether a queue is planned as a quorum queue.
func IsQuorum(q topology.Queue) bool { return q.Args["x-queue-type"] == string(layout.Quorum) }

// override puts further arguments over a layout's own; nil takes one away.
func override(args topology.Args, further map[string]any) topology.Args {
	out := make(topology.Args, len(args)+len(further))
	maps.Copy(out, args)
	for name, value := range further {
		if value == nil {
			delete(out, name)
		} else {
			out[name] = value
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// queueOf is the queue that a spec asks for, with a layout's own arguments. A type is said only when the
// spec does: the virtual host may have a usual type of its own, and the fleet leaves it out too.
func queueOf(q QueueSpec, args topology.Args) topology.Queue {
	queue := topology.Queue{Name: q.Name, Exclusive: q.Exclusive, AutoDelete: q.AutoDelete, Passive: q.Passive}
	if q.Passive {
		return queue
	}
	if q.Type != "" {
		args = override(args, map[string]any{"x-queue-type": string(q.Type)})
	}
	queue.Args = override(args, q.Args)
	return queue
}

// feed is a queue with its exchange and the bindings that feed it.
func feed(l Layout, q QueueSpec, keys ...string) topology.Plan {
	plan := topology.Plan{Queues: []topology.Queue{l.Queue(q)}}
	switch {
	case q.Exchange == "":
		return plan
	case q.ExistingExchange:
		plan.Exchanges = append(plan.Exchanges, topology.Exchange{Name: q.Exchange, Passive: true})
	case !strings.HasPrefix(q.Exchange, "amq."):
		topologies.Add(&plan, l.Exchange(q.Exchange, q.ExchangeType))
	}
	if len(q.Keys) > 0 {
		keys = q.Keys
	}
	for _, key := range keys {
		plan.Bindings = append(plan.Bindings, topology.Binding{Source: q.Exchange, Destination: q.Name, Key: key})
	}
	return plan
}

// plain is an exchange without arguments.
func plain(name, kind, usual string) topology.Plan {
	return topology.Plan{Exchanges: []topology.Exchange{{Name: name, Type: cmp.Or(kind, usual)}}}
}

// rules are what most layouts agree on.
type rules struct{}

func (rules) KeepsUnrouted() bool                     { return false }
func (rules) DeadLettersToFailed(topology.Queue) bool { return false }
func (rules) Failures(Message) int                    { return 0 }
func (rules) KeepsKey() bool                          { return true }
func (rules) Origin(l Message) (string, string)       { return l.Exchange, l.Key }
func (rules) RedeliveryFails() bool                   { return false }
func (rules) Check(Message) error                     { return nil }
func (rules) Stray(Message) bool                      { return false }
func (rules) Record(Message, int) map[string]any      { return nil }

func (rules) Open(l Message) (Message, envelope.Failure) {
	return l, envelope.ReadDead(l.Headers, l.Exchange, l.Key)
}
