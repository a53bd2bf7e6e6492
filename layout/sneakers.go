package layout

import (
	"time"

	"github.com/rehop/rehop/internal/envelope"
	"github.com/rehop/rehop/internal/topology"
)

// Sneakers is the layout of the Maxretry handler of the Ruby gem Sneakers. A queue Q dead-letters to the
// exchange Q-retry; the queue of that name holds what comes for a minute and dead-letters it to
// Q-retry-requeue, to which Q is bound. What has failed too often is published to Q-error, wrapped in a
// JSON document that says why.
//
// The failures of a message are its deaths in Q. A rehop consumer waits as long as its schedule says,
// different times for different attempts too, in rehop's own queues, and writes its failures into the
// same record. RabbitMQ 4 takes no such record from a client: there, and wherever others must count
// what rehop fails, set Reject.
type Sneakers struct {
	rules
	// Delay is the TTL of the retry queue, and the wait between attempts. Default: 60 s.
	Delay time.Duration
	// Retries is how often a message is tried again. Default: 5.
	Retries int
	// Reject has the broker dead-letter what waits for Delay, as the others do: the count is the
	// broker's, and classic queues can lose a message on that way when a node dies. Default: rehop moves
	// the message, confirmed.
	Reject bool
	// RequeueKey binds the queue to Q-retry-requeue. Default: #.
	RequeueKey string
}

// SneakersExchange is the exchange of Sneakers unless a subscription names another.
const SneakersExchange = "sneakers"

func (s Sneakers) delay() time.Duration {
	if s.Delay == 0 {
		return time.Minute
	}
	return s.Delay
}

func (s Sneakers) retries() int {
	if s.Retries == 0 {
		return 5
	}
	return s.Retries
}

func retryName(queue string) string   { return suffixed(queue, "-retry") }
func errorName(queue string) string   { return suffixed(queue, "-error") }
func requeueName(queue string) string { return suffixed(queue, "-retry-requeue") }

// Exchange is a direct exchange.
func (s Sneakers) Exchange(name, kind string) topology.Plan { return plain(name, kind, "direct") }

// Queue dead-letters to its retry exchange.
func (s Sneakers) Queue(q QueueSpec) topology.Queue {
	return queueOf(q, topology.Args{"x-dead-letter-exchange": retryName(q.Name)})
}

// Subscription is the queue, bound to its exchange by its own name, and to the requeue exchange.
func (s Sneakers) Subscription(q QueueSpec) topology.Plan {
	q.Exchange = or(q.Exchange, SneakersExchange)
	plan := feed(s, q, q.Name)
	plan.Bindings = append(plan.Bindings, topology.Binding{Source: requeueName(q.Name), Destination: q.Name, Key: or(s.RequeueKey, "#")})
	return plan
}

// Around is the three exchanges and the two queues beside the queue.
func (s Sneakers) Around(q QueueSpec) topology.Plan {
	wait, fail, requeue := retryName(q.Name), errorName(q.Name), requeueName(q.Name)
	return topology.Plan{
		Exchanges: []topology.Exchange{{Name: wait, Kind: "topic"}, {Name: fail, Kind: "topic"}, {Name: requeue, Kind: "topic"}},
		Queues: []topology.Queue{
			{Name: wait, Args: topology.Args{"x-dead-letter-exchange": requeue, "x-message-ttl": s.delay().Milliseconds()}},
			{Name: fail},
		},
		Bindings: []topology.Binding{{Source: wait, Destination: wait, Key: "#"}, {Source: fail, Destination: fail, Key: "#"}},
	}
}

// FailedQueue is Q-error.
func (s Sneakers) FailedQueue(queue string) string { return errorName(queue) }

// Delays are five waits of a minute.
func (s Sneakers) Delays() []time.Duration { return repeated(s.delay(), s.retries()) }

// Failures is how often the message died in its queue.
func (s Sneakers) Failures(l Letter) int {
	return deathsOf(l.Headers, func(queue, _ string) bool { return queue == l.Queue })
}

// Origin is what the entry of the queue says: the requeue exchange is not where it was published to.
func (s Sneakers) Origin(l Letter) (exchange, key string) {
	entry, ok := deathIn(l.Headers, l.Queue)
	if !ok {
		return l.Exchange, l.Key
	}
	return envelope.Text(entry["exchange"]), l.Key
}

// Record is the entry of the queue.
func (s Sneakers) Record(l Letter, failures int) map[string]any {
	return s.record(l, failures, time.Now())
}

func (s Sneakers) record(l Letter, failures int, at time.Time) map[string]any {
	return deathRecord(death{queue: l.Queue, reason: rejected, exchange: l.Exchange, key: l.Key, count: failures, at: at})
}

// Retry lets the message wait, or rejects it if that is chosen and the wait is that of the retry queue.
func (s Sneakers) Retry(f Failure) Verdict {
	if s.Reject && f.Delay == s.delay() {
		return Verdict{Do: Reject}
	}
	return Verdict{Do: Wait, Headers: s.record(f.Letter, f.Attempt, f.At)}
}

// Fail publishes the message to the error exchange, in a document that says why.
func (s Sneakers) Fail(f Failure) Verdict {
	return Verdict{Do: Move, Address: Address{Exchange: errorName(f.Queue)}, Key: f.Key, Body: wrapError(f), ContentType: "application/json"}
}

// Open takes the message out of its document.
func (s Sneakers) Open(l Letter) (Letter, envelope.Failure) {
	f := envelope.Read(l.Headers, l.Exchange, l.Key)
	written := f.Queue != ""
	if !written {
		f.Queue, f.Kind = l.Queue, envelope.KindError
		if l.Exchange == errorName(l.Queue) {
			f.Exchange = "" // nothing says where it was published to
		}
	}
	return unwrapError(l, f, written)
}
