package admin

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rehop/rehop/internal/envelope"
	"github.com/rehop/rehop/internal/rabbit"
	"github.com/rehop/rehop/layout"
)

// batchSize is how many messages are moved together.
const batchSize = 64

// Options say what to replay or discard, and how fast.
type Options struct {
	// Filter chooses the messages. Default: all.
	Filter Filter
	// Limit is how many are taken at the most. Default: all that are there at the start.
	Limit int
	// Rate is how many are taken per second at the most. Default: as fast as the broker goes.
	Rate float64
	// Progress is called after every step.
	Progress func(Progress)
}

// Progress tells how far a replay or discard is.
type Progress struct {
	Seen  int // looked at
	Done  int // replayed or discarded
	Kept  int // did not meet the filter, or could not be moved
	Total int // how many there were at the start, as far as the broker could tell
}

// Replay takes messages from the failed queue of queue back to the queue that failed them, and only
// there; one that never found a queue is published to its exchange again. Counters are reset. The broker confirms each copy before the original is removed, so it is
// safe to kill a replay and to run it again. A message whose queue no longer exists stays where it
// is, and the error says so.
func (a *Admin) Replay(ctx context.Context, queue string, o Options) (Progress, error) {
	run := rabbit.NewID()
	ways := make(map[string]bool)
	return a.take(ctx, queue, run, o, func(m Message) (rabbit.Item, error) {
		f := envelope.Failure{
			Queue: m.Queue, Exchange: m.Exchange, Key: m.Key, Expiration: m.failure.Expiration,
			Transient: m.failure.Transient, Dropped: m.failure.Dropped, Replays: m.Replays + 1, ReplayRun: run,
		}
		from := a.placeOf(queue)
		switch {
		case m.Queue != "":
		case queue == layout.OrphansQueue, from.owner == "" && m.Kind != envelope.KindUnrouted && !shared(queue):
			return rabbit.Item{}, fmt.Errorf("message %s: nothing says which queue it belongs to", m.ID)
		case m.Kind == envelope.KindUnrouted || queue == layout.UnroutedQueue:
			// It never was in a queue. If there still is none for it, the broker hands it back.
			again := m.publishing(f)
			again.Headers[layout.HeaderReturn] = true
			return rabbit.Item{Exchange: m.Exchange, Key: m.Key, Message: again}, nil
		default:
			f.Queue = queue
		}
		item := rabbit.Item{Key: f.Queue, Message: m.publishing(f)}
		if a.layout.KeepsKey() && !shared(queue) {
			if !ways[f.Queue] {
				if err := a.wayBack(ctx, f.Queue); err != nil {
					return rabbit.Item{}, fmt.Errorf("message %s: %w", m.ID, err)
				}
				ways[f.Queue] = true
			}
			item.Exchange, item.Key = layout.LandedExchange, m.Key
		}
		return item, nil
	})
}

// wayBack declares what brings a message back to a queue with the key that it has.
func (a *Admin) wayBack(ctx context.Context, queue string) error {
	if err := a.write.Declare(ctx, layout.Back(a.layout, layout.Native{}, queue)); err != nil {
		return fmt.Errorf("declare the way back to %q: %w", queue, queueError(err))
	}
	return nil
}

// Discard removes messages from the failed queue of queue, for good.
func (a *Admin) Discard(ctx context.Context, queue string, o Options) (Progress, error) {
	return a.take(ctx, queue, "", o, nil)
}

// take goes once through what is in the queue at the start. With move nil, messages are removed.
func (a *Admin) take(ctx context.Context, queue, run string, o Options, move func(Message) (rabbit.Item, error)) (Progress, error) {
	from := a.placeOf(queue)
	reader, depth, err := a.read.OpenReader(ctx, from.source)
	if err != nil {
		return Progress{}, queueError(err)
	}
	// Closing gives back what was kept, and makes sure that the broker has every ack.
	defer reader.Close()
	t := &taking{admin: a, from: from, reader: reader, run: run, options: o, move: move, progress: Progress{Total: depth}, began: time.Now()}
	err = t.all(ctx)
	return t.progress, err
}

type taking struct {
	admin    *Admin
	from     place
	reader   *rabbit.Reader
	run      string // which replay this is
	options  Options
	move     func(Message) (rabbit.Item, error)
	progress Progress
	began    time.Time
	faults   []error
}

// maxFaults is how many reasons an error lists.
const maxFaults = 10

func (t *taking) fault(err error) {
	t.progress.Kept++
	if len(t.faults) < maxFaults {
		t.faults = append(t.faults, err)
	}
}

type taken struct {
	tag     uint64
	message Message
}

func (t *taking) all(ctx context.Context) error {
	for {
		batch, more, err := t.read(ctx)
		if err == nil {
			err = t.settle(ctx, batch)
		}
		if t.options.Progress != nil {
			t.options.Progress(t.progress)
		}
		if err != nil {
			return errors.Join(append(t.faults, err)...)
		}
		if !more {
			return errors.Join(t.faults...)
		}
	}
}

// read takes the next messages that meet the filter, as many as the rate allows for one step.
func (t *taking) read(ctx context.Context) (batch []taken, more bool, err error) {
	size := batchSize
	if r := t.options.Rate; r > 0 {
		size = max(1, min(size, int(r/5))) // a step takes about a fifth of a second, or one message
		due := t.began.Add(time.Duration(float64(t.progress.Done) / r * float64(time.Second)))
		if err := rabbit.Pause(ctx, time.Until(due)); err != nil {
			return nil, false, err
		}
	}
	if l := t.options.Limit; l > 0 {
		size = min(size, l-t.progress.Done)
	}
	for len(batch) < size {
		if err := ctx.Err(); err != nil {
			return nil, false, err
		}
		d, ok, err := t.reader.Next()
		if err != nil || !ok {
			return batch, false, err
		}
		m := t.from.read(d)
		if t.isNew(m) {
			return batch, false, nil
		}
		t.progress.Seen++
		t.progress.Total = max(t.progress.Total, t.progress.Seen)
		if t.from.has(m) && t.options.Filter.accepts(m) && (t.move == nil || !t.from.isCopy(m)) {
			batch = append(batch, taken{tag: d.DeliveryTag, message: m})
		} else {
			t.progress.Kept++
		}
	}
	return batch, size > 0, nil
}

// isNew reports whether a message has come since the start: it was taken already and failed again, or
// there are more than there were and it failed later.
func (t *taking) isNew(m Message) bool {
	return t.run != "" && m.failure.ReplayRun == t.run ||
		t.progress.Seen >= t.progress.Total && m.FailedAt.After(t.began)
}

// settle moves a batch, and removes from the source what the broker has confirmed.
func (t *taking) settle(ctx context.Context, batch []taken) error {
	outcomes := make([]error, len(batch))
	if t.move != nil {
		items := make([]rabbit.Item, 0, len(batch))
		index := make([]int, 0, len(batch))
		for i, b := range batch {
			item, err := t.move(b.message)
			if err != nil {
				outcomes[i] = err
				continue
			}
			items, index = append(items, item), append(index, i)
		}
		for j, err := range t.admin.sender.PublishBatch(ctx, items, true) {
			if err != nil {
				err = fmt.Errorf("message %s to queue %q: %w", items[j].Message.MessageId, items[j].Key, err)
			}
			outcomes[index[j]] = err
		}
	}
	for i, b := range batch {
		if outcomes[i] != nil {
			t.fault(outcomes[i])
			continue
		}
		if err := t.reader.Ack(b.tag); err != nil {
			return fmt.Errorf("remove message %s from the failed queue: %w", b.message.ID, err)
		}
		t.progress.Done++
	}
	return ctx.Err()
}
