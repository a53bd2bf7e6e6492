package layout

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/rehop/rehop/internal/envelope"
	"github.com/rehop/rehop/internal/topology"
)

// Envelope is the layout in which messages carry their own record: a JSON object whose retry_count says how
// often it has failed and whose dead_reason says why it rests. For the queue order.main.q there are
// the exchanges order.main.x, order.retry.x and order.dead.x and the queues order.retry.q, from which
// messages return after 15 seconds, and order.dead.q.
//
// A fleet that uses it publishes a failed message without a confirm and without its properties, to
// a retry queue that returns everything with one routing key to every queue bound for it; and what
// it rejects goes round for ever. A rehop consumer writes the same record, keeps the properties,
// returns a message to its own queue alone, and counts rejections too.
type Envelope struct {
	rules
	// Name is what the names begin with. Default: the queue's name without .main.q or .q.
	Name string
	// Delay is the TTL of the retry queue, and the wait between attempts. Default: 15 s.
	Delay time.Duration
	// Retries is how often a message is tried again. Default: 5.
	Retries int
	// DeliveryLimit of the main queue, if the subscription makes that a quorum queue; it then dead-letters
	// to the dead exchange. Default: 8.
	DeliveryLimit int
	// RequireID: a message without an id is never handled. Default: it is.
	RequireID bool
}

// The members of the body that Envelope writes.
const (
	RetryCountMember = "retry_count"
	DeadReasonMember = "dead_reason"
)

var errNoID = errors.New("the message has no id, and duplicates of it could not be told from it")

func (e Envelope) base(queue string) string {
	if e.Name != "" {
		return e.Name
	}
	if base, ok := strings.CutSuffix(queue, ".main.q"); ok {
		return base
	}
	return strings.TrimSuffix(queue, ".q")
}

func (e Envelope) delay() time.Duration {
	if e.Delay == 0 {
		return 15 * time.Second
	}
	return e.Delay
}

func (e Envelope) spec(q QueueSpec) QueueSpec {
	q.Exchange = or(q.Exchange, e.base(q.Name)+".main.x")
	if len(q.Keys) == 0 {
		q.Keys = []string{e.base(q.Name) + ".created"}
	}
	return q
}

// Exchange is a topic exchange.
func (e Envelope) Exchange(name, kind string) topology.Plan { return plain(name, kind, "topic") }

// Queue dead-letters to the retry exchange; as a quorum queue, to the dead exchange.
func (e Envelope) Queue(q QueueSpec) topology.Queue {
	base := e.base(q.Name)
	if q.Type == Quorum {
		limit := e.DeliveryLimit
		if limit == 0 {
			limit = 8
		}
		return queueOf(q, topology.Args{"x-delivery-limit": int64(limit), "x-dead-letter-exchange": base + ".dead.x"})
	}
	return queueOf(q, topology.Args{"x-dead-letter-exchange": base + ".retry.x", "x-dead-letter-routing-key": base + ".retry"})
}

// Subscription is the queue, bound to the main exchange.
func (e Envelope) Subscription(q QueueSpec) topology.Plan { return feed(e, e.spec(q)) }

// Around is the retry and the dead exchange and queue.
func (e Envelope) Around(q QueueSpec) topology.Plan {
	q = e.spec(q)
	base := e.base(q.Name)
	return topology.Plan{
		Exchanges: []topology.Exchange{{Name: base + ".retry.x", Kind: "direct"}, {Name: base + ".dead.x", Kind: "fanout"}},
		Queues: []topology.Queue{
			{Name: base + ".retry.q", Args: topology.Args{"x-message-ttl": e.delay().Milliseconds(),
				"x-dead-letter-exchange": q.Exchange, "x-dead-letter-routing-key": q.Keys[0]}},
			{Name: base + ".dead.q"},
		},
		Bindings: []topology.Binding{
			{Source: base + ".retry.x", Destination: base + ".retry.q", Key: base + ".retry"},
			{Source: base + ".dead.x", Destination: base + ".dead.q"},
		},
	}
}

// FailedQueue is the dead queue.
func (e Envelope) FailedQueue(queue string) string { return e.base(queue) + ".dead.q" }

// Rests is true for a quorum queue, which dead-letters to the dead exchange.
func (e Envelope) Rests(q topology.Queue) bool {
	return q.Args["x-dead-letter-exchange"] == e.base(q.Name)+".dead.x"
}

// Delays are five waits.
func (e Envelope) Delays() []time.Duration {
	if e.Retries == 0 {
		return repeated(e.delay(), 5)
	}
	return repeated(e.delay(), e.Retries)
}

// Failures is what the body says, and how often the message was rejected since that was written.
func (e Envelope) Failures(l Letter) int {
	count := 0
	if value, ok := member(l.Body, RetryCountMember); ok {
		n, err := strconv.ParseFloat(string(value), 64)
		if err == nil && n > 0 {
			count = int(min(n, maxFailures))
		}
	}
	return count + deathsOf(l.Headers, func(queue, reason string) bool { return queue == l.Queue && reason == rejected })
}

// Check refuses a message without an id, if that is required.
func (e Envelope) Check(l Letter) error {
	if e.RequireID && l.ID == "" {
		return errNoID
	}
	return nil
}

// Retry lets the message wait, with its count in the body.
func (e Envelope) Retry(f Failure) Verdict {
	return Verdict{Do: Wait, Body: withMember(f.Body, RetryCountMember, strconv.AppendInt(nil, int64(f.Attempt), 10))}
}

// Fail moves the message to the dead exchange, with the reason in the body.
func (e Envelope) Fail(f Failure) Verdict {
	return Verdict{Do: Move, Address: Address{Exchange: e.base(f.Queue) + ".dead.x"},
		Body: withMember(f.Body, DeadReasonMember, strconv.AppendQuote(nil, deadReason(f)))}
}

// deadReason is a reason by the names that are used beside rehop, or the kind of the failure.
func deadReason(f Failure) string {
	switch f.Kind {
	case envelope.KindPermanent:
		if f.Error == errNoID.Error() {
			return "no_message_id"
		}
		return "business_rejected"
	case envelope.KindError, envelope.KindTimeout, envelope.KindPanic:
		return "retry_limit"
	}
	return f.Kind
}

// Open takes the record out of the body.
func (e Envelope) Open(l Letter) (Letter, envelope.Failure) {
	f := envelope.ReadDead(l.Headers, l.Exchange, l.Key)
	if f.Queue == "" { // somebody else published it here, with an empty key
		f.Queue, f.Exchange, f.Key = l.Queue, "", ""
		f.Attempt = 1 + e.Failures(l)
		f.Kind = envelope.KindError
		if reason, ok := member(l.Body, DeadReasonMember); ok {
			f.Error, _ = strconv.Unquote(string(reason))
			if f.Error == "business_rejected" {
				f.Kind = envelope.KindPermanent
			}
		}
	}
	l.Body = withoutMembers(l.Body, RetryCountMember, DeadReasonMember)
	return l, f
}
