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

// MaxLine bounds a line of an import.
const MaxLine = 1 << 30

// importGrace is how long an import that is interrupted waits for the broker's answer to what is under way.
const importGrace = 5 * time.Second

// Import puts the messages of an export back into the failed queues that they came from. It stops at
// the first line that it cannot read or that the broker does not take. It returns how many messages, from the
// first on, are in their queues by then: without these lines the import can be run again. When ctx ends, what is under way is
// finished, so that the number is exact. It is so too after a line that cannot be read; where the broker did not take one, of the next 63 some may
// be there too.
func (a *Admin) Import(ctx context.Context, r io.Reader) (int, error) {
	i := &importing{admin: a, ways: make(map[string]bool)}
	err := eachRecord(r, func(line int, r record) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		item, err := i.itemOf(ctx, r)
		if err != nil {
			return fmt.Errorf("line %d: %w", line, err)
		}
		if i.batch = append(i.batch, item); len(i.batch) < batchSize {
			return nil
		}
		return i.flush(ctx)
	})
	if ctx.Err() != nil {
		return i.done, errors.Join(err, ctx.Err()) // the rest of the batch was not sent
	}
	if len(i.batch) > 0 {
		err = errors.Join(err, i.flush(ctx))
	}
	if err != nil {
		err = fmt.Errorf("import: %w", err)
	}
	return i.done, err
}

// CheckImport reads what Import would, and returns how many messages there are, or what is wrong with the first line that Import would not take. It
// needs no broker, and so does not know whether the queues exist.
func CheckImport(r io.Reader) (int, error) {
	n := 0
	err := eachRecord(r, func(int, record) error {
		n++
		return nil
	})
	return n, err
}

// eachRecord reads lines until one is wrong, or do returns an error.
func eachRecord(r io.Reader, do func(line int, r record) error) error {
	in := bufio.NewScanner(r)
	in.Buffer(make([]byte, 64<<10), MaxLine)
	line := 0
	for in.Scan() {
		line++
		if len(in.Bytes()) == 0 {
			continue
		}
		record, err := readRecord(in.Bytes())
		if in.Err() != nil {
			break // the line was cut off
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", line, err)
		}
		if err := do(line, record); err != nil {
			return err
		}
	}
	if err := in.Err(); err != nil {
		return fmt.Errorf("line %d: %w", line+1, err)
	}
	return nil
}

// readRecord reads a line. A member that is not known is a mistake: what it was meant to say would be missing in the message.
func readRecord(line []byte) (record, error) {
	var r record
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.UseNumber() // an int64 does not fit into a float64
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&r); err != nil {
		return r, err
	}
	if decoder.More() {
		return r, errors.New("there is more than one value on the line")
	}
	if r.Queue == "" {
		return r, errors.New(`it has no "queue"`)
	}
	headers, err := headerjson.Typed(r.Headers)
	r.Headers = headers
	return r, err
}

// importing is a run of Import.
type importing struct {
	admin *Admin
	ways  map[string]bool // queues for which what their messages need is there
	batch []rabbit.Item
	done  int // messages, from the first on, that are in their queues
}

// flush publishes the batch. Once begun it is not called back.
func (i *importing) flush(ctx context.Context) error {
	longer, end := rabbit.Grace(ctx, importGrace)
	defer end()
	var faults []error
	for n, err := range i.admin.sender.PublishBatch(longer, i.batch, true) {
		if err != nil {
			faults = append(faults, fmt.Errorf("import message %s into %q: %w", i.batch[n].Message.MessageId, i.batch[n].Key, err))
		} else if len(faults) == 0 {
			i.done++
		}
	}
	i.batch = i.batch[:0]
	return errors.Join(faults...)
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

// itemOf is what a record becomes on the broker.
func (i *importing) itemOf(ctx context.Context, r record) (rabbit.Item, error) {
	a, headers := i.admin, r.Headers
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
	if a.layout.KeepsKey() && !i.ways[r.Queue] {
		if err := a.wayBack(ctx, r.Queue); err != nil {
			return rabbit.Item{}, err
		}
		i.ways[r.Queue] = true
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
