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
	Timestamp       *time.Time     `json:"timestamp,omitempty"`
	CorrelationID   string         `json:"correlation_id,omitempty"`
	ReplyTo         string         `json:"reply_to,omitempty"`
	Type            string         `json:"type,omitempty"`
	AppID           string         `json:"app_id,omitempty"`
	Attempts        int            `json:"attempts"`
	Error           string         `json:"error,omitempty"`
	Kind            string         `json:"kind,omitempty"`
	Stack           string         `json:"stack,omitempty"`
	FailedAt        *time.Time     `json:"failed_at,omitempty"`
	FirstFailed     *time.Time     `json:"first_failed,omitempty"`
	Host            string         `json:"host,omitempty"`
	Expiration      string         `json:"expiration,omitempty"`
	Transient       bool           `json:"transient,omitempty"`
	Dropped         string         `json:"dropped_headers,omitempty"`
	Replays         int            `json:"replays,omitempty"`
	// Bytes has the members of the message that are not UTF-8, which JSON would change, by their names.
	Bytes map[string][]byte `json:"bytes,omitempty"` // base64
}

// texts are the members that a publisher may fill with any bytes.
func (r *record) texts() map[string]*string {
	return map[string]*string{"id": &r.ID, "key": &r.Key, "content_type": &r.ContentType, "content_encoding": &r.ContentEncoding,
		"correlation_id": &r.CorrelationID, "reply_to": &r.ReplyTo, "type": &r.Type, "app_id": &r.AppID, "expiration": &r.Expiration}
}

// keepBytes takes note of what JSON would change.
func (r *record) keepBytes() {
	for name, text := range r.texts() {
		if !utf8.ValidString(*text) {
			if r.Bytes == nil {
				r.Bytes = make(map[string][]byte)
			}
			r.Bytes[name] = []byte(*text)
		}
	}
}

// restoreBytes is the reverse.
func (r *record) restoreBytes() error {
	texts := r.texts()
	for name, bytes := range r.Bytes {
		text, known := texts[name]
		if !known {
			return fmt.Errorf("\"bytes\" has a member %q, which is none of a message's texts", name)
		}
		*text = string(bytes)
	}
	return nil
}

// Export writes the messages of the failed queue of queue as JSON lines, oldest first, and leaves
// them where they are. It returns how many it wrote.
func (a *Admin) Export(ctx context.Context, queue string, w io.Writer, filter Filter) (int, error) {
	from, err := a.placeOf(queue)
	if err != nil {
		return 0, err
	}
	out := bufio.NewWriter(w)
	lines := json.NewEncoder(out)
	n := 0
	err = a.each(ctx, from, 0, func(m Message) (bool, error) {
		if !from.has(m) || !filter.accepts(m) {
			return true, nil
		}
		line := recordOf(m)
		line.Queue = cmp.Or(line.Queue, queue) // as Replay does, so that it can be imported
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
		ContentType: m.ContentType, ContentEncoding: m.ContentEncoding, Priority: m.Priority, Timestamp: moment(m.Timestamp),
		CorrelationID: m.CorrelationID, ReplyTo: m.ReplyTo, Type: m.Type, AppID: m.AppID,
		Attempts: m.Attempts, Error: m.Error, Kind: m.Kind, Stack: m.Stack, FailedAt: moment(m.FailedAt),
		FirstFailed: moment(m.FirstFailed), Host: m.Host, Expiration: m.failure.Expiration,
		Transient: m.failure.Transient, Dropped: m.failure.Dropped, Replays: m.Replays,
	}
}

func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

func at(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}
