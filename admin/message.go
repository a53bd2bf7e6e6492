package admin

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/internal/envelope"
	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/internal/letters"
	"github.com/rehop/rehop/internal/rabbit"
)

// Message is a message in a failed queue, or one that Watch has seen.
type Message struct {
	ID       string
	Queue    string // in which it failed, and to which it is replayed; empty if it is not known
	Exchange string // to which it was first published
	Key      string
	Headers  map[string]any // without the headers of rehop and of the broker
	Body     []byte

	ContentType     string
	ContentEncoding string
	Priority        uint8
	Timestamp       time.Time
	CorrelationID   string
	ReplyTo         string
	Type            string
	AppID           string

	Attempts    int        // how many attempts have failed
	Error       string     // of the last attempt
	Kind        rehop.Kind // why it failed
	Stack       string     // of the panic, if the handler panicked
	FailedAt    time.Time  // time of the last failure
	FirstFailed time.Time  // time of the first failure
	Due         time.Time  // time of the next attempt, while it waits
	Host        string     // on which the last handler ran
	Version     string     // of the program of that handler
	Replays     int        // how often it was replayed

	// RecordedBy names the program or library whose record of the failure was found in an ErrorQueue: rehop, RabbitMQ (x-death), Spring,
	// MassTransit, NServiceBus, EasyNetQ, rascal, Sneakers, dramatiq or Celery. It is empty if there is none, and for other queues.
	RecordedBy string

	failure   envelope.Failure
	anonymous bool            // it has no id of its own
	published bool            // of an error queue: Exchange and Key are known, and Queue is not
	letter    *rabbit.Message // the message in an error queue, unchanged
	// when it failed, as far as is known. Other programs often record no time: then it failed after the broker last dead-lettered it, and after it was
	// published.
	when time.Time
}

// place is a queue with failed messages, or a delay queue.
type place struct {
	layout layouts.Layout
	source string // the queue
	owner  string // the queue whose messages are wanted; "": those of all queues
	common bool   // several queues share it
	open   bool   // messages are unwrapped, for layouts that wrap failed messages
	// letters: it is an error queue, whose messages have records of other programs.
	letters bool
}

// placeOf is the failed queue of a queue. Shared queues (orphans, unrouted, recovered, a common failed queue) are their own place.
func (a *Admin) placeOf(queue string) (place, error) {
	if shared(queue) {
		return place{layout: layouts.Native{}, source: queue, open: true}, nil
	}
	if of, ok := a.layouts.failedOfSeveral(queue); ok {
		return place{layout: of, source: queue, common: true, open: true}, nil
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

// has reports whether a message is one of those that are wanted.
func (p place) has(m Message) bool { return !p.common || p.owner == "" || m.Queue == p.owner }

// isCopy reports whether a message belongs to another queue, which has its own copy. It can be discarded from here, but is not replayed. Such copies
// exist where the programs of a layout send a failed message to the failed queues of all subscribers of its key.
func (p place) isCopy(m Message) bool {
	return !p.common && p.owner != "" && m.Queue != "" && m.Queue != p.owner && p.layout.KeepsKey()
}

func (p place) read(d rabbit.Message) Message {
	if p.letters {
		return readLetter(d, p)
	}
	l := layouts.Message{
		Queue: p.owner, ID: d.MessageId, Headers: rabbit.FromTable(d.Headers), Body: d.Body,
		ContentType: d.ContentType, CorrelationID: d.CorrelationId, ReplyTo: d.ReplyTo, Type: d.Type, AppID: d.AppId,
	}
	l.Exchange, l.Key = p.origin(d)
	var f envelope.Failure
	switch {
	case p.source == layouts.UnroutedQueue || p.source == layouts.OrphansQueue:
		f = astray(l, p.source)
	case p.open:
		l, f = p.layout.Open(l)
	default:
		f = envelope.Read(l.Headers, l.Exchange, l.Key)
	}
	f = letters.Rejected(f, l.Headers)
	// It may have been dead-lettered while its queue was migrated.
	if f.Queue == layouts.MigratingQueue(p.owner) {
		f.Queue = p.owner
	}
	if f.Queue = layouts.Migrated(f.Queue); shared(f.Queue) {
		f.Queue = "" // where it was kept is not where it belongs
	}
	f.Transient = f.Transient || d.DeliveryMode == rabbit.Transient
	return Message{
		ID: l.ID, Queue: f.Queue, Exchange: f.Exchange, Key: f.Key, Headers: envelope.Clean(l.Headers), Body: l.Body,
		ContentType: l.ContentType, ContentEncoding: d.ContentEncoding, Priority: d.Priority, Timestamp: d.Timestamp,
		CorrelationID: l.CorrelationID, ReplyTo: l.ReplyTo, Type: l.Type, AppID: l.AppID,
		Attempts: f.Attempt, Error: f.Error, Kind: rehop.Kind(f.Kind), Stack: f.Stack, FailedAt: f.FailedAt, FirstFailed: f.FirstFailed,
		Due: f.Due, Host: f.Host, Version: f.Version, Replays: f.Replays, failure: f, when: cmp.Or(f.FailedAt, envelope.LatestDeath(l.Headers), d.Timestamp),
	}
}

// astray is what is known of a message that found no queue. The broker may have dead-lettered it from rehop's own delay queues, which is not a failure:
// then rehop's record counts. Without a record, the message was published and not handled yet.
func astray(l layouts.Message, source string) envelope.Failure {
	died := envelope.LastDeath(l.Headers)
	waited := layouts.IsWaitQueue(died) || layouts.IsLandingQueue(died) && (envelope.Written(l.Headers) || l.Headers[layouts.HeaderTo] != nil)
	if died != "" && !waited {
		return envelope.ReadDead(l.Headers, l.Exchange, l.Key)
	}
	f := envelope.Read(l.Headers, l.Exchange, l.Key)
	f.FailedAt = cmp.Or(f.FailedAt, envelope.LatestDeath(l.Headers))
	if l.Headers[layouts.HeaderTo] == layouts.ToQueue && f.Queue == "" {
		f.Queue = l.Key // it was a delayed message, and its key is the name of its queue
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

// publishing is the message with the record of a failure in its headers.
func (m Message) publishing(f envelope.Failure) *rabbit.Publishing {
	headers := make(map[string]any, len(m.Headers)+8)
	maps.Copy(headers, m.Headers)
	if cc, ok := headers["CC"]; ok { // the broker would send copies to other queues
		f.CC = cc
		delete(headers, "CC")
	}
	delete(headers, "BCC") // the broker removes it from every message, so an imported line has it
	f.Write(headers)
	return &rabbit.Publishing{
		MessageId: cmp.Or(m.ID, rabbit.NewID()), Headers: rabbit.ToTable(headers), Body: m.Body, ContentType: m.ContentType,
		ContentEncoding: m.ContentEncoding, DeliveryMode: rabbit.Persistent, Priority: m.Priority, Timestamp: m.Timestamp,
		CorrelationId: m.CorrelationID, ReplyTo: m.ReplyTo, Type: m.Type, AppId: m.AppID,
	}
}

// copyOf is a message as it was delivered, without headers. It gets an id if it has none, so that it can be distinguished from its copies.
func copyOf(d rabbit.Message) *rabbit.Publishing {
	return &rabbit.Publishing{
		MessageId: cmp.Or(d.MessageId, rabbit.NewID()), Body: d.Body, ContentType: d.ContentType, ContentEncoding: d.ContentEncoding,
		DeliveryMode: d.DeliveryMode, Priority: d.Priority, Timestamp: d.Timestamp, Expiration: d.Expiration,
		CorrelationId: d.CorrelationId, ReplyTo: d.ReplyTo, Type: d.Type, AppId: d.AppId, Headers: make(rabbit.Table, len(d.Headers)+4),
	}
}

// Filter chooses messages: those that match all fields that are set. The zero Filter matches every message.
//
// Since and Before use the time of the last failure. If a message has none, because another program failed it, they use the time of
// its newest dead-lettering, or else the time at which it was published. A message that has none of these never matches them.
// RabbitMQ records when a message was first dead-lettered from a queue for a reason, but not when that happened again: such a
// message can have failed later than Before.
type Filter struct {
	IDs    []string          // one of these ids
	Kinds  []rehop.Kind      // one of these kinds of failure
	Text   string            // is contained in the text of the error, in upper or lower case
	Key    string            // the routing key; a * at the end matches any rest
	Since  time.Time         // failed at this time or later
	Before time.Time         // failed before this time
	Header map[string]string // headers with these values, as text

	until time.Time // messages that failed later do not match; see UpTo
}

// UpTo is a filter for the messages that CountFailed has counted: messages that are known to have failed since then do not match it.
func (f Filter) UpTo(n Count) Filter {
	f.until = n.Latest
	return f
}

// isDistinct reports whether no other message is equal to it: only then one that is delivered again is surely the same.
func (m Message) isDistinct() bool { return m.ID != "" && !m.anonymous }

func (f Filter) isEmpty() bool {
	return len(f.IDs) == 0 && len(f.Kinds) == 0 && f.Text == "" && f.Key == "" && f.Since.IsZero() && f.Before.IsZero() && len(f.Header) == 0 && f.until.IsZero()
}

func (f Filter) accepts(m Message) bool {
	switch {
	case len(f.IDs) > 0 && !slices.Contains(f.IDs, m.ID),
		len(f.Kinds) > 0 && !slices.Contains(f.Kinds, m.Kind),
		f.Text != "" && !strings.Contains(strings.ToLower(m.Error), strings.ToLower(f.Text)),
		f.Key != "" && !keyMatches(f.Key, m.Key),
		!f.Since.IsZero() && m.when.Before(f.Since),
		!f.Before.IsZero() && (m.when.IsZero() || !m.when.Before(f.Before)), // a message of unknown age is not old
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

func headerText(v any) string {
	if b, ok := v.([]byte); ok {
		return string(b)
	}
	return fmt.Sprint(v)
}

func keyMatches(pattern, key string) bool {
	if head, open := strings.CutSuffix(pattern, "*"); open {
		return strings.HasPrefix(key, head)
	}
	return pattern == key
}
