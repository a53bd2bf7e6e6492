package layout

import (
	"cmp"
	"errors"
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
	// Delay is the TTL of the retry queue (retry_timeout), and the wait between attempts. Default: 60 s.
	Delay time.Duration
	// Retries is how often a message is tried again (retry_max_times). Default: 5.
	Retries int
	// Reject has the broker dead-letter what waits for Delay, as the others do: the count is the
	// broker's, and classic queues can lose a message on that way when a node dies. Default: rehop moves
	// the message, confirmed.
	Reject bool
	// RetryName is the retry exchange and queue (retry_exchange). Default: Q-retry.
	RetryName string
	// ErrorName is the error exchange and queue (retry_error_exchange). Default: Q-error.
	ErrorName string
	// RequeueName is the exchange by which messages return (retry_requeue_exchange). Default: Q-retry-requeue.
	RequeueName string
	// RequeueKey binds the queue to that (retry_routing_key). Default: #.
	RequeueKey string
}

// SneakersExchange is the exchange of Sneakers unless a subscription names another.
const SneakersExchange = "sneakers"

func (s Sneakers) delay() time.Duration { return cmp.Or(s.Delay, time.Minute) }

func (s Sneakers) retryName(queue string) string {
	return cmp.Or(s.RetryName, suffixed(queue, "-retry"))
}

func (s Sneakers) errorName(queue string) string {
	return cmp.Or(s.ErrorName, suffixed(queue, "-error"))
}

func (s Sneakers) requeueName(queue string) string {
	return cmp.Or(s.RequeueName, suffixed(queue, "-retry-requeue"))
}

// Validate looks at the delay, the retries and the names.
func (s Sneakers) Validate() error {
	faults := []error{checkDelay("Sneakers.Delay", s.delay()), checkCount("Sneakers.Retries", s.Retries, maxRetries)}
	named := make(map[string]string)
	for _, n := range []struct{ setting, name string }{
		{"Sneakers.RetryName", s.RetryName}, {"Sneakers.ErrorName", s.ErrorName}, {"Sneakers.RequeueName", s.RequeueName},
	} {
		if n.name == "" {
			continue
		}
		faults = append(faults, checkName(n.setting, n.name))
		if other, twice := named[n.name]; twice {
			faults = append(faults, errors.New(other+" and "+n.setting+" must differ"))
		}
		named[n.name] = n.setting
	}
	return errors.Join(faults...)
}

// Exchange is a direct exchange.
func (s Sneakers) Exchange(name, kind string) topology.Plan { return plain(name, kind, "direct") }

// Queue dead-letters to its retry exchange.
func (s Sneakers) Queue(q QueueSpec) topology.Queue {
	return queueOf(q, topology.Args{"x-dead-letter-exchange": s.retryName(q.Name)})
}

// Subscription is the queue, bound to its exchange by its own name, and to the requeue exchange.
func (s Sneakers) Subscription(q QueueSpec) topology.Plan {
	q.Exchange = cmp.Or(q.Exchange, SneakersExchange)
	plan := feed(s, q, q.Name)
	plan.Bindings = append(plan.Bindings, topology.Binding{Source: s.requeueName(q.Name), Destination: q.Name, Key: cmp.Or(s.RequeueKey, "#")})
	return plan
}

// Around is the three exchanges and the two queues beside the queue.
func (s Sneakers) Around(q QueueSpec) topology.Plan {
	wait, fail, requeue := s.retryName(q.Name), s.errorName(q.Name), s.requeueName(q.Name)
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
func (s Sneakers) FailedQueue(queue string) string { return s.errorName(queue) }

// Delays are five waits of a minute.
func (s Sneakers) Delays() []time.Duration { return repeated(s.delay(), cmp.Or(s.Retries, 5)) }

// Failures is how often the message died in its queue, of whatever reason.
func (s Sneakers) Failures(l Letter) int {
	return deathsOf(l.Headers, func(d death) bool { return d.queue == l.Queue })
}

// Origin is what the entry of the queue says: the requeue exchange is not where it was published to.
func (s Sneakers) Origin(l Letter) (exchange, key string) {
	if d, ok := deathIn(l.Headers, l.Queue); ok {
		return d.exchange, l.Key
	}
	return l.Exchange, l.Key
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
	v := Verdict{Do: Move, Address: Address{Exchange: s.errorName(f.Queue)}, Key: f.Key}
	if document := wrapError(f); document != nil {
		v.Body, v.ContentType = document, "application/json"
	}
	return v
}

// Open takes the message out of its document.
func (s Sneakers) Open(l Letter) (Letter, envelope.Failure) {
	f := envelope.Read(l.Headers, l.Exchange, l.Key)
	if f.Queue != "" { // rehop has put it here, and has kept all but the body and its type on the message
		return unwrapOwn(l), f
	}
	if l.Exchange == s.errorName(l.Queue) {
		l.Exchange = "" // nothing says where it was published to
	}
	return unwrapError(l)
}
