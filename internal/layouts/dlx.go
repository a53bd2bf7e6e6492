package layouts

import (
	"cmp"
	"errors"
	"time"

	"github.com/rehop/rehop/internal/envelope"
	"github.com/rehop/rehop/internal/topologies"
	"github.com/rehop/rehop/layout"
	"github.com/rehop/rehop/topology"
)

// dlx is the mechanics of [layout.DLX].
type dlx struct {
	rules
	layout.DLX
}

// Settings are those that it was made of.
func (d dlx) Settings() layout.Layout { return d.DLX }

func (d dlx) exchange() string  { return cmp.Or(d.Name, "dlx") }
func (d dlx) deadQueue() string { return cmp.Or(d.DLX.Queue, "dlq") }

// Validate looks at the names and at the arguments of the dead-letter queue.
func (d dlx) Validate() error {
	return errors.Join(CheckName("DLX.Name", d.Name), CheckName("DLX.Queue", d.DLX.Queue), checkArgs("DLX.QueueArgs", d.QueueArgs))
}

// Exchange is a topic exchange whose alternate exchange is the dead-letter exchange. That itself has none.
func (d dlx) Exchange(name, kind string) topology.Plan {
	if name == d.exchange() {
		return d.base()
	}
	plan := plain(name, kind, "topic")
	plan.Exchanges[0].Args = topology.Args{"alternate-exchange": d.exchange()}
	topologies.Add(&plan, d.base())
	return plan
}

func (d dlx) base() topology.Plan {
	// Only classic queues have a mode. Without its type the queue is refused where the virtual host's default is another one.
	args := topology.Args{"x-queue-mode": "lazy", "x-queue-type": string(layout.Classic)}
	if d.QueueArgs != nil {
		args = override(nil, d.QueueArgs)
	}
	return topology.Plan{
		Exchanges: []topology.Exchange{{Name: d.exchange(), Type: "topic"}},
		Queues:    []topology.Queue{{Name: d.deadQueue(), Args: args}},
		Bindings:  []topology.Binding{{Source: d.exchange(), Destination: d.deadQueue(), Key: "#"}},
	}
}

// KeepsUnrouted is true: the dead-letter queue keeps it.
func (d dlx) KeepsUnrouted() bool { return true }

// Queue has at most 300 messages of at most a day, and dead-letters the others.
func (d dlx) Queue(q QueueSpec) topology.Queue {
	return queueOf(q, topology.Args{
		"x-dead-letter-exchange": d.exchange(), "x-overflow": "drop-head", "x-max-length": int64(300),
		"x-message-ttl": (24 * time.Hour).Milliseconds(),
	})
}

// Subscription is the queue, bound to its exchange.
func (d dlx) Subscription(q QueueSpec) topology.Plan { return feed(d, q, defaultKey(q.ExchangeType)) }

// Around is the dead-letter exchange and queue.
func (d dlx) RetryTopology(QueueSpec) topology.Plan { return d.base() }

// FailedQueue is the dead-letter queue, for all queues.
func (d dlx) FailedQueue(string) string { return d.deadQueue() }

// Rests reports whether the queue dead-letters to the exchange.
func (d dlx) DeadLettersToFailed(q topology.Queue) bool {
	return q.Args["x-dead-letter-exchange"] == d.exchange()
}

// Delays is one wait of no time: the message is requeued once.
func (d dlx) Delays() []time.Duration { return []time.Duration{0} }

// RedeliveryFails is true: who requeues a message says so by nothing else.
func (d dlx) RedeliveryFails() bool { return true }

// Retry requeues a message that is to wait for no time, once: requeueing writes down nothing but that the message was delivered, so
// the next one would not count.
func (d dlx) Retry(f Failure) Verdict {
	if f.Delay <= 0 && !f.Redelivered {
		return Verdict{Do: Requeue}
	}
	return Verdict{Do: Wait}
}

// Fail moves the message to the dead-letter exchange, with the record that the broker would have made.
func (d dlx) Fail(f Failure) Verdict {
	return Verdict{Do: Move, Address: Address{Exchange: d.exchange()}, Key: f.Key,
		Headers: deathRecord(death{queue: f.Queue, reason: rejected, exchange: f.Exchange, key: f.Key, count: 1, at: f.At})}
}

// Open reads the broker's record, or rehop's. A message that no queue was bound for has none: it belongs
// to no queue.
func (d dlx) Open(l Message) (Message, envelope.Failure) {
	f := envelope.ReadDead(l.Headers, l.Exchange, l.Key)
	if f.Queue == "" {
		f.Kind, f.Error = envelope.KindUnrouted, "no queue was bound for it"
	}
	return l, f
}
