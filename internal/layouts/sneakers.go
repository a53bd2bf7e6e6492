package layouts

import (
	"cmp"
	"errors"
	"time"

	"github.com/rehop/rehop/internal/envelope"
	"github.com/rehop/rehop/layout"
	"github.com/rehop/rehop/topology"
)

// sneakers is the mechanics of [layout.Sneakers].
type sneakers struct {
	rules
	layout.Sneakers
}

func (s sneakers) Settings() layout.Layout { return s.Sneakers }

// SneakersExchange is the exchange of Sneakers unless a subscription names another.
const SneakersExchange = "sneakers"

func (s sneakers) delay() time.Duration { return cmp.Or(s.Delay, time.Minute) }

func (s sneakers) retryName(queue string) string {
	return cmp.Or(s.RetryName, suffixed(queue, "-retry"))
}

func (s sneakers) errorName(queue string) string {
	return cmp.Or(s.ErrorName, suffixed(queue, "-error"))
}

func (s sneakers) requeueName(queue string) string {
	return cmp.Or(s.RequeueName, suffixed(queue, "-retry-requeue"))
}

func (s sneakers) Validate() error {
	faults := []error{checkDelay("Sneakers.Delay", s.delay()), checkCount("Sneakers.Retries", s.Retries, maxRetries)}
	named := make(map[string]string)
	for _, n := range []struct{ setting, name string }{
		{"Sneakers.RetryName", s.RetryName}, {"Sneakers.ErrorName", s.ErrorName}, {"Sneakers.RequeueName", s.RequeueName},
	} {
		if n.name == "" {
			continue
		}
		faults = append(faults, CheckName(n.setting, n.name))
		if other, twice := named[n.name]; twice {
			faults = append(faults, errors.New(other+" and "+n.setting+" must differ"))
		}
		named[n.name] = n.setting
	}
	return errors.Join(append(faults, checkArgs("Sneakers.RetryArgs", s.RetryArgs))...)
}

func (s sneakers) forms(q QueueSpec) []layout.Layout {
	if s.RetryArgs != nil {
		return []layout.Layout{s.Sneakers}
	}
	types := []any{s.Queue(q).Args[queueTypeArg], nil}
	if q.Passive { // its type is not known
		types = []any{nil, string(layout.Quorum), string(layout.Classic)}
	}
	var all []layout.Layout
	for i, t := range types {
		if i > 0 && t == types[0] {
			continue
		}
		form := s.Sneakers
		form.RetryArgs = map[string]any{}
		if t != nil {
			form.RetryArgs[queueTypeArg] = t
		}
		all = append(all, form)
	}
	return all
}

const queueTypeArg = "x-queue-type"

// retryArgs are the arguments of the retry and the error queue, with further ones.
func (s sneakers) retryArgs(q QueueSpec, args topology.Args) topology.Args {
	if s.RetryArgs != nil {
		return override(s.RetryArgs, args)
	}
	own := topology.Args{}
	if t, ok := s.Queue(q).Args[queueTypeArg]; ok {
		own[queueTypeArg] = t
	}
	return override(own, args)
}

func (s sneakers) Exchange(name, typ string) topology.Plan { return plain(name, typ, "direct") }

// Queue dead-letters to its retry exchange.
func (s sneakers) Queue(q QueueSpec) topology.Queue {
	return queueOf(q, topology.Args{"x-dead-letter-exchange": s.retryName(q.Name)})
}

// Subscription is the queue, bound to its exchange by its own name, and to the requeue exchange.
func (s sneakers) Subscription(q QueueSpec) topology.Plan {
	q.Exchange = cmp.Or(q.Exchange, SneakersExchange)
	plan := feed(s, q, q.Name)
	plan.Bindings = append(plan.Bindings, topology.Binding{Source: s.requeueName(q.Name), Destination: q.Name, Key: cmp.Or(s.RequeueKey, "#")})
	return plan
}

func (s sneakers) RetryTopology(q QueueSpec) topology.Plan {
	wait, fail, requeue := s.retryName(q.Name), s.errorName(q.Name), s.requeueName(q.Name)
	return topology.Plan{
		Exchanges: []topology.Exchange{{Name: wait, Type: "topic"}, {Name: fail, Type: "topic"}, {Name: requeue, Type: "topic"}},
		Queues: []topology.Queue{
			{Name: wait, Args: s.retryArgs(q, topology.Args{"x-dead-letter-exchange": requeue, "x-message-ttl": s.delay().Milliseconds()})},
			{Name: fail, Args: s.retryArgs(q, nil)},
		},
		Bindings: []topology.Binding{{Source: wait, Destination: wait, Key: "#"}, {Source: fail, Destination: fail, Key: "#"}},
	}
}

func (s sneakers) FailedQueue(queue string) string { return s.errorName(queue) }

func (s sneakers) Delays() []time.Duration { return repeated(s.delay(), cmp.Or(s.Retries, 5)) }

// Failures is how often the message was dead-lettered from its queue, for any reason.
func (s sneakers) Failures(l Message) int {
	return deathsOf(l.Headers, func(d death) bool { return d.queue == l.Queue })
}

// Origin is the exchange in the entry of the queue: the message came by the requeue exchange.
func (s sneakers) Origin(l Message) (exchange, key string) {
	if d, ok := newestDeath(l.Headers, l.Queue); ok {
		return d.exchange, l.Key
	}
	return l.Exchange, l.Key
}

// Record is the entry of the queue.
func (s sneakers) Record(l Message, failures int) map[string]any {
	return s.record(l, failures, time.Now())
}

func (s sneakers) record(l Message, failures int, at time.Time) map[string]any {
	return deathRecord(death{queue: l.Queue, reason: rejected, exchange: l.Exchange, key: l.Key, count: failures, at: at})
}

// Retry delays the message, or rejects it if Reject is set and the delay is that of the retry queue. A
// message that rehop has published is not rejected: RabbitMQ 4 would count from one again, and retry it
// without limit.
func (s sneakers) Retry(f Failure) Verdict {
	if s.Reject && f.Delay == s.delay() && !envelope.Written(f.Headers) {
		return Verdict{Do: Reject}
	}
	return Verdict{Do: Wait, Headers: s.record(f.Message, f.Attempt, f.At)}
}

// Fail publishes the message to the error exchange, with a record of the reason.
func (s sneakers) Fail(f Failure) Verdict {
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

// Open restores the message from its document, or removes the record from it.
func (s sneakers) Open(l Message) (Message, envelope.Failure) {
	f := envelope.Read(l.Headers, l.Exchange, l.Key)
	if f.Queue != "" { // rehop has moved it here, and has changed only the body and its type
		return unwrapOwn(l), f
	}
	if l.Exchange == s.errorName(l.Queue) {
		l.Exchange = "" // where it was published to is unknown
	}
	return unwrapError(l)
}
