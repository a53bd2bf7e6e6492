package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/rehop/rehop/internal/envelope"
	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/internal/letters"
	"github.com/rehop/rehop/internal/rabbit"
)

// ErrorQueue is a queue with failed messages of any program: the error queue of another framework, or a dead-letter queue of RabbitMQ.
//
// It understands how Spring AMQP, Spring Cloud Stream, MassTransit, NServiceBus, EasyNetQ, rascal, Sneakers, Kicks, dramatiq and Celery
// record a failure, and the header x-death, and rehop's own record. Message.RecordedBy names the one that was found. Of a message
// without a record, only what the message itself has is known.
//
// A message without an id has one that begins with "noid-" and is a hash of its content. It stays the same as long as the message is
// in the queue. Messages that are equal have the same id, and a Filter by that id chooses all of them.
type ErrorQueue struct {
	admin *Admin
	from  place
}

// ErrorQueue returns the error queue of this name. It does not ask the broker, so the queue may not exist.
func (a *Admin) ErrorQueue(name string) *ErrorQueue {
	return &ErrorQueue{a, place{layout: layouts.Native{}, source: name, open: true, letters: true}}
}

// Messages returns up to limit messages, the oldest first, and leaves them in the queue. They are as they were before they failed, and as
// Replay would publish them: without the headers of the record, and unwrapped.
func (q *ErrorQueue) Messages(ctx context.Context, limit int, filter Filter) ([]Message, error) {
	return q.admin.peek(ctx, q.from, limit, filter)
}

// Each calls see for up to limit messages, the oldest first, and leaves them in the queue. A limit of 0 means all. If see returns an error,
// Each ends and returns it. Other commands cannot read the queue meanwhile, so see must not wait for them.
func (q *ErrorQueue) Each(ctx context.Context, limit int, filter Filter, see func(Message) error) error {
	return q.admin.visit(ctx, q.from, limit, filter, see)
}

// Depth is how many messages the queue has that nobody is reading. If the queue does not exist, it returns ErrNoQueue.
func (q *ErrorQueue) Depth(ctx context.Context) (int, error) {
	depth, err := q.admin.read.Inspect(ctx, q.from.source)
	if err != nil {
		return 0, queueError(err)
	}
	return depth.Messages, nil
}

// Count counts the messages that match the filter, and leaves them in the queue.
func (q *ErrorQueue) Count(ctx context.Context, filter Filter) (Count, error) {
	return q.admin.count(ctx, q.from, filter)
}

// Delayed is Admin.Delayed for an error queue.
func (q *ErrorQueue) Delayed(ctx context.Context) (int, error) { return q.admin.delayed(ctx, q.from) }

// Export writes the messages that match the filter as JSON lines, the oldest first, and leaves them in the queue. It returns how many
// it wrote. Body, headers and properties are those of the message in the queue, with the record of its failure, so that Import can
// restore it there. Only an expiration and a user id are not kept.
func (q *ErrorQueue) Export(ctx context.Context, w io.Writer, filter Filter) (n int, err error) {
	return q.admin.export(ctx, q.from, w, filter, func(m Message) record { return letterRecord(q.from.source, m) })
}

// ExportLine returns the line of an Export for a message that was read from the queue, without the end of the line. Import reads it.
func (q *ErrorQueue) ExportLine(m Message) ([]byte, error) {
	return letterRecord(q.from.source, m).line()
}

// ErrNoDestination: it is not recorded in which queue a message has failed. Pass the queue to ErrorQueue.Replay.
var ErrNoDestination = errors.New("its record does not name the queue in which it failed; name the queue to replay it to")

// Replay returns messages to the queue in which they failed, as Messages shows them, so that the framework that consumes them gives
// them all their attempts again. to is the queue for all messages. If it is empty, each message goes to its Message.Queue. A message
// whose record has only its exchange and key is published there once more, so all queues that are bound for it get a copy. A message
// whose record has neither stays where it is, with ErrNoDestination.
//
// The copies are persistent and do not expire. One without an id gets one. If it goes to a queue, it keeps its routing key, unless that is
// not known or is the name of another queue: then its routing key is the name of the queue. The broker confirms each copy before the
// original is removed, so a replay that was killed loses no message and can be run again; up to 256 messages may then have been replayed
// twice.
func (q *ErrorQueue) Replay(ctx context.Context, to string, o Options) (Progress, error) {
	to = cmp.Or(to, o.To)
	if err := q.admin.allowsTarget(ctx, q.from.source, to); err != nil {
		return Progress{}, err
	}
	keys := keyKeeper{q.admin, make(map[string]bool)}
	return q.admin.takeFrom(ctx, q.from, "", o, &taking{sender: q.admin.sender, move: func(ctx context.Context, _ place, f found) (rabbit.Item, error) {
		m, err := o.changed(f.message)
		if err != nil {
			return rabbit.Item{}, err
		}
		m.Headers = replayedHeaders(m.Headers, o.DropHeaders)
		item, err := keys.returning(ctx, q.from.source, to, o.Run, m)
		if err != nil {
			return item, fmt.Errorf("message %s: %w", m.ID, err)
		}
		return item, nil
	}})
}

// Discard deletes messages from the queue. This cannot be undone: Export them first if you may need them.
func (q *ErrorQueue) Discard(ctx context.Context, o Options) (Progress, error) {
	return q.admin.takeFrom(ctx, q.from, "", o, &taking{sender: q.admin.sender})
}

// returning is a message on its way from an error queue to a queue, or to the exchange in its record.
func (k keyKeeper) returning(ctx context.Context, source, to, run string, m Message) (rabbit.Item, error) {
	queue := cmp.Or(to, m.Queue)
	switch {
	case queue == source:
		return rabbit.Item{}, fmt.Errorf("its record names this queue as the one in which it failed: %w", ErrNoDestination)
	case queue != "" && m.RecordedBy == letters.Rehop:
		f := m.failure.Replayed()
		f.Queue, f.ReplayRun = queue, run
		return rabbit.Item{Key: queue, Message: m.publishing(f)}, nil
	case queue != "":
		key := m.Key
		switch m.RecordedBy {
		case "": // the key is that with which it came to the error queue
			key = ""
		case letters.Celery: // a worker sends retries to the exchange and with the key of the task: from the default exchange to the queue
			key = ""
		}
		return k.to(ctx, queue, key, m.plain()), nil
	case m.published:
		return rabbit.Item{Exchange: m.Exchange, Key: m.Key, Message: m.plain()}, nil
	}
	return rabbit.Item{}, ErrNoDestination
}

// plain is the message for a program that does not use rehop: without any header of rehop.
func (m Message) plain() *rabbit.Publishing {
	p := m.publishing(envelope.Failure{})
	headers := envelope.Clean(p.Headers)
	delete(headers, "CC") // it was moved there: the broker would send copies to other queues
	p.Headers = headers
	if m.anonymous {
		p.MessageId = rabbit.NewID()
	}
	return p
}
