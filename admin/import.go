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
	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/internal/rabbit"
)

// MaxLine bounds a line of an import.
const MaxLine = 1 << 30

// importGrace is how long an import that is interrupted waits for the broker's answer to what is under way.
const importGrace = 5 * time.Second

// ImportError reports the lines at which an import has ended.
type ImportError struct {
	// Lines are those that were not taken.
	Lines []int
	// Tried is how many messages, from the first on, were tried. All but those on Lines are in their queues: without the first Tried
	// messages the import can be run again.
	Tried int

	err error
}

func (e *ImportError) Error() string { return e.err.Error() }
func (e *ImportError) Unwrap() error { return e.err }

// Import puts the messages of an export back into the failed queues that they came from. It stops at
// the first line that it cannot read or that the broker does not take, with an *ImportError. It returns how many messages, from the
// first on, are in their queues by then. When ctx ends, what is under way is finished, so that the number is exact. Only when the connection is lost is it
// not: of the next 64 messages some may be there too.
func (a *Admin) Import(ctx context.Context, r io.Reader) (int, error) {
	i := &importing{admin: a, ways: make(map[string]bool)}
	err := eachRecord(r, func(line int, r record) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		item, err := a.layoutItem(r)
		if err != nil {
			return &lineError{line, err}
		}
		var no *rabbit.DeclareError
		if err := i.wayBack(ctx, r.Queue); errors.As(err, &no) {
			return &lineError{line, err}
		} else if err != nil {
			return fmt.Errorf("line %d: %w", line, err)
		}
		if i.batch, i.lines = append(i.batch, item), append(i.lines, line); len(i.batch) < batchSize {
			return nil
		}
		return i.flush(ctx)
	})
	if ctx.Err() != nil {
		return i.done, errors.Join(errors.Join(i.faults...), err, ctx.Err()) // the rest of the batch was not sent
	}
	if len(i.batch) > 0 {
		err = errors.Join(err, i.flush(ctx))
	}
	return i.done, i.ended(err)
}

// CheckImport reads what Import would, and returns how many messages there are, or what is wrong with the first line that Import would not take. Of
// the configuration it uses Layout and Layouts. It needs no broker, and so does not know whether the queues exist.
func CheckImport(r io.Reader, config Config) (int, error) {
	of, err := layoutsOf(config)
	if err != nil {
		return 0, err
	}
	a, n := &Admin{layouts: of}, 0
	err = eachRecord(r, func(line int, r record) error {
		if _, err := a.layoutItem(r); err != nil {
			return &lineError{line, err}
		}
		n++
		return nil
	})
	return n, err
}

// byteOrderMark is what some editors put at the beginning of a file.
const byteOrderMark = "\ufeff"

// lineError is what is wrong with a line.
type lineError struct {
	line int
	err  error
}

func (e *lineError) Error() string { return fmt.Sprintf("line %d: %v", e.line, e.err) }
func (e *lineError) Unwrap() error { return e.err }

// eachRecord reads lines until one is wrong, or do returns an error.
func eachRecord(r io.Reader, do func(line int, r record) error) error {
	in := bufio.NewScanner(r)
	in.Buffer(make([]byte, 64<<10), MaxLine)
	line := 0
	for in.Scan() {
		line++
		text := in.Bytes()
		if line == 1 {
			text = bytes.TrimPrefix(text, []byte(byteOrderMark))
		}
		if len(text) == 0 {
			continue
		}
		record, err := readRecord(text)
		if in.Err() != nil {
			break // the line was cut off
		}
		if err != nil {
			return &lineError{line, err}
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
	if err := r.restoreBytes(); err != nil {
		return r, err
	}
	headers, err := headerjson.Typed(r.Headers)
	r.Headers = headers
	return r, err
}

// importing is a run of Import.
type importing struct {
	admin   *Admin
	ways    map[string]bool // queues for which what their messages need is there
	batch   []rabbit.Item
	lines   []int // of the batch
	tried   int   // messages that were sent
	done    int   // messages, from the first on, that are in their queues
	refused []int // lines of messages that the broker did not take
	faults  []error
	unsure  bool // of some messages it is not known whether they are there
}

// errStop: the faults say why.
var errStop = errors.New("stop")

// flush publishes the batch. Once begun it is not called back.
func (i *importing) flush(ctx context.Context) error {
	longer, end := rabbit.Grace(ctx, importGrace)
	defer end()
	for n, err := range i.admin.sender.PublishBatch(longer, i.batch, true) {
		switch {
		case err != nil:
			i.faults = append(i.faults, &lineError{i.lines[n], fmt.Errorf("import message %s into %q: %w", i.batch[n].Message.MessageId, i.batch[n].Key, err)})
			i.refused = append(i.refused, i.lines[n])
			i.unsure = i.unsure || !declined(err)
		case len(i.faults) == 0:
			i.done++
		}
	}
	i.tried += len(i.batch)
	i.batch, i.lines = i.batch[:0], i.lines[:0]
	if len(i.faults) > 0 {
		return errStop
	}
	return nil
}

// declined reports whether the broker, or the check before it is asked, has said no to a message.
func declined(err error) bool {
	for _, no := range []error{rabbit.ErrUnroutable, rabbit.ErrRefused, rabbit.ErrNacked, rabbit.ErrTooLarge, rabbit.ErrInvalid} {
		if errors.Is(err, no) {
			return true
		}
	}
	return false
}

// ended is why an import has ended. If all that was wrong are lines, it says with which message to go on.
func (i *importing) ended(err error) error {
	if err == nil {
		return nil
	}
	var unread *lineError // comes behind all that were sent
	bad, stopped := errors.As(err, &unread), errors.Is(err, errStop)
	all := i.faults
	if bad {
		all = append(all, unread)
	} else if !stopped {
		all = append(all, err)
	}
	err = fmt.Errorf("import: %w", errors.Join(all...))
	if i.unsure || !bad && !stopped {
		return err
	}
	end := &ImportError{Lines: i.refused, Tried: i.tried, err: err}
	if bad {
		end.Lines = append(end.Lines, unread.line)
		end.Tried++
	}
	return end
}

// wayBack sees to it that messages can go back to a queue.
func (i *importing) wayBack(ctx context.Context, queue string) error {
	of := i.admin.layouts.of(queue)
	if shared(queue) || !of.KeepsKey() || i.ways[queue] {
		return nil
	}
	if err := i.admin.wayBack(ctx, of, queue); err != nil {
		return err
	}
	i.ways[queue] = true
	return nil
}

// layoutItem is what a record becomes on the broker, if it can be sent.
func (a *Admin) layoutItem(r record) (rabbit.Item, error) {
	item, err := a.itemOf(r)
	if err != nil {
		return item, err
	}
	if len(r.Queue) > maxName {
		return item, fmt.Errorf("the queue's name has %d bytes, AMQP allows %d", len(r.Queue), maxName)
	}
	return item, rabbit.Check(item.Exchange, item.Key, item.Message)
}

// maxName is how long a name can be in AMQP.
const maxName = 255

func (a *Admin) itemOf(r record) (rabbit.Item, error) {
	headers := r.Headers
	m := Message{
		ID: r.ID, Headers: headers, Body: r.Body, ContentType: r.ContentType, ContentEncoding: r.ContentEncoding,
		Priority: r.Priority, Timestamp: at(r.Timestamp), CorrelationID: r.CorrelationID, ReplyTo: r.ReplyTo, Type: r.Type, AppID: r.AppID,
	}
	f := envelope.Failure{
		Attempt: r.Attempts, Error: r.Error, Kind: r.Kind, Stack: r.Stack, FailedAt: at(r.FailedAt), FirstFailed: at(r.FirstFailed),
		Host: r.Host, Queue: r.Queue, Exchange: r.Exchange, Key: r.Key, Expiration: r.Expiration,
		Transient: r.Transient, Dropped: r.Dropped, Replays: r.Replays, InFailedQueue: true,
	}
	if shared(r.Queue) {
		f.Queue = "" // nothing said which one it belongs to
		return rabbit.Item{Key: r.Queue, Message: m.publishing(f)}, nil
	}
	of, err := a.layouts.known(r.Queue)
	if err != nil {
		return rabbit.Item{}, err
	}
	// It comes to rest as one that has just failed does.
	verdict := of.Fail(layouts.Failure{
		Message: layouts.Message{Queue: r.Queue, ID: r.ID, Exchange: r.Exchange, Key: r.Key, Headers: headers, Body: r.Body, ContentType: r.ContentType,
			CorrelationID: r.CorrelationID, ReplyTo: r.ReplyTo, Type: r.Type, AppID: r.AppID},
		Attempt: r.Attempts, Kind: r.Kind, Error: r.Error, Stack: r.Stack, At: f.FailedAt,
	})
	maps.Copy(m.Headers, verdict.Headers)
	if verdict.Body != nil {
		m.Body, m.ContentType = verdict.Body, cmp.Or(verdict.ContentType, m.ContentType)
	}
	return rabbit.Item{Exchange: verdict.Address.Exchange, Key: verdict.Key, Message: m.publishing(f)}, nil
}
