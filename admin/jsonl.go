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
	Expiration      string         `json:"expiration,omitempty"`
	Transient       bool           `json:"transient,omitempty"`
	Dropped         string         `json:"dropped_headers,omitempty"`
	Replays         int            `json:"replays,omitempty"`
	// Bytes has the fields that are not UTF-8, by name. JSON cannot represent them as strings.
	Bytes map[string][]byte `json:"bytes,omitempty"` // base64
}

// texts are the fields that a publisher may fill with any bytes.
func (r *record) texts() map[string]*string {
	return map[string]*string{"id": &r.ID, "key": &r.Key, "content_type": &r.ContentType, "content_encoding": &r.ContentEncoding,
		"correlation_id": &r.CorrelationID, "reply_to": &r.ReplyTo, "type": &r.Type, "app_id": &r.AppID, "expiration": &r.Expiration}
}

// keepBytes fills Bytes.
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
	out := bufio.NewWriter(w)
	lines := json.NewEncoder(out)
	_, err = a.each(ctx, from, 0, filter, func(m Message) (bool, error) {
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
		ContentType: m.ContentType, ContentEncoding: m.ContentEncoding, Priority: m.Priority, Timestamp: m.Timestamp,
		CorrelationID: m.CorrelationID, ReplyTo: m.ReplyTo, Type: m.Type, AppID: m.AppID,
		Attempts: m.Attempts, Error: m.Error, Kind: string(m.Kind), Stack: m.Stack, FailedAt: m.FailedAt,
		FirstFailed: m.FirstFailed, Host: m.Host, Expiration: m.failure.Expiration,
		Transient: m.failure.Transient, Dropped: m.failure.Dropped, Replays: m.Replays,
	}
}
