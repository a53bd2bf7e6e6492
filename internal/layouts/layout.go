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

// Layout is the mechanics of a layout: which exchanges and queues it has, and what happens to a message
// that fails. Of creates it from the settings that users choose.
type Layout interface {
	// Settings are those that it was created from.
	Settings() layout.Layout
	// Validate returns all settings of the layout that are impossible.
	Validate() error
	// Exchange is an exchange as publishers and subscribers declare it. Type "" is the layout's usual one.
	Exchange(name, typ string) topology.Plan
	// KeepsUnrouted reports whether such an exchange keeps unroutable messages.
	KeepsUnrouted() bool
	// Queue is the queue of a subscription.
	Queue(QueueSpec) topology.Queue
	// Subscription is the queue with the exchange and the bindings that feed it.
	Subscription(QueueSpec) topology.Plan
	// RetryTopology is what failed messages of the queue need: retry queues and the failed queue.
	RetryTopology(QueueSpec) topology.Plan
	// FailedQueue is the failed queue of a queue.
	FailedQueue(queue string) string
	// DeadLettersToFailed reports whether the broker dead-letters rejected messages to the failed queue.
	DeadLettersToFailed(topology.Queue) bool
	// Delays are the delays between attempts unless a subscription has its own.
	Delays() []time.Duration

	// KeepsKey reports whether a message keeps its routing key wherever rehop moves it, because other
	// programs publish it again with that key.
	KeepsKey() bool
	// Origin is the exchange and the key with which a message was first published, as far as that is known
	// for a message without rehop's record.
	Origin(Message) (exchange, key string)
	// Failures is the number of failures in the layout's own record, in which other programs count, too.
	Failures(Message) int
	// RedeliveryFails reports whether a delivery that is marked as repeated counts as a failure.
	RedeliveryFails() bool
	// Check returns why a message can never be handled.
	Check(Message) error
	// Stray reports whether a message is a copy for another queue.
	Stray(Message) bool
	// Record is the layout's own record of failures, as headers.
	Record(l Message, failures int) map[string]any
	// Retry decides what happens to a message that has failed and is to be retried.
	Retry(Failure) Verdict
	// Fail decides what happens to a message that is not retried.
	Fail(Failure) Verdict
	// Open restores a failed message as it was before it failed, and reads the record of its failure.
	// The message's queue is the one whose failed messages are read.
	Open(Message) (Message, envelope.Failure)
}

// Message is a message as a layout sees it.
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
	// Via is the delay queue, if there is only one: a layout that counts by x-death can then prepare that
	// queue's entry.
	Via   string
	Kind  string // see package envelope
	Error string
	Stack string
	At    time.Time
}

// Action is what is done with a message.
type Action int

const (
	Wait    Action = iota // it waits in rehop's own delay queues
	Move                  // it is published to an address, and acked after the confirm
	Requeue               // it is requeued, which sets the redelivered flag
	Reject                // the broker dead-letters it
)

// Verdict is what happens to a message that has failed.
type Verdict struct {
	Do          Action
	Address     Address        // Move: where to
	Key         string         // Move: with which routing key
	ToQueue     bool           // Move: with the routing key by which it returns to its queue
	Headers     map[string]any // to be set
	Body        []byte         // nil: unchanged
	ContentType string         // "": unchanged
}

// SubscriptionPlan is everything that a subscription needs on the broker, with the given delays. It is an
// error if the layout's settings are impossible, or if the layout uses the queue or its exchange for
// something else.
func SubscriptionPlan(l Layout, native Native, spec QueueSpec, waits []time.Duration) (topology.Plan, error) {
	plan, err := RetryPlan(l, native, spec, waits)
	if err != nil {
		return plan, err
	}
	for _, q := range spec.parts() {
		err = mergeAll(&plan, l.Subscription(q), native.returnTo(q.Name))
		if err == nil && l.KeepsKey() {
			err = plan.Merge(home(l.Queue(q)))
		}
		if err != nil {
			return plan, err
		}
	}
	if spec.Partitions > 1 {
		err = plan.Merge(native.split(spec))
	}
	return plan, err
}

// RetryPlan is what failed messages need, without the queue itself: that belongs to the connection that
// consumes, or to another application.
func RetryPlan(l Layout, native Native, spec QueueSpec, waits []time.Duration) (topology.Plan, error) {
	if err := l.Validate(); err != nil {
		return topology.Plan{}, err
	}
	landing, step := native.landing, native.Step
	if l.KeepsKey() {
		landing, step = native.homeLanding, native.homeStep
	}
	var parts []topology.Plan
	for _, part := range spec.parts() {
		parts = append(parts, l.RetryTopology(part))
		if q := l.Queue(part); refuses(q) {
			parts = append(parts, landing(q.Name))
		}
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
// A message that a full queue rejects stays in the queue that dead-lettered it and is tried again
// minutes later, a few at a time: in a shared step it would block the messages of all queues. So
// messages for a queue that can reject, or that rehop did not declare, return through a landing queue,
// which they leave at once if there is room.
func ReturnKey(q topology.Queue) string {
	if refuses(q) {
		return LandingQueue(q.Name)
	}
	return q.Name
}

// refuses reports whether the queue can reject a message.
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

// override adds further arguments to a layout's own, or replaces them; nil removes one.
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

// queueOf is the queue of a spec, with a layout's own arguments. It has a type only if the spec has one:
// the virtual host may have a default type, and other programs declare the queue without one.
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

// feed is a queue with its exchange and bindings.
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
func plain(name, typ, usual string) topology.Plan {
	return topology.Plan{Exchanges: []topology.Exchange{{Name: name, Type: cmp.Or(typ, usual)}}}
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
