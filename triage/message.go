package triage

import (
	"fmt"
	"strings"
	"time"

	"github.com/rehop/rehop/admin"
)

// State is what happened to a failed message.
type State string

// The states of a message.
const (
	Failed    State = "failed"    // it is in its failed queue
	Kept      State = "kept"      // it was moved from its failed queue into the store
	Replayed  State = "replayed"  // it was returned to its queue, and its outcome is not known yet
	Succeeded State = "succeeded" // it was handled after a replay
	Discarded State = "discarded" // an operator discarded it
	Gone      State = "gone"      // it is not in its failed queue any more, and the index does not know why
)

// states are all states, in the order of their numbers in the database.
var states = [...]State{Failed, Kept, Replayed, Succeeded, Discarded, Gone}

// isOver reports whether a message is deleted after its retention. It is a message that was replayed, too: its subscriber may report no outcomes.
func (s State) isOver() bool { return s != Failed && s != Kept }

// number is the state in the database, or -1.
func (s State) number() int {
	for n, known := range states {
		if s == known {
			return n
		}
	}
	return -1
}

// Message is a failed message. The fields from Ref on are set by the store, which ignores them in messages that it receives.
type Message struct {
	ID          string // as its publisher has set it; it may be empty, and two messages can have the same
	Queue       string // in which it failed; empty if it is not known
	FailedQueue string // in which it was found
	Exchange    string // to which it was first published
	Key         string
	Headers     map[string]any // without the headers of rehop and of the broker
	Body        []byte

	ContentType     string
	ContentEncoding string
	Priority        uint8
	Timestamp       time.Time
	CorrelationID   string
	ReplyTo         string
	Type            string
	AppID           string

	Kind        string // why it failed: error, timeout, panic and so on
	Error       string // of the last attempt
	Stack       string // of the panic, if the handler panicked
	Attempts    int    // how many attempts have failed
	Replays     int    // how often it was replayed
	FailedAt    time.Time
	FirstFailed time.Time
	Host        string // on which the last handler ran
	Version     string // of the program whose handler failed, if it is known

	Ref     string    // names the message in the index, also if it has no ID
	State   State     // what happened to it
	Group   string    // the ID of its group
	Run     string    // the run that changed its state last, if any
	Changed time.Time // when its state changed last
	Size    int       // of the body, in bytes; lists have the size and no body
	Partial bool      // it has more words and values than the index holds, so that a search may not find it
}

// FromFailed returns a message that package admin has read from a failed queue, for the index.
func FromFailed(failedQueue string, m admin.Message) Message {
	return Message{
		ID: m.ID, Queue: nameOf(m.Queue), FailedQueue: failedQueue, Exchange: nameOf(m.Exchange), Key: nameOf(m.Key), Headers: m.Headers, Body: m.Body,
		ContentType: m.ContentType, ContentEncoding: m.ContentEncoding, Priority: m.Priority, Timestamp: m.Timestamp,
		CorrelationID: m.CorrelationID, ReplyTo: m.ReplyTo, Type: m.Type, AppID: m.AppID,
		Kind: nameOf(string(m.Kind)), Error: m.Error, Stack: m.Stack, Attempts: m.Attempts, Replays: m.Replays,
		FailedAt: m.FailedAt, FirstFailed: m.FirstFailed, Host: m.Host, Version: m.Version,
	}
}

// maxName is the longest name that AMQP can carry.
const maxName = 255

// nameOf is a name that a header records. A header can have a longer text than a name of AMQP, and one message with such a header must not keep
// all others of its queue out of the index.
func nameOf(recorded string) string {
	if len(recorded) <= maxName {
		return recorded
	}
	return shorten(recorded, maxName-len("…"))
}

// check returns an error for a message that cannot come from a broker.
func (m *Message) check() error {
	for _, name := range []struct{ what, text string }{
		{"id", m.ID}, {"queue", m.Queue}, {"failed queue", m.FailedQueue}, {"exchange", m.Exchange}, {"routing key", m.Key}, {"kind", m.Kind},
	} {
		if len(name.text) > maxName {
			return fmt.Errorf("message %q: its %s has %d bytes, at most %d are possible", shorten(m.ID, 60), name.what, len(name.text), maxName)
		}
	}
	if m.FailedQueue == "" {
		return fmt.Errorf("message %q: its failed queue is empty; set FailedQueue to the queue in which it was found", m.ID)
	}
	return nil
}

// shorten returns the beginning of a text.
func shorten(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return text[:limit] + "…"
}

// isShortened reports whether a text is what shorten returns for a longer one.
func isShortened(text string, limit int) bool {
	return len(text) == limit+len("…") && strings.HasSuffix(text, "…")
}

// maxMoment is the latest time that the index can hold, in milliseconds: in the year 2109.
const maxMoment = 1<<42 - 1

// moment is a time in the precision of the index, milliseconds since 1970. Times that it cannot hold become the nearest one that it can.
func moment(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return min(max(t.UnixMilli(), 1), maxMoment)
}

// failedAt is the time by which the index orders a message: that of its failure, or else the nearest that is known. Programs that do not use
// rehop often record none.
func (m *Message) failedAt() time.Time {
	for _, t := range []time.Time{m.FailedAt, m.FirstFailed, m.Timestamp} {
		if !t.IsZero() {
			return t
		}
	}
	return time.Time{}
}
