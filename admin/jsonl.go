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
}

// Export writes the messages of the failed queue of queue as JSON lines, oldest first, and leaves
// them where they are. It returns how many it wrote.
func (a *Admin) Export(ctx context.Context, queue string, w io.Writer, filter Filter) (int, error) {
	from := a.placeOf(queue)
	out := bufio.NewWriter(w)
	lines := json.NewEncoder(out)
	n := 0
	err := a.each(ctx, from, 0, func(m Message) (bool, error) {
		if !from.has(m) || !filter.accepts(m) {
			return true, nil
		}
		line := recordOf(m)
		line.Queue = cmp.Or(line.Queue, queue) // as Replay does, so that it can be imported
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
