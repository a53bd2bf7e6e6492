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
// Q-retry-requeue, to which Q is bound. What has failed too often is published to Q-error, with the
// header retry_info, a JSON object that says why.
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
	// Document wraps what has failed too often in a JSON document, as Sneakers up to 2.11 does. Default: the body stays as it
	// is, and the record is in the header retry_info, as with Sneakers 2.12 and later and with Kicks. Both are read.
	Document bool
	// RetryName is the retry exchange and queue (retry_exchange). Default: Q-retry.
	RetryName string
	// ErrorName is the error exchange and queue (retry_error_exchange). Default: Q-error.
	ErrorName string
	// RequeueName is the exchange by which messages return (retry_requeue_exchange). Default: Q-retry-requeue.
	RequeueName string
	// RequeueKey binds the queue to that (retry_routing_key). Default: #.
	RequeueKey string
	// RetryArgs are further arguments of the retry and the error queue (retry_queue_arguments of Kicks). Default: the type of the queue, if the
	// subscription names one, as Kicks 3.3 and later does it, or none, as Sneakers and earlier versions do; what the broker has decides, and where it has
	// nothing yet, it is the type. An empty table means none.
	RetryArgs map[string]any
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
	return errors.Join(append(faults, checkArgs("Sneakers.RetryArgs", s.RetryArgs))...)
}

func (s Sneakers) forms(q QueueSpec) []Layout {
	if s.RetryArgs != nil {
		return []Layout{s}
	}
	types := []any{s.Queue(q).Args[queueTypeArg], nil}
	if q.Passive { // of which the type is not known
		types = []any{nil, string(Quorum), string(Classic)}
	}
	var all []Layout
	for i, t := range types {
		if i > 0 && t == types[0] {
			continue
		}
		form := s
		form.RetryArgs = map[string]any{}
		if t != nil {
			form.RetryArgs[queueTypeArg] = t
		}
		all = append(all, form)
	}
	return all
}

const queueTypeArg = "x-queue-type"

// retryArgs are the arguments of the retry and the error queue, with some besides.
func (s Sneakers) retryArgs(q QueueSpec, args topology.Args) topology.Args {
	if s.RetryArgs != nil {
		return override(s.RetryArgs, args)
	}
	if t, ok := s.Queue(q).Args[queueTypeArg]; ok {
		return override(topology.Args{queueTypeArg: t}, args)
	}
	return override(nil, args)
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
			{Name: wait, Args: s.retryArgs(q, topology.Args{"x-dead-letter-exchange": requeue, "x-message-ttl": s.delay().Milliseconds()})},
			{Name: fail, Args: s.retryArgs(q, nil)},
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

// Retry lets the message wait, or rejects it if that is chosen and the wait is that of the retry queue. A message that rehop has
// published is not rejected: RabbitMQ 4 would count its deaths from one again, and it would be retried for ever.
func (s Sneakers) Retry(f Failure) Verdict {
	if s.Reject && f.Delay == s.delay() && !envelope.Written(f.Headers) {
		return Verdict{Do: Reject}
	}
	return Verdict{Do: Wait, Headers: s.record(f.Letter, f.Attempt, f.At)}
}

// Fail publishes the message to the error exchange, with a record that says why.
func (s Sneakers) Fail(f Failure) Verdict {
	v := Verdict{Do: Move, Address: Address{Exchange: s.errorName(f.Queue)}, Key: f.Key}
	if !s.Document {
		v.Headers = infoOf(f)
		return v
	}
	if document := wrapError(f); document != nil {
		v.Body, v.ContentType = document, "application/json"
	}
	return v
}

// Open takes the message out of its document, or the record off the message.
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
