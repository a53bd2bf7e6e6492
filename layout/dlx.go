package layout

import (
	"cmp"
	"errors"
	"time"

	"github.com/rehop/rehop/internal/envelope"
	"github.com/rehop/rehop/internal/topology"
)

// DLX is the layout of one dead-letter exchange, dlx, and one dead-letter queue, dlq, for all: what no
// queue is bound for, what is rejected, what is older than a day and what overflows a queue of 300
// ends there. A message that fails is requeued once; when it fails again it is dead-lettered.
//
// The arguments of the queues can be changed by those of the subscription (MessageTTL, MaxLength,
// Overflow, QueueArgs; a nil argument is left out).
//
// A fleet that uses it rejects, and the broker dead-letters at most once. A rehop consumer requeues too, so
// that others see that the message has failed, but moves what is to rest itself, confirmed. Since
// others know a repeated delivery from a first one only by its mark, a message whose consumer died counts as failed
// once; rehop ends the loop of one that kills its consumers over and over.
type DLX struct {
	rules
	// Name is the name of the dead-letter exchange. Default: dlx.
	Name string
	// Rest is the name of the dead-letter queue. Default: dlq.
	Rest string
	// RestArgs are the arguments of the dead-letter queue. Default: x-queue-mode lazy and x-queue-type classic. A lazy queue
	// that was declared without a type is the same. Set it for a dead-letter queue of another type.
	RestArgs map[string]any
}

func (d DLX) exchange() string { return cmp.Or(d.Name, "dlx") }
func (d DLX) rest() string     { return cmp.Or(d.Rest, "dlq") }

// Validate looks at the names and at the arguments of the dead-letter queue.
func (d DLX) Validate() error {
	return errors.Join(checkName("DLX.Name", d.Name), checkName("DLX.Rest", d.Rest), checkArgs("DLX.RestArgs", d.RestArgs))
}

// Exchange is a topic exchange whose alternate exchange is the dead-letter exchange. That itself has none.
func (d DLX) Exchange(name, kind string) topology.Plan {
	if name == d.exchange() {
		return d.base()
	}
	plan := plain(name, kind, "topic")
	plan.Exchanges[0].Args = topology.Args{"alternate-exchange": d.exchange()}
	plan.Add(d.base())
	return plan
}

func (d DLX) base() topology.Plan {
	// Only classic queues have a mode. Without its type the queue is refused where the virtual host's default is another one.
	args := topology.Args{"x-queue-mode": "lazy", "x-queue-type": string(Classic)}
	if d.RestArgs != nil {
		args = override(nil, d.RestArgs)
	}
	return topology.Plan{
		Exchanges: []topology.Exchange{{Name: d.exchange(), Kind: "topic"}},
		Queues:    []topology.Queue{{Name: d.rest(), Args: args}},
		Bindings:  []topology.Binding{{Source: d.exchange(), Destination: d.rest(), Key: "#"}},
	}
}

// KeepsUnrouted is true: the dead-letter queue keeps it.
func (d DLX) KeepsUnrouted() bool { return true }

// Queue has at most 300 messages of at most a day, and dead-letters the others.
func (d DLX) Queue(q QueueSpec) topology.Queue {
	return queueOf(q, topology.Args{
		"x-dead-letter-exchange": d.exchange(), "x-overflow": "drop-head", "x-max-length": int64(300),
		"x-message-ttl": (24 * time.Hour).Milliseconds(),
	})
}

// Subscription is the queue, bound to its exchange.
func (d DLX) Subscription(q QueueSpec) topology.Plan { return feed(d, q, defaultKey(q.Kind)) }

// Around is the dead-letter exchange and queue.
func (d DLX) Around(QueueSpec) topology.Plan { return d.base() }

// FailedQueue is the dead-letter queue, for all queues.
func (d DLX) FailedQueue(string) string { return d.rest() }

// Rests reports whether the queue dead-letters to the exchange.
func (d DLX) Rests(q topology.Queue) bool { return q.Args["x-dead-letter-exchange"] == d.exchange() }

// Delays is one wait of no time: the message is requeued once.
func (d DLX) Delays() []time.Duration { return []time.Duration{0} }

// RedeliveryFails is true: who requeues a message says so by nothing else.
func (d DLX) RedeliveryFails() bool { return true }

// Retry requeues a message that is to wait for no time, once: requeueing writes down nothing but that the message was delivered, so
// the next one would not count.
func (d DLX) Retry(f Failure) Verdict {
	if f.Delay <= 0 && !f.Redelivered {
		return Verdict{Do: Requeue}
	}
	return Verdict{Do: Wait}
}

// Fail moves the message to the dead-letter exchange, with the record that the broker would have made.
func (d DLX) Fail(f Failure) Verdict {
	return Verdict{Do: Move, Address: Address{Exchange: d.exchange()}, Key: f.Key,
		Headers: deathRecord(death{queue: f.Queue, reason: rejected, exchange: f.Exchange, key: f.Key, count: 1, at: f.At})}
}

// Open reads the broker's record, or rehop's. A message that no queue was bound for has none: it belongs
// to no queue.
func (d DLX) Open(l Letter) (Letter, envelope.Failure) {
	f := envelope.ReadDead(l.Headers, l.Exchange, l.Key)
	if f.Queue == "" {
		f.Kind, f.Error = envelope.KindUnrouted, "no queue was bound for it"
	}
	return l, f
}
