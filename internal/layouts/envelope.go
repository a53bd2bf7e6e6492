package layouts

import (
	"cmp"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/rehop/rehop/internal/envelope"
	"github.com/rehop/rehop/internal/jsonobject"
	"github.com/rehop/rehop/layout"
	"github.com/rehop/rehop/topology"
)

// enveloped is the mechanics of [layout.Envelope].
type enveloped struct {
	rules
	layout.Envelope
}

func (e enveloped) Settings() layout.Layout { return e.Envelope }

// The members of the body that Envelope writes.
const (
	RetryCountMember = "retry_count"
	DeadReasonMember = "dead_reason"
)

// The reasons that Envelope writes for failed messages.
const (
	reasonRetries   = "retry_limit"
	reasonPermanent = "business_rejected"
	reasonNoID      = "no_message_id"
)

var errNoID = errors.New("the message has no id, so duplicates could not be recognised")

const (
	dotQueue      = ".q"
	dotMainQueue  = ".main.q"
	dotRetryQueue = ".retry.q"
)

func (e enveloped) base(queue string) string {
	if e.Name != "" {
		return e.Name
	}
	if base, ok := strings.CutSuffix(queue, dotMainQueue); ok {
		return base
	}
	return strings.TrimSuffix(queue, dotQueue)
}

func (e enveloped) retryQueue(base string) string    { return suffixed(base, dotRetryQueue) }
func (e enveloped) retryExchange(base string) string { return suffixed(base, ".retry.x") }
func (e enveloped) retryKey(base string) string      { return suffixed(base, ".retry") }
func (e enveloped) mainExchange(base string) string  { return suffixed(base, ".main.x") }
func (e enveloped) mainKey(base string) string       { return suffixed(base, ".created") }
func (e enveloped) deadExchange(base string) string  { return suffixed(base, ".dead.x") }
func (e enveloped) deadQueue(base string) string     { return suffixed(base, ".dead.q") }

func (e enveloped) delay() time.Duration { return cmp.Or(e.Delay, 15*time.Second) }

func (e enveloped) Validate() error {
	return errors.Join(CheckName("Envelope.Name", e.Name), checkDelay("Envelope.Delay", e.delay()),
		checkCount("Envelope.Retries", e.Retries, maxRetries), checkCount("Envelope.DeliveryLimit", e.DeliveryLimit, noDeliveryLimit))
}

func (e enveloped) spec(q QueueSpec) QueueSpec {
	base := e.base(q.Name)
	q.Exchange = cmp.Or(q.Exchange, e.mainExchange(base))
	if len(q.Keys) == 0 {
		q.Keys = []string{e.mainKey(base)}
	}
	return q
}

func (e enveloped) Exchange(name, typ string) topology.Plan { return plain(name, typ, "topic") }

// Queue dead-letters to the retry exchange; as a quorum queue, to the dead exchange.
func (e enveloped) Queue(q QueueSpec) topology.Queue {
	base := e.base(q.Name)
	if q.Type == layout.Quorum {
		return queueOf(q, topology.Args{"x-delivery-limit": int64(cmp.Or(e.DeliveryLimit, 8)), "x-dead-letter-exchange": e.deadExchange(base)})
	}
	return queueOf(q, topology.Args{"x-dead-letter-exchange": e.retryExchange(base), "x-dead-letter-routing-key": e.retryKey(base)})
}

func (e enveloped) Subscription(q QueueSpec) topology.Plan { return feed(e, e.spec(q)) }

func (e enveloped) RetryTopology(q QueueSpec) topology.Plan {
	q = e.spec(q)
	base := e.base(q.Name)
	return topology.Plan{
		Exchanges: []topology.Exchange{{Name: e.retryExchange(base), Type: "direct"}, {Name: e.deadExchange(base), Type: "fanout"}},
		Queues: []topology.Queue{
			{Name: e.retryQueue(base), Args: topology.Args{"x-message-ttl": e.delay().Milliseconds(),
				"x-dead-letter-exchange": q.Exchange, "x-dead-letter-routing-key": q.Keys[0]}},
			{Name: e.deadQueue(base)},
		},
		Bindings: []topology.Binding{
			{Source: e.retryExchange(base), Destination: e.retryQueue(base), Key: e.retryKey(base)},
			{Source: e.deadExchange(base), Destination: e.deadQueue(base)},
		},
	}
}

func (e enveloped) FailedQueue(queue string) string { return e.deadQueue(e.base(queue)) }

// DeadLettersToFailed is true for a quorum queue.
func (e enveloped) DeadLettersToFailed(q topology.Queue) bool {
	return q.Args["x-dead-letter-exchange"] == e.deadExchange(e.base(q.Name))
}

func (e enveloped) Delays() []time.Duration { return repeated(e.delay(), cmp.Or(e.Retries, 5)) }

// Failures is the count in the body, and how often the message was rejected since that was written.
func (e enveloped) Failures(l Message) int {
	rejections := deathsOf(l.Headers, func(d death) bool { return d.queue == l.Queue && d.reason == rejected })
	return min(retryCount(l.Body)+rejections, maxFailures)
}

func retryCount(body []byte) int {
	value, ok := jsonobject.Member(body, RetryCountMember)
	if !ok {
		return 0
	}
	n, err := strconv.ParseFloat(string(value), 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) { // it is no number
		return 0
	}
	return int(min(max(n, 0), maxFailures))
}

// Stray reports whether the message comes from the retry queue of another queue, which leads to all
// queues that are bound with the same key. The copy for this queue comes from its own retry queue.
//
// As in PubSub, it must have come directly from there.
func (e enveloped) Stray(l Message) bool {
	d, _ := newestDeath(l.Headers, "")
	base, retry := strings.CutSuffix(d.queue, dotRetryQueue)
	return retry && d.reason == expired && d.queue != e.retryQueue(e.base(l.Queue)) &&
		d.exchange == e.retryExchange(base) && d.key == e.retryKey(base) &&
		l.Exchange == e.mainExchange(base) && l.Key == e.mainKey(base)
}

func (e enveloped) Check(l Message) error {
	if e.RequireID && l.ID == "" {
		return errNoID
	}
	return nil
}

// Retry delays the message, with its count in the body.
func (e enveloped) Retry(f Failure) Verdict {
	return Verdict{Do: Wait, Body: e.written(f.Body, RetryCountMember, strconv.AppendInt(nil, int64(f.Attempt), 10))}
}

// Fail moves the message to the dead exchange, with the reason in the body.
func (e enveloped) Fail(f Failure) Verdict {
	v := Verdict{Do: Move, Address: Address{Exchange: e.deadExchange(e.base(f.Queue))}}
	if reason, err := json.Marshal(deadReason(f)); err == nil { // always, for text
		v.Body = e.written(f.Body, DeadReasonMember, reason)
	}
	return v
}

// written is a body with a member set, or nil if it stays unchanged.
func (e enveloped) written(body []byte, name string, value []byte) []byte {
	if !mayGrow(len(body), len(body)+len(name)+len(value)+len(`,"":`)) {
		return nil
	}
	return jsonobject.With(body, name, value)
}

// mayGrow reports whether a broker that accepted a body of a size accepts one of another.
func mayGrow(size, grown int) bool {
	for _, limit := range [...]int{16 << 20, 128 << 20} { // defaults of RabbitMQ 4 and 3
		if size <= limit && grown > limit {
			return false
		}
	}
	return true
}

// deadReason is a reason by the names that other programs use, or the kind of the failure.
func deadReason(f Failure) string {
	switch f.Kind {
	case envelope.KindPermanent:
		if f.Error == errNoID.Error() {
			return reasonNoID
		}
		return reasonPermanent
	case envelope.KindError, envelope.KindTimeout, envelope.KindPanic:
		return reasonRetries
	}
	return f.Kind
}

// Open removes the record from the body.
func (e enveloped) Open(l Message) (Message, envelope.Failure) {
	f := envelope.ReadDead(l.Headers, l.Exchange, l.Key)
	switch f.Queue {
	case "", e.retryQueue(e.base(l.Queue)): // another program published it here, with an empty key
		// The retry queue returns all messages with this key, so consumers know it.
		base := e.base(l.Queue)
		f = envelope.Failure{Queue: l.Queue, Exchange: e.mainExchange(base), Key: e.mainKey(base), Attempt: 1 + e.Failures(l), Kind: envelope.KindError}
		if reason, ok := jsonobject.Member(l.Body, DeadReasonMember); ok {
			f.Error = envelope.Bounded(textOf(reason), envelope.MaxErrorText)
		}
		if f.Error == reasonPermanent || f.Error == reasonNoID {
			f.Kind = envelope.KindPermanent
		}
	}
	l.Body = jsonobject.Without(l.Body, RetryCountMember, DeadReasonMember)
	return l, f
}

// textOf is a JSON string as text, and any other JSON value unchanged.
func textOf(value []byte) string {
	var text string
	if json.Unmarshal(value, &text) == nil {
		return text
	}
	return string(value)
}
