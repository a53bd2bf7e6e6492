package admin

import (
	"strings"
	"time"

	"github.com/rehop/rehop/internal/envelope"
	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/internal/rabbit"
)

// Message is a message that rests in a failed queue, or waits.
type Message struct {
	ID       string
	Queue    string // the queue that failed it, and to which it is replayed
	Exchange string // where it was first published to
	Key      string
	Headers  map[string]any // without those of rehop and the broker
	Body     []byte

	ContentType     string
	ContentEncoding string
	Priority        uint8
	Timestamp       time.Time
	CorrelationID   string
	ReplyTo         string
	Type            string
	AppID           string

	Attempts    int       // how often a handler has failed it
	Error       string    // why, the last time
	Kind        string    // error, permanent, decode, timeout, panic, crash, dead (by the broker), unrouted
	Stack       string    // where the handler panicked
	FailedAt    time.Time // when, the last time
	FirstFailed time.Time
	Due         time.Time // while it waits: when it is tried again
	Host        string    // where the last handler ran
	Replays     int       // how often it has been replayed

	failure envelope.Failure
	// when is when it failed, as far as anything says so: rehop's record, else the broker's newest dead-lettering, else when it was published.
	when time.Time
}

// place is a queue in which messages rest or wait.
type place struct {
	layout layouts.Layout
	source string // the queue
	owner  string // whose messages are looked for; "": everybody's
	common bool   // several queues have it in common
	open   bool   // what rests is taken out of what the layout wraps it in
}

// placeOf is where failed messages of a queue rest; the orphans, the unrouted, those that a repair has recovered and a queue that all share
// are named by themselves.
func (a *Admin) placeOf(queue string) (place, error) {
	if shared(queue) {
		return place{layout: layouts.Native{}, source: queue, open: true}, nil
	}
	of, err := a.layouts.known(queue)
	if err != nil {
		return place{}, err
	}
	p := place{layout: of, source: of.FailedQueue(queue), owner: queue, open: true}
	p.common = isCommon(of, queue) || a.layouts.sharesFailed(queue, p.source)
	if p.source == queue {
		p.owner = ""
	}
	return p, nil
}

func shared(queue string) bool {
	return queue == layouts.OrphansQueue || queue == layouts.UnroutedQueue || layouts.IsRecoveredQueue(queue)
}

// has reports whether a message belongs to whom the place is looked at for.
func (p place) has(m Message) bool { return !p.common || p.owner == "" || m.Queue == p.owner }

// isCopy reports whether a message belongs to another queue, which has its own of it: it can be discarded here, and
// is not replayed from here. There are such where a layout's own programs put a failed message to rest for all
// subscribers of its key.
func (p place) isCopy(m Message) bool {
	return !p.common && p.owner != "" && m.Queue != "" && m.Queue != p.owner && p.layout.KeepsKey()
}

func (p place) read(d rabbit.Message) Message {
	exchange, key := p.origin(d)
	l := layouts.Message{
		Queue: p.owner, ID: d.MessageId, Exchange: exchange, Key: key, Headers: rabbit.FromTable(d.Headers), Body: d.Body,
		ContentType: d.ContentType, CorrelationID: d.CorrelationId, ReplyTo: d.ReplyTo, Type: d.Type, AppID: d.AppId,
	}
	var f envelope.Failure
	switch {
	case p.source == layouts.UnroutedQueue || p.source == layouts.OrphansQueue:
		f = astray(l, p.source)
	case p.open:
		l, f = p.layout.Open(l)
	default:
		f = envelope.Read(l.Headers, l.Exchange, l.Key)
	}
	f = byLibrary(f, l.Headers)
	// It may have died while its queue was migrated.
	if f.Queue == layouts.MovingQueue(p.owner) {
		f.Queue = p.owner
	}
	if f.Queue = layouts.Moved(f.Queue); shared(f.Queue) {
		f.Queue = "" // where it was kept is not where it belongs
	}
	f.Transient = f.Transient || d.DeliveryMode == rabbit.Transient
	return Message{
		ID: l.ID, Queue: f.Queue, Exchange: f.Exchange, Key: f.Key, Headers: envelope.Clean(l.Headers), Body: l.Body,
		ContentType: l.ContentType, ContentEncoding: d.ContentEncoding, Priority: d.Priority, Timestamp: d.Timestamp,
		CorrelationID: l.CorrelationID, ReplyTo: l.ReplyTo, Type: l.Type, AppID: l.AppID,
		Attempts: f.Attempt, Error: f.Error, Kind: f.Kind, Stack: f.Stack, FailedAt: f.FailedAt, FirstFailed: f.FirstFailed,
		Due: f.Due, Host: f.Host, Replays: f.Replays, failure: f, when: whenFailed(f, l.Headers, d.Timestamp),
	}
}

// astray is what is known of a message that found no queue. That it has waited in queues of rehop's own, from which the broker dead-letters it, is no failure:
// rehop's record holds, and if there is none, the message was published and has not been handled yet.
func astray(l layouts.Message, source string) envelope.Failure {
	died := envelope.LastDeath(l.Headers)
	waited := layouts.IsWaitQueue(died) || layouts.IsLandingQueue(died) && (envelope.Written(l.Headers) || l.Headers[layouts.HeaderTo] != nil)
	if died != "" && !waited {
		return envelope.ReadDead(l.Headers, l.Exchange, l.Key)
	}
	f := envelope.Read(l.Headers, l.Exchange, l.Key)
	if f.FailedAt.IsZero() {
		f.FailedAt = envelope.LatestDeath(l.Headers)
	}
	if l.Headers[layouts.HeaderTo] == layouts.ToQueue && f.Queue == "" {
		f.Queue = l.Key // it was delayed, and its key is the name of the queue that it was to come to
	}
	switch {
	case f.Kind != "":
	case source == layouts.UnroutedQueue:
		f.Kind, f.Error = envelope.KindUnrouted, "no queue was bound for it"
	default:
		f.Kind, f.Error = envelope.KindUnrouted, "its queue did not exist when its delay was over"
	}
	return f
}

// whenFailed is when a message failed, as far as anything says so. What other programs failed often has no time of its own: it failed after the
// broker last dead-lettered it, and after it was published.
func whenFailed(f envelope.Failure, headers map[string]any, published time.Time) time.Time {
	if !f.FailedAt.IsZero() {
		return f.FailedAt
	}
	if died := envelope.LatestDeath(headers); !died.IsZero() {
		return died
	}
	return published
}

// publishing is the message with a failure's record in its headers.
func (m Message) publishing(f envelope.Failure) *rabbit.Publishing {
	headers := make(map[string]any, len(m.Headers)+8)
	for name, value := range m.Headers {
		headers[name] = value
	}
	if cc, ok := headers["CC"]; ok { // left in place it would lead copies to other queues
		f.CC = cc
		delete(headers, "CC")
	}
	delete(headers, "BCC") // the broker takes it out of every message, so only what was written by hand has it
	f.Write(headers)
	id := m.ID
	if id == "" {
		id = rabbit.NewID()
	}
	return &rabbit.Publishing{
		MessageId: id, Headers: rabbit.ToTable(headers), Body: m.Body, ContentType: m.ContentType,
		ContentEncoding: m.ContentEncoding, DeliveryMode: rabbit.Persistent, Priority: m.Priority, Timestamp: m.Timestamp,
		CorrelationId: m.CorrelationID, ReplyTo: m.ReplyTo, Type: m.Type, AppId: m.AppID,
	}
}

// Filter chooses messages. A message must meet everything that is set.
//
// Since and Before use the time of the last failure. Where a message has none, because another program failed it, they use the time of its newest
// dead-lettering by the broker, and then the time at which it was published. A message that has none of these never meets them. RabbitMQ writes down
// when a message first died in a queue for a reason, and not when it did so again: such a message can have failed later than Before says.
type Filter struct {
	IDs    []string          // one of these ids
	Kinds  []string          // one of these kinds of failure
	Text   string            // contained in the error's text, whatever the case
	Key    string            // the routing key; a * at the end stands for anything
	Since  time.Time         // failed at this time or later
	Before time.Time         // failed before this time
	Header map[string]string // headers with these values, written as text

	until time.Time // what is known to have failed later was not counted
}

func (f Filter) isEmpty() bool {
	return len(f.IDs) == 0 && len(f.Kinds) == 0 && f.Text == "" && f.Key == "" && f.Since.IsZero() && f.Before.IsZero() && len(f.Header) == 0 && f.until.IsZero()
}

func (f Filter) accepts(m Message) bool {
	switch {
	case len(f.IDs) > 0 && !contains(f.IDs, m.ID),
		len(f.Kinds) > 0 && !contains(f.Kinds, m.Kind),
		f.Text != "" && !strings.Contains(strings.ToLower(m.Error), strings.ToLower(f.Text)),
		f.Key != "" && !keyMatches(f.Key, m.Key),
		!f.Since.IsZero() && m.when.Before(f.Since),
		!f.Before.IsZero() && (m.when.IsZero() || !m.when.Before(f.Before)), // what is not known to be old is not
		!f.until.IsZero() && m.when.After(f.until):
		return false
	}
	for name, want := range f.Header {
		if have, ok := m.Headers[name]; !ok || headerText(have) != want {
			return false
		}
	}
	return true
}

func keyMatches(pattern, key string) bool {
	if head, open := strings.CutSuffix(pattern, "*"); open {
		return strings.HasPrefix(key, head)
	}
	return pattern == key
}
