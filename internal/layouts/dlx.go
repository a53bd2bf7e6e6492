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

func (d dlx) Settings() layout.Layout { return d.DLX }

func (d dlx) exchange() string  { return cmp.Or(d.Name, "dlx") }
func (d dlx) deadQueue() string { return cmp.Or(d.DLX.Queue, "dlq") }

func (d dlx) Validate() error {
	return errors.Join(CheckName("DLX.Name", d.Name), CheckName("DLX.Queue", d.DLX.Queue), checkArgs("DLX.QueueArgs", d.QueueArgs))
}

// Exchange is a topic exchange whose alternate exchange is the dead-letter exchange, which has none.
func (d dlx) Exchange(name, typ string) topology.Plan {
	if name == d.exchange() {
		return d.base()
	}
	plan := plain(name, typ, "topic")
	plan.Exchanges[0].Args = topology.Args{"alternate-exchange": d.exchange()}
	topologies.Add(&plan, d.base())
	return plan
}

func (d dlx) base() topology.Plan {
	// Only classic queues have a mode. Without its type, RabbitMQ refuses the queue in a virtual host
	// with another default type.
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

func (d dlx) KeepsUnrouted() bool { return true }

// Queue holds at most 300 messages for at most a day, and dead-letters the others.
func (d dlx) Queue(q QueueSpec) topology.Queue {
	return queueOf(q, topology.Args{
		"x-dead-letter-exchange": d.exchange(), "x-overflow": "drop-head", "x-max-length": int64(300),
		"x-message-ttl": (24 * time.Hour).Milliseconds(),
	})
}

func (d dlx) Subscription(q QueueSpec) topology.Plan { return feed(d, q, defaultKey(q.ExchangeType)) }

func (d dlx) RetryTopology(QueueSpec) topology.Plan { return d.base() }

// FailedQueue is the dead-letter queue, for all queues.
func (d dlx) FailedQueue(string) string { return d.deadQueue() }

func (d dlx) DeadLettersToFailed(q topology.Queue) bool {
	return q.Args["x-dead-letter-exchange"] == d.exchange()
}

// Delays is one wait of no time: the message is requeued once.
func (d dlx) Delays() []time.Duration { return []time.Duration{0} }

// RedeliveryFails is true: other programs requeue a failed message and record nothing else.
func (d dlx) RedeliveryFails() bool { return true }

// Retry requeues a message without a delay, once: requeueing records only that the message was
// delivered, so a second time would not count.
func (d dlx) Retry(f Failure) Verdict {
	if f.Delay <= 0 && !f.Redelivered {
		return Verdict{Do: Requeue}
	}
	return Verdict{Do: Wait}
}

// Fail moves the message to the dead-letter exchange, with the record that the broker would write.
func (d dlx) Fail(f Failure) Verdict {
	return Verdict{Do: Move, Address: Address{Exchange: d.exchange()}, Key: f.Key,
		Headers: deathRecord(death{queue: f.Queue, reason: rejected, exchange: f.Exchange, key: f.Key, count: 1, at: f.At})}
}

// Open reads the broker's record, or rehop's. An unroutable message has none: it belongs to no queue.
func (d dlx) Open(l Message) (Message, envelope.Failure) {
	f := envelope.ReadDead(l.Headers, l.Exchange, l.Key)
	if f.Queue == "" {
		f.Kind, f.Error = envelope.KindUnrouted, "no queue was bound for it"
	}
	return l, f
}
