package admin

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"time"

	"github.com/rehop/rehop/internal/envelope"
	"github.com/rehop/rehop/internal/headerjson"
	"github.com/rehop/rehop/internal/rabbit"
	"github.com/rehop/rehop/layout"
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
	reader, _, err := a.read.OpenReader(ctx, from.source)
	if err != nil {
		return 0, queueError(err)
	}
	defer reader.Close()
	out := bufio.NewWriter(w)
	lines := json.NewEncoder(out)
	n := 0
	for {
		if err := ctx.Err(); err != nil {
			return n, errors.Join(err, out.Flush())
		}
		d, ok, err := reader.Next()
		if err != nil {
			return n, errors.Join(err, out.Flush())
		}
		if !ok {
			break
		}
		m := from.read(d)
		if !from.has(m) || !filter.accepts(m) {
			continue
		}
		if err := lines.Encode(recordOf(m)); err != nil {
			return n, fmt.Errorf("export message %s: %w", m.ID, err)
		}
		n++
	}
	return n, out.Flush()
}

// maxLine bounds a line of an import.
const maxLine = 1 << 30

// Import puts the messages of an export back into the failed queues that they came from. It stops at
// the first line that it cannot read or that the broker does not take. It returns how many messages, from the
// first on, are in their queues by then: without these lines the import can be run again. Of the next 64 some may
// be there too.
func (a *Admin) Import(ctx context.Context, r io.Reader) (int, error) {
	in := bufio.NewScanner(r)
	in.Buffer(make([]byte, 64<<10), maxLine)
	n, line := 0, 0
	ways := make(map[string]bool)
	var batch []rabbit.Item
	flush := func() error {
		var faults []error
		for i, err := range a.sender.PublishBatch(ctx, batch, true) {
			if err != nil {
				faults = append(faults, fmt.Errorf("import message %s into %q: %w", batch[i].Message.MessageId, batch[i].Key, err))
			} else if len(faults) == 0 {
				n++
			}
		}
		batch = batch[:0]
		return errors.Join(faults...)
	}
	for in.Scan() {
		line++
		if len(in.Bytes()) == 0 {
			continue
		}
		item, err := a.itemOf(ctx, in.Bytes(), ways)
		if err != nil {
			err = errors.Join(fmt.Errorf("import: line %d: %w", line, err), flush())
			return n, err
		}
		if batch = append(batch, item); len(batch) == batchSize {
			if err := flush(); err != nil {
				return n, err
			}
		}
	}
	if err := in.Err(); err != nil {
		err = errors.Join(fmt.Errorf("import: line %d: %w", line+1, err), flush())
		return n, err
	}
	err := flush()
	return n, err
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

// itemOf reads a line. ways are the queues for which what their messages need is there.
func (a *Admin) itemOf(ctx context.Context, line []byte, ways map[string]bool) (rabbit.Item, error) {
	var r record
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.UseNumber() // an int64 does not fit into a float64
	if err := decoder.Decode(&r); err != nil {
		return rabbit.Item{}, err
	}
	if r.Queue == "" {
		return rabbit.Item{}, errors.New(`it has no "queue"`)
	}
	headers, err := headerjson.Typed(r.Headers)
	if err != nil {
		return rabbit.Item{}, err
	}
	m := Message{
		ID: r.ID, Headers: headers, Body: r.Body, ContentType: r.ContentType, ContentEncoding: r.ContentEncoding,
		Priority: r.Priority, Timestamp: at(r.Timestamp), CorrelationID: r.CorrelationID, ReplyTo: r.ReplyTo, Type: r.Type, AppID: r.AppID,
	}
	f := envelope.Failure{
		Attempt: r.Attempts, Error: r.Error, Kind: r.Kind, Stack: r.Stack, FailedAt: at(r.FailedAt), FirstFailed: at(r.FirstFailed),
		Host: r.Host, Queue: r.Queue, Exchange: r.Exchange, Key: r.Key, Expiration: r.Expiration,
		Transient: r.Transient, Dropped: r.Dropped, Replays: r.Replays, Rests: true,
	}
	if shared(r.Queue) {
		return rabbit.Item{Key: r.Queue, Message: m.publishing(f)}, nil
	}
	if a.layout.KeepsKey() && !ways[r.Queue] {
		if err := a.wayBack(ctx, r.Queue); err != nil {
			return rabbit.Item{}, err
		}
		ways[r.Queue] = true
	}
	// It comes to rest as one that has just failed does.
	verdict := a.layout.Fail(layout.Failure{
		Letter: layout.Letter{Queue: r.Queue, ID: r.ID, Exchange: r.Exchange, Key: r.Key, Headers: headers, Body: r.Body, ContentType: r.ContentType,
			CorrelationID: r.CorrelationID, ReplyTo: r.ReplyTo, Type: r.Type, AppID: r.AppID},
		Attempt: r.Attempts, Kind: r.Kind, Error: r.Error, Stack: r.Stack, At: f.FailedAt,
	})
	maps.Copy(m.Headers, verdict.Headers)
	if verdict.Body != nil {
		m.Body, m.ContentType = verdict.Body, cmp.Or(verdict.ContentType, m.ContentType)
	}
	return rabbit.Item{Exchange: verdict.Address.Exchange, Key: verdict.Key, Message: m.publishing(f)}, nil
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
