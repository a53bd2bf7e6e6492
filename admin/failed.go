package admin

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
	"unicode/utf8"

	"github.com/rehop/rehop/internal/headerjson"
)

// Failed returns up to limit messages from the failed queue of a queue, the oldest first, and leaves them there. queue may also be
// rehop.orphans, rehop.unrouted, or a queue that a repair of the embedded broker has created (rehop.recovered.<number>).
//
// In layouts in which all queues share a failed queue, only messages of queue are returned; to get all, pass the name of the shared
// queue. A message whose Queue is another one is a copy of a message in that queue's failed queue. It cannot be replayed from here.
func (a *Admin) Failed(ctx context.Context, queue string, limit int, filter Filter) ([]Message, error) {
	from, err := a.placeOf(queue)
	if err != nil {
		return nil, err
	}
	return a.peek(ctx, from, limit, filter)
}

// EachFailed is Failed for queues with many or large messages: it calls see with one message after the other, and keeps none of them
// in memory. A limit of 0 means all. If see returns an error, EachFailed ends and returns it. Other commands cannot read the failed
// queue meanwhile, so see must not wait for them.
func (a *Admin) EachFailed(ctx context.Context, queue string, limit int, filter Filter, see func(Message) error) error {
	from, err := a.placeOf(queue)
	if err != nil {
		return err
	}
	return a.visit(ctx, from, limit, filter, see)
}

// visit calls see for up to limit messages of a place, or for all if limit is 0.
func (a *Admin) visit(ctx context.Context, from place, limit int, filter Filter, see func(Message) error) error {
	ahead, seen := 0, 0
	if filter.isEmpty() && !from.common {
		ahead = limit
	}
	_, err := a.each(ctx, from, ahead, filter, func(m Message) (bool, error) {
		seen++
		return limit == 0 || seen < limit, see(m)
	})
	return err
}

func (a *Admin) peek(ctx context.Context, from place, limit int, filter Filter) (found []Message, err error) {
	if limit <= 0 {
		return nil, nil
	}
	err = a.visit(ctx, from, limit, filter, func(m Message) error {
		found = append(found, m)
		return nil
	})
	return found, err
}

// Count is how many failed messages there are, and when the latest of them failed.
type Count struct {
	Messages int
	// Latest is when the last of them failed, by the clock of the host that failed it; see Filter. It is zero if no time is known.
	Latest time.Time
	// Delayed is how many messages could not be counted because the queue delays them; see Admin.Delayed.
	Delayed int
}

// CountFailed counts the messages in the failed queue of a queue that match the filter, and leaves them there.
func (a *Admin) CountFailed(ctx context.Context, queue string, filter Filter) (n Count, err error) {
	from, err := a.placeOf(queue)
	if err != nil {
		return n, err
	}
	return a.count(ctx, from, filter)
}

func (a *Admin) count(ctx context.Context, from place, filter Filter) (n Count, err error) {
	n.Delayed, err = a.each(ctx, from, 0, filter, func(m Message) (bool, error) {
		n.Messages++
		if m.when.After(n.Latest) {
			n.Latest = m.when
		}
		return true, nil
	})
	return n, err
}

// Delayed returns how many messages in the failed queue of a queue are delayed because they were returned to it. Quorum queues of
// RabbitMQ 4.3 delay returned messages if an argument or a policy sets delayed-retry-type. Nobody receives such messages before the
// delay is over, so Failed, CountFailed, Export, Replay and Discard do not see them; and messages that these methods return to such
// a queue are delayed, too. The number comes from the management API, which this method needs, and is some seconds old.
func (a *Admin) Delayed(ctx context.Context, queue string) (int, error) {
	from, err := a.placeOf(queue)
	if err != nil {
		return 0, err
	}
	return a.delayed(ctx, from)
}

func (a *Admin) delayed(ctx context.Context, from place) (int, error) {
	asking, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	f, err := a.management.figures(asking, from.source)
	if missing(err) {
		return 0, fmt.Errorf("%w: %q", ErrNoQueue, from.source)
	}
	if err != nil {
		return 0, fmt.Errorf("look at queue %q: %w", from.source, err)
	}
	return f.Delayed, nil
}

// record is a line of an export.
type record struct {
	ID              string         `json:"id"`
	Queue           string         `json:"queue"`
	Exchange        string         `json:"exchange"`
	Key             string         `json:"key"`
	Headers         map[string]any `json:"headers,omitempty"`
	Body            []byte         `json:"body"` // base64
	ContentType     string         `json:"content_type,omitempty"`
	ContentEncoding string         `json:"content_encoding,omitempty"`
	Priority        uint8          `json:"priority,omitempty"`
	Timestamp       time.Time      `json:"timestamp,omitzero"`
	CorrelationID   string         `json:"correlation_id,omitempty"`
	ReplyTo         string         `json:"reply_to,omitempty"`
	Type            string         `json:"type,omitempty"`
	AppID           string         `json:"app_id,omitempty"`
	Attempts        int            `json:"attempts"`
	Error           string         `json:"error,omitempty"`
	Kind            string         `json:"kind,omitempty"`
	Stack           string         `json:"stack,omitempty"`
	FailedAt        time.Time      `json:"failed_at,omitzero"`
	FirstFailed     time.Time      `json:"first_failed,omitzero"`
	Host            string         `json:"host,omitempty"`
	Version         string         `json:"version,omitempty"`
	Expiration      string         `json:"expiration,omitempty"`
	Transient       bool           `json:"transient,omitempty"`
	Dropped         string         `json:"dropped_headers,omitempty"`
	Replays         int            `json:"replays,omitempty"`
	// From is the error queue of a message that is not in a failed queue of rehop. Then headers, body and properties are those that
	// it has there.
	From string `json:"from,omitempty"`
	// NoID: the message has no id of its own.
	NoID bool `json:"no_id,omitempty"`
	// RecordedBy is for people, and not imported.
	RecordedBy string `json:"recorded_by,omitempty"`
	// Bytes has the fields that are not UTF-8, by name. JSON cannot represent them as strings.
	Bytes map[string][]byte `json:"bytes,omitempty"` // base64
}

// texts are the fields that a publisher may fill with any bytes.
func (r *record) texts() map[string]*string {
	return map[string]*string{"id": &r.ID, "key": &r.Key, "content_type": &r.ContentType, "content_encoding": &r.ContentEncoding,
		"correlation_id": &r.CorrelationID, "reply_to": &r.ReplyTo, "type": &r.Type, "app_id": &r.AppID, "expiration": &r.Expiration}
}

// keepBytes fills Bytes, and removes times that JSON has no form for. Publishers can write any.
func (r *record) keepBytes() {
	for _, at := range []*time.Time{&r.Timestamp, &r.FailedAt, &r.FirstFailed} {
		if year := at.UTC().Year(); year < 1 || year > 9999 {
			*at = time.Time{}
		}
	}
	for name, text := range r.texts() {
		if !utf8.ValidString(*text) {
			if r.Bytes == nil {
				r.Bytes = make(map[string][]byte)
			}
			r.Bytes[name] = []byte(*text)
		}
	}
}

// restoreBytes sets the fields that are in Bytes.
func (r *record) restoreBytes() error {
	texts := r.texts()
	for name, bytes := range r.Bytes {
		text, known := texts[name]
		if !known {
			return fmt.Errorf("\"bytes\" has %q, which is not a text field of a message", name)
		}
		*text = string(bytes)
	}
	return nil
}

// Export writes the messages in the failed queue of a queue that match the filter as JSON lines, the oldest first, and leaves them
// there. It returns how many it wrote. Import reads the lines.
func (a *Admin) Export(ctx context.Context, queue string, w io.Writer, filter Filter) (n int, err error) {
	from, err := a.placeOf(queue)
	if err != nil {
		return 0, err
	}
	return a.export(ctx, from, w, filter, func(m Message) record { return failedRecord(queue, m) })
}

// failedRecord is the line of an export for a message in the failed queue of a queue. Like a replay it assumes that the message belongs to
// that queue if it does not name another one, so that it can be imported.
func failedRecord(queue string, m Message) record {
	r := recordOf(m)
	r.Queue = cmp.Or(r.Queue, queue)
	return r
}

// ExportLine returns the line of an Export for a message that was read from the failed queue of a queue, without the end of the line. Import
// reads it.
func (a *Admin) ExportLine(queue string, m Message) ([]byte, error) {
	return failedRecord(queue, m).line()
}

func (r record) line() ([]byte, error) {
	r.keepBytes()
	line, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("export message %s: %w", r.ID, err)
	}
	return line, nil
}

// export writes the messages of a place as lines.
func (a *Admin) export(ctx context.Context, from place, w io.Writer, filter Filter, lineOf func(Message) record) (n int, err error) {
	out := bufio.NewWriter(w)
	lines := json.NewEncoder(out)
	_, err = a.each(ctx, from, 0, filter, func(m Message) (bool, error) {
		line := lineOf(m)
		line.keepBytes()
		if err := lines.Encode(line); err != nil {
			return false, fmt.Errorf("export message %s: %w", m.ID, err)
		}
		n++
		return true, nil
	})
	return n, errors.Join(err, out.Flush())
}

func recordOf(m Message) record {
	return record{
		ID: m.ID, Queue: m.Queue, Exchange: m.Exchange, Key: m.Key, Headers: headerjson.Plain(m.Headers), Body: m.Body,
		ContentType: m.ContentType, ContentEncoding: m.ContentEncoding, Priority: m.Priority, Timestamp: m.Timestamp,
		CorrelationID: m.CorrelationID, ReplyTo: m.ReplyTo, Type: m.Type, AppID: m.AppID,
		Attempts: m.Attempts, Error: m.Error, Kind: string(m.Kind), Stack: m.Stack, FailedAt: m.FailedAt,
		FirstFailed: m.FirstFailed, Host: m.Host, Version: m.Version, Expiration: m.failure.Expiration,
		Transient: m.failure.Transient, Dropped: m.failure.Dropped, Replays: m.Replays, RecordedBy: m.RecordedBy,
	}
}
