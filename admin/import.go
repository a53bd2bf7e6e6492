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
	"slices"
	"time"

	"github.com/rehop/rehop/internal/envelope"
	"github.com/rehop/rehop/internal/headerjson"
	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/internal/rabbit"
)

// MaxLine is how many bytes a line of an import may have.
const MaxLine = 1 << 30

// importGrace is how long an interrupted import waits for the confirms of messages that it has published.
const importGrace = 5 * time.Second

// ImportError reports the lines at which an import has stopped.
type ImportError struct {
	// Lines are the numbers of the lines that were not imported.
	Lines []int
	// Tried is how many messages, counted from the first, were tried. All of them except Lines are in their queues. To continue the
	// import, remove the first Tried messages and import the rest.
	Tried int

	err error
}

func (e *ImportError) Error() string { return e.err.Error() }
func (e *ImportError) Unwrap() error { return e.err }

// Import publishes the messages of an export to the failed queues, or error queues, from which they came. It stops at the first line that it cannot
// read or that the broker does not accept, and returns an *ImportError. It returns how many messages, counted from the first, are in
// their queues. When ctx ends, it waits for the messages that it has published, so that the number is exact. Only if the connection
// is lost the number is not exact: some of the next 64 messages may be in their queues, too.
func (a *Admin) Import(ctx context.Context, r io.Reader) (int, error) {
	i := &importing{admin: a, ways: waysBack{a, make(map[string]bool)}}
	err := eachRecord(r, func(line int, r record) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		item, err := a.layoutItem(r)
		if err != nil {
			return &lineError{line, err}
		}
		if of := a.layouts.of(r.Queue); r.From == "" && of.KeepsKey() && !shared(r.Queue) {
			if err := i.ways.declare(ctx, of, r.Queue); declareCode(err) != 0 {
				return &lineError{line, err}
			} else if err != nil {
				return fmt.Errorf("line %d: %w", line, err)
			}
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

// CheckImport reads what Import would read, and returns how many messages there are, or what is wrong with the first line that Import
// would not accept. It uses only Layout and Layouts of the configuration. It needs no broker, so it does not check whether queues exist.
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

// byteOrderMark is written by some editors at the beginning of a file.
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

// readRecord reads a line. An unknown field is an error: the message would lack what it was meant to set.
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
	if r.Queue == "" && r.From == "" {
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
	ways    waysBack
	batch   []rabbit.Item
	lines   []int // of the batch
	tried   int   // messages that were sent
	done    int   // messages, counted from the first, that are in their queues
	refused []int // lines of messages that the broker did not accept
	faults  []error
	unsure  bool // of some messages it is not known whether they are in their queues
}

// errStop: the faults are the reason.
var errStop = errors.New("stop")

// flush publishes the batch. Once begun it is not interrupted.
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

// declined reports whether the broker, or the check before publishing, has refused a message.
func declined(err error) bool {
	return slices.ContainsFunc([]error{rabbit.ErrUnroutable, rabbit.ErrRefused, rabbit.ErrNacked, rabbit.ErrTooLarge, rabbit.ErrInvalid},
		func(refusal error) bool { return errors.Is(err, refusal) })
}

// ended is the error with which an import ends. If only lines were wrong, it is an *ImportError.
func (i *importing) ended(err error) error {
	if err == nil {
		return nil
	}
	unread, bad := errors.AsType[*lineError](err) // comes after all that were sent
	stopped := errors.Is(err, errStop)
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

// layoutItem is what is published for a record. It returns an error if the record cannot be published.
func (a *Admin) layoutItem(r record) (rabbit.Item, error) {
	if r.From != "" {
		return letterItem(r)
	}
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
	m := Message{
		ID: r.ID, Headers: r.Headers, Body: r.Body, ContentType: r.ContentType, ContentEncoding: r.ContentEncoding,
		Priority: r.Priority, Timestamp: r.Timestamp, CorrelationID: r.CorrelationID, ReplyTo: r.ReplyTo, Type: r.Type, AppID: r.AppID,
	}
	f := envelope.Failure{
		Attempt: r.Attempts, Error: r.Error, Kind: r.Kind, Stack: r.Stack, FailedAt: r.FailedAt, FirstFailed: r.FirstFailed,
		Host: r.Host, Version: r.Version, Queue: r.Queue, Exchange: r.Exchange, Key: r.Key, Expiration: r.Expiration,
		Transient: r.Transient, Dropped: r.Dropped, Replays: r.Replays, InFailedQueue: true,
	}
	if shared(r.Queue) {
		f.Queue = "" // it is not known which one it belongs to
		return rabbit.Item{Key: r.Queue, Message: m.publishing(f)}, nil
	}
	of, err := a.layouts.known(r.Queue)
	if err != nil {
		return rabbit.Item{}, err
	}
	// It goes to the failed queue like a message that has just failed.
	verdict := of.Fail(layouts.Failure{
		Message: layouts.Message{Queue: r.Queue, ID: r.ID, Exchange: r.Exchange, Key: r.Key, Headers: r.Headers, Body: r.Body, ContentType: r.ContentType,
			CorrelationID: r.CorrelationID, ReplyTo: r.ReplyTo, Type: r.Type, AppID: r.AppID},
		Attempt: r.Attempts, Kind: r.Kind, Error: r.Error, Stack: r.Stack, At: f.FailedAt,
	})
	maps.Copy(m.Headers, verdict.Headers)
	if verdict.Body != nil {
		m.Body, m.ContentType = verdict.Body, cmp.Or(verdict.ContentType, m.ContentType)
	}
	return rabbit.Item{Exchange: verdict.Address.Exchange, Key: verdict.Key, Message: m.publishing(f)}, nil
}
