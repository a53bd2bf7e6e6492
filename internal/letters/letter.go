package letters

import (
	"maps"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/rehop/rehop/internal/envelope"
)

// Letter is a message in an error queue.
type Letter struct {
	Source  string         // the error queue
	Headers map[string]any // never changed in place
	Body    []byte         // never changed in place

	ID, ContentType, ContentEncoding, CorrelationID, ReplyTo, Type, AppID string

	Priority  uint8
	Timestamp time.Time
}

// Names of programs in Record.By for which messages are published in their own way.
const (
	Rehop  = "rehop"
	Celery = "Celery"
)

// Record is what is known of the failure of a message.
type Record struct {
	By    string // whose record it is, as in "Spring"; "" if there is none
	ID    string // of the message, if it has it elsewhere than in its property
	Queue string // in which it failed; "" if that is not known
	// Exchange and Key are those with which it was first published, as far as that is known.
	Exchange, Key string
	// Published: Queue is not known, but Exchange and Key are, so the message can be published once more.
	Published bool

	Attempts    int
	Kind        string // see package envelope
	Error       string
	Stack       string
	Host        string
	Version     string
	FailedAt    time.Time
	FirstFailed time.Time
}

// reader reads the record of one kind of program. False: there is none, and the letter is unchanged.
type reader func(Letter) (Letter, Record, bool)

// readers are in the order in which they are tried. A program that moves messages leaves what others
// wrote, so those whose record is the most specific come first.
func readers() []reader {
	return []reader{readOwn, readEasyNetQ, readMassTransit, readNServiceBus, readSneakers, readSpring, readRascal, readDramatiq, readCelery, readDeaths}
}

// Read restores a message as it was before it failed: without the headers and counters that record the
// failure, and with its own body if that was wrapped. Any program can write headers and bodies. What does
// not have the form of a record gives a message without a record.
func Read(l Letter) (Letter, Record) {
	for _, read := range readers() {
		if opened, r, ok := read(l); ok && isShallow(opened.Headers, maxDepth) {
			opened.Headers = envelope.Clean(opened.Headers)
			return opened, r.plausible()
		}
	}
	l.Headers = envelope.Clean(l.Headers)
	return l, Record{}
}

const (
	// maxDepth is how deep the tables of a header may be nested. Brokers close the connection of whoever sends deeper ones, which a document can have.
	maxDepth = 16
	// maxName is how long names and keys can be in AMQP.
	maxName = 255
	// maxStack limits a stack trace: it is shown to people, and kept for each message of a list.
	maxStack = 32 << 10
)

// plausible is a record without what cannot be true.
func (r Record) plausible() Record {
	r.ID = visible(r.ID)
	r.Queue, r.Host, r.Version = visible(r.Queue), visible(r.Host), visible(r.Version)
	if visible(r.Exchange) != r.Exchange || len(r.Key) > maxName {
		r.Exchange, r.Key, r.Published = "", "", false
	}
	r.Error, r.Stack = envelope.Bounded(r.Error, envelope.MaxErrorText), envelope.Bounded(r.Stack, maxStack)
	r.Attempts = min(max(r.Attempts, 0), maxAttempts)
	r.FailedAt, r.FirstFailed = written(r.FailedAt), written(r.FirstFailed)
	if r.FirstFailed.IsZero() {
		r.FirstFailed = r.FailedAt
	}
	return r
}

// written is a time that JSON has a form for, or zero.
func written(t time.Time) time.Time {
	if year := t.UTC().Year(); year < 1 || year > 9999 {
		return time.Time{}
	}
	return t
}

// visible is a name, or "" if nothing can have that name.
func visible(name string) string {
	if len(name) > maxName || !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl) {
		return ""
	}
	return name
}

// isShallow reports whether a value is nested at most this number of levels deep.
func isShallow(v any, levels int) bool {
	if levels < 0 {
		return false
	}
	switch v := v.(type) {
	case map[string]any:
		for _, e := range v {
			if !isShallow(e, levels-1) {
				return false
			}
		}
	case []any:
		for _, e := range v {
			if !isShallow(e, levels-1) {
				return false
			}
		}
	}
	return true
}

// without are headers without those that drop chooses.
func without(headers map[string]any, drop func(name string) bool) map[string]any {
	kept := maps.Clone(headers)
	maps.DeleteFunc(kept, func(name string, _ any) bool { return drop(name) })
	return kept
}

// failure is an error as text: its type and its message.
func failure(typ, message string) string {
	switch {
	case typ == "":
		return message
	case message == "":
		return typ
	}
	return typ + ": " + message
}

// firstLine is the first line of a text, and lastLine the last one that is not empty.
func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return strings.TrimSpace(line)
}

func lastLine(text string) string {
	text = strings.TrimRight(text, " \t\r\n")
	return strings.TrimSpace(text[strings.LastIndexByte(text, '\n')+1:])
}

// moment reads a time in the form of RFC 3339, as .NET writes it, too.
func moment(text string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return time.Time{}
	}
	return t
}
