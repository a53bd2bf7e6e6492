package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"time"

	"github.com/rehop/rehop/internal/envelope"
	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/internal/letters"
	"github.com/rehop/rehop/internal/rabbit"
)

// batchSize is how many messages are imported or migrated together.
const batchSize = 64

// Options are what Replay and Discard take, and how fast.
type Options struct {
	// Filter chooses the messages. Default: all.
	Filter Filter
	// Limit is how many messages are taken at most. Default: all that are in the queue at the start.
	Limit int
	// Rate is how many messages are taken per second at most. Set it to spare a handler that has just recovered. Default: no limit.
	Rate float64
	// DropHeaders are headers that Replay removes; a * at the end of a name matches any rest. Set it if a library that counts failures
	// in its own headers would otherwise find the old count. The counts of rehop, RabbitMQ, Sneakers, rascal and Celery are always reset.
	DropHeaders []string
	// To is a queue to which Replay sends the messages instead of the queue in which they failed. From then on it is their queue.
	// Default: the queue in which they failed.
	To string
	// Run is sent along with replayed messages. Subscribers report the outcome of each to the exchange rehop.reports with it; see
	// rehop.Config.Reports. Default: a random text.
	Run string
	// Choose decides which messages are taken, of those that match Filter. It is called with messages in the order of the queue, some
	// at a time, and returns a list with true for each to take. A message for which it has returned true may come again if the broker
	// requeues it before it is removed. If it returns an error, these messages stay, and Replay or Discard ends. Default: all.
	Choose func(ctx context.Context, some []Message) ([]bool, error)
	// Change changes a message before Replay publishes it. If it returns an error, the message stays. Default: nothing is changed.
	Change func(m *Message) error
	// Settled is called with messages that were taken: after the broker has confirmed their copies and removed the originals, or with
	// the reason why they stay. Those reasons are then not part of the error that Replay returns. An original stays removed if the
	// process or the connection ends at that moment. Only a broker that is killed then may still have some. Default: none.
	Settled func(some []Settled)
	// Progress is called after each batch. Default: none.
	Progress func(Progress)
}

// Settled is what became of a message that was to be replayed or discarded.
type Settled struct {
	Message Message // as it was in the failed queue
	Err     error   // why it stays there; nil: it was taken
}

// Progress is how far a replay or discard is.
type Progress struct {
	Seen  int // messages that were read
	Done  int // messages that were replayed or discarded
	Kept  int // messages that did not match the filter, or could not be replayed
	Total int // messages in the queue at the start, as far as the broker knew
	// Delayed is how many messages could not be read because the queue delayed them at the start; see Admin.Delayed.
	Delayed int
}

// Replay returns messages from the failed queue of a queue to the queue in which they failed, and only there, with all their
// attempts. A message that never was in a queue is published to its exchange again; so is a message from a recovered queue, if
// its queue is not known. Queue may be all that Failed accepts.
//
// The broker confirms each copy before the original is removed, so a replay that was killed loses no message and can be run again;
// up to 256 messages may then have been replayed twice. If messages of the same key wait for a message
// (rehop.Subscriber.AfterFail), it is handled before them. A message whose queue no longer exists stays in the failed queue, and the
// error names it.
func (a *Admin) Replay(ctx context.Context, queue string, o Options) (Progress, error) {
	run, ways, held := cmp.Or(o.Run, rabbit.NewID()), waysBack{a, make(map[string]bool)}, heldQueues{a, make(map[string]bool)}
	if o.To != "" {
		from, err := a.placeOf(queue)
		if err != nil {
			return Progress{}, err
		}
		if err := a.allowsTarget(ctx, from.source, o.To); err != nil {
			return Progress{}, err
		}
	}
	return a.take(ctx, queue, run, o, func(_ context.Context, from place, replayed found) (rabbit.Item, error) {
		m, err := o.changed(replayed.message)
		if err != nil {
			return rabbit.Item{}, err
		}
		m.Headers = replayedHeaders(m.Headers, o.DropHeaders)
		f := envelope.Failure{
			Queue: m.Queue, Exchange: m.Exchange, Key: m.Key, Expiration: m.failure.Expiration,
			Transient: m.failure.Transient, Dropped: m.failure.Dropped, Replays: m.Replays + 1, ReplayRun: run, Hooks: m.failure.Hooks,
		}
		switch {
		case o.To != "":
			f.Queue = o.To
			return rabbit.Item{Key: o.To, Message: m.publishing(f)}, nil
		case m.Queue != "":
		case queue == layouts.OrphansQueue, from.owner == "" && m.Kind != envelope.KindUnrouted && !shared(queue):
			return rabbit.Item{}, fmt.Errorf("message %s: it is not known which queue it belongs to", m.ID)
		case m.Kind == envelope.KindUnrouted || queue == layouts.UnroutedQueue || layouts.IsRecoveredQueue(queue):
			// It never was in a queue, or it is not known in which. If no queue is bound for it, the broker returns it.
			again := m.publishing(f)
			again.Headers[layouts.HeaderReturn] = true
			return rabbit.Item{Exchange: m.Exchange, Key: m.Key, Message: again}, nil
		default:
			f.Queue = queue
		}
		if waits, err := held.exists(ctx, m.failure.Order.Held); err != nil {
			return rabbit.Item{}, fmt.Errorf("message %s: %w", m.ID, err)
		} else if waits {
			return replayInOrder(m, f), nil
		}
		item := rabbit.Item{Key: f.Queue, Message: m.publishing(f)}
		// Celery sends the retries of a task to the exchange from which the task came, so that must not be one of rehop's exchanges. From the default
		// exchange they go to the queue.
		if from.layout.KeepsKey() && !shared(queue) && !letters.IsTask(m.Headers) {
			if err := ways.declare(ctx, from.layout, f.Queue); err != nil {
				return rabbit.Item{}, fmt.Errorf("message %s: %w", m.ID, err)
			}
			item.Exchange, item.Key = layouts.LandedExchange, m.Key
		}
		return item, nil
	})
}

// changed is a message with the changes that a replay makes.
func (o Options) changed(m Message) (Message, error) {
	if o.Change == nil {
		return m, nil
	}
	id := m.ID
	m.Headers = maps.Clone(m.Headers)
	if err := o.Change(&m); err != nil {
		return m, fmt.Errorf("message %s: %w", id, err)
	}
	if m.ID != id {
		m.anonymous = m.ID == ""
	}
	return m, nil
}

// allowsTarget returns an error if messages of a place cannot be replayed to a queue.
func (a *Admin) allowsTarget(ctx context.Context, from, to string) error {
	switch to {
	case "":
		return nil
	case from:
		return fmt.Errorf("replay queue %q: %w: they would return to where they are; name another one", from, ErrTarget)
	}
	if err := a.CheckTarget(ctx, to); err != nil {
		return fmt.Errorf("replay queue %q to %q: %w", from, to, err)
	}
	return nil
}

// waysBack declares, once for each queue, what returns messages to it with their own routing keys.
type waysBack struct {
	admin *Admin
	done  map[string]bool // by queue
}

func (w waysBack) declare(ctx context.Context, of layouts.Layout, queue string) error {
	if w.done[queue] {
		return nil
	}
	if err := w.admin.write.Declare(ctx, layouts.ReplayPlan(of, layouts.Native{}, queue)); err != nil {
		return fmt.Errorf("declare the way back to %q: %w", queue, queueError(err))
	}
	w.done[queue] = true
	return nil
}

// Discard deletes messages from the failed queue of a queue. This cannot be undone: Export them first if you may need them.
func (a *Admin) Discard(ctx context.Context, queue string, o Options) (Progress, error) {
	return a.take(ctx, queue, "", o, nil)
}

// take replays or discards messages that are in the failed queue at the start. If move is nil, they are discarded.
func (a *Admin) take(ctx context.Context, queue, run string, o Options, move mover) (done Progress, err error) {
	from, err := a.placeOf(queue)
	if err != nil {
		return Progress{}, err
	}
	return a.takeFrom(ctx, from, run, o, &taking{move: move, sender: a.sender})
}

// mover returns what a message becomes elsewhere.
type mover func(context.Context, place, found) (rabbit.Item, error)

// takeFrom moves or discards messages that are in a place at the start.
func (a *Admin) takeFrom(ctx context.Context, from place, run string, o Options, t *taking) (done Progress, err error) {
	ahead := 0
	if o.Rate > 0 {
		ahead = int(max(1, min(o.Rate*fetchAhead.Seconds(), math.MaxInt16)))
	}
	t.takesFirst = o.Limit > 0 && o.Filter.isEmpty() && o.Choose == nil && !from.common && t.wants == nil
	all := o.Limit == 0 && o.Filter.isEmpty() && !from.common && t.wants == nil && o.Choose == nil
	s, err := a.sweepOf(ctx, from, ahead, !all)
	if err != nil {
		return Progress{}, err
	}
	// This returns what was kept, and makes sure that the broker has removed the others.
	defer func() { err = errors.Join(err, s.end()) }()
	s.run = run
	t.sweep, t.from, t.options, t.progress = s, from, o, Progress{Total: s.depth, Delayed: s.delayed}
	err = t.all(ctx)
	if !errors.Is(err, ErrRequeued) {
		err = errors.Join(err, s.unsettled())
	}
	return t.progress, err
}

const (
	// fetchAhead is for how much time a replay with a rate fetches messages ahead.
	fetchAhead = 10 * time.Second
	// moveGrace is how long an interrupted replay waits for the confirms of messages that it has published.
	moveGrace = 5 * time.Second
)

type taking struct {
	move   mover             // nil: messages are discarded
	sender *rabbit.Publisher // of the broker to which they are moved
	// What only moves to another broker set:
	wants   func(found) bool             // which messages; nil: all
	inOrder bool                         // a load is sent when the one before it is settled, so that none overtakes it when something is sent again
	strict  bool                         // it ends with the first message that is not accepted
	limit   time.Duration                // how long a load may take; 0: without limit
	books   func(confirmed, removed int) // is called for each load

	takesFirst bool // up to a limit, all messages are taken, so that no others need to be read

	sweep    *sweep
	from     place
	options  Options
	progress Progress
	faults   []error
	lapses   int // how often in a row the broker has requeued messages that were to be removed, and no others
}

// maxFaults is how many causes an error lists.
const maxFaults = 10

// load is messages that are being moved.
type load struct {
	haul     rabbit.Batch
	chosen   []found
	moved    []found // messages that were moved before, and are only removed
	outcomes []error // of the chosen
	sending  *rabbit.Sending
	items    []rabbit.Item
	index    []int  // of the items, among the chosen
	end      func() // of the time that it may take
}

// fresh is how many messages of a load were not moved before.
func (l *load) fresh() (n int) {
	for _, f := range l.chosen {
		if !f.moved {
			n++
		}
	}
	return n
}

// all has two loads in progress: while the broker removes the messages of one, the next is sent.
func (t *taking) all(ctx context.Context) error {
	longer, end := rabbit.Grace(ctx, moveGrace)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-t.sweep.reader.Gone(): // messages that are sent now could not be removed
			end()
		case <-longer.Done():
		}
	}()
	defer func() {
		end()
		<-watched
	}()
	var last *load
	for {
		if last != nil && t.sweep.reader.Restarts() {
			if err := t.settle(longer, last); err != nil {
				return errors.Join(append(t.faults, err)...)
			}
			last = nil
		}
		next, more, err := t.read(ctx, last)
		if next != nil {
			t.send(longer, next)
		}
		if next != nil && t.inOrder { // last is nil, and so is the next one
			last, next = next, nil
		}
		settled := last != nil
		if settled {
			err = errors.Join(err, t.settle(longer, last))
		}
		if end := ctx.Err(); !errors.Is(err, end) {
			err = errors.Join(err, end)
		}
		if last = next; err != nil && last != nil {
			err = errors.Join(err, t.settle(longer, last))
		}
		if t.options.Progress != nil && (settled || last == nil) {
			t.options.Progress(t.progress)
		}
		if err != nil {
			return errors.Join(append(t.faults, err)...)
		}
		if !more && last == nil && t.sweep.owed == 0 {
			return errors.Join(t.faults...)
		}
	}
}

// read takes the next messages and chooses those that match the filter, as many as the rate allows for one step. last is the load in progress.
func (t *taking) read(ctx context.Context, last *load) (next *load, more bool, err error) {
	size, taken := sweepBatch, t.progress.Done
	if t.move != nil {
		size = replayBatch
	}
	if last != nil {
		taken += last.fresh()
	}
	if r := t.options.Rate; r > 0 {
		size = max(1, min(size, int(r/5))) // a step takes about a fifth of a second, or one message
		if last != nil {
			return nil, true, nil // one at a time, so that what is held can be returned in a pause
		}
		if err := t.pause(ctx, t.sweep.began.Add(time.Duration(float64(taken)/r*float64(time.Second)))); err != nil {
			return nil, false, err
		}
	}
	if l := t.options.Limit; l > 0 {
		if size = min(size, l-taken); size <= 0 {
			if last != nil {
				return nil, true, nil // messages of it that cannot be moved do not count
			}
			if t.sweep.owed == 0 {
				return nil, false, nil
			}
			size, t.sweep.finishing = sweepBatch, true
		}
		if t.takesFirst {
			t.sweep.enough = max(0, l-taken)
		}
	}
	if t.sweep.isDue() {
		if last != nil {
			return nil, true, nil
		}
		if err := t.sweep.rewind(ctx, time.Now()); err != nil {
			return nil, false, err
		}
	}
	h, err := t.sweep.take(ctx, size)
	if errors.Is(err, errExpired) {
		return nil, true, nil
	}
	if err != nil {
		return nil, false, err
	}
	next, err = t.choose(ctx, h)
	return next, len(h.messages) > 0, err
}

// choose returns the messages to move, or nil if there are none.
func (t *taking) choose(ctx context.Context, h haul) (*load, error) {
	next := &load{haul: h.batch}
	var kept, matching []found
	for _, f := range h.messages {
		if f.moved {
			// Without an id it may be another message that is equal: moving it twice is better than losing it.
			if t.move == nil || f.message.isDistinct() {
				next.moved = append(next.moved, f)
			} else {
				next.chosen = append(next.chosen, f)
			}
			continue
		}
		t.progress.Seen++
		if t.from.has(f.message) && (t.wants == nil || t.wants(f)) && t.options.Filter.accepts(f.message) && (t.move == nil || !t.from.isCopy(f.message)) {
			matching = append(matching, f)
		} else {
			kept = append(kept, f)
		}
	}
	chosen, others, err := t.options.choose(ctx, matching)
	if err != nil {
		for _, f := range append(next.moved, next.chosen...) { // these were moved before, and are not removed now
			t.sweep.owe(f)
		}
		return nil, err
	}
	next.chosen, kept = append(next.chosen, chosen...), append(kept, others...)
	t.progress.Kept += len(kept)
	err = t.sweep.expire(t.sweep.renew(ctx, h.batch, kept))
	if errors.Is(err, errExpired) {
		err = nil
	}
	if len(next.chosen)+len(next.moved) == 0 {
		next = nil
	}
	return next, err
}

// choose asks Choose which of some messages are taken.
func (o Options) choose(ctx context.Context, some []found) (chosen, others []found, err error) {
	if o.Choose == nil || len(some) == 0 {
		return some, nil, nil
	}
	messages := make([]Message, len(some))
	for i, f := range some {
		messages[i] = f.message
	}
	wanted, err := o.Choose(ctx, messages)
	if err != nil {
		return nil, nil, fmt.Errorf("choose among %d messages: %w", len(some), err)
	}
	if len(wanted) != len(some) {
		return nil, nil, fmt.Errorf("choose among %d messages: the answer is about %d", len(some), len(wanted))
	}
	for i, f := range some {
		if wanted[i] {
			chosen = append(chosen, f)
		} else {
			others = append(others, f)
		}
	}
	return chosen, others, nil
}

// pause waits. What is held is returned to the queue if it would be held for too long.
func (t *taking) pause(ctx context.Context, due time.Time) error {
	if due.After(t.sweep.until) {
		if err := t.sweep.rewind(ctx, due); err != nil {
			return err
		}
	}
	return rabbit.Pause(ctx, time.Until(due))
}

// send begins to move a load.
func (t *taking) send(ctx context.Context, l *load) {
	l.outcomes = make([]error, len(l.chosen))
	if t.move == nil {
		return
	}
	l.end = func() {}
	if t.limit > 0 {
		ctx, l.end = context.WithTimeout(ctx, t.limit)
	}
	for i, f := range l.chosen {
		item, err := t.move(ctx, t.from, f)
		if err != nil {
			l.outcomes[i] = err
			continue
		}
		l.items, l.index = append(l.items, item), append(l.index, i)
	}
	l.sending = t.sender.StartBatch(ctx, l.items, true)
	l.sending.Sent() // the order is that of the failed queue
}

// settle waits for the outcome of a load, and removes confirmed messages from the failed queue.
func (t *taking) settle(ctx context.Context, l *load) error {
	if l.sending != nil {
		outcomes := l.sending.Outcomes()
		l.end()
		if err := t.sweep.reader.Lost(); err != nil {
			t.book(confirmedOf(outcomes), 0)
			return err
		}
		for j, err := range outcomes {
			if err != nil {
				err = fmt.Errorf("message %s to queue %q: %w", l.items[j].Message.MessageId, queueOf(l.items[j]), err)
			}
			l.outcomes[l.index[j]] = err
		}
	}
	var done, kept []found
	var settled []Settled
	var refusal error
	for i, f := range l.chosen {
		if l.outcomes[i] == nil {
			done = append(done, f)
			if !f.moved {
				t.progress.Done++
			}
			continue
		}
		if refusal == nil {
			refusal = l.outcomes[i]
		}
		if len(t.faults) < maxFaults && !t.strict && t.options.Settled == nil {
			t.faults = append(t.faults, l.outcomes[i])
		}
		if !f.moved {
			t.progress.Kept++
			kept = append(kept, f)
		}
		settled = append(settled, Settled{f.message, l.outcomes[i]})
	}
	confirmed := len(done)
	done = append(done, l.moved...)
	err := t.sweep.remove(ctx, l.haul, done)
	if err == nil {
		t.book(confirmed, len(done))
	} else {
		t.book(confirmed, 0)
	}
	if err = t.sweep.expire(err); errors.Is(err, errExpired) {
		// Those that the broker has not removed are delivered again, and are removed then.
		for _, f := range done {
			t.sweep.owe(f)
		}
		if t.lapses++; l.fresh() > 0 {
			t.lapses = 0
		}
		if t.lapses > maxRewinds {
			return t.sweep.unsettled()
		}
		t.options.settled(settled)
		return nil
	}
	if err != nil {
		return fmt.Errorf("remove %d messages from queue %q: %w", len(done), t.from.source, err)
	}
	for _, f := range done {
		settled = append(settled, Settled{Message: f.message})
	}
	t.options.settled(settled)
	t.lapses = 0
	if err := t.sweep.expire(t.sweep.renew(ctx, l.haul, kept)); err != nil && !errors.Is(err, errExpired) {
		return err
	}
	if t.strict {
		return refusal
	}
	return nil
}

func (o Options) settled(some []Settled) {
	if o.Settled != nil && len(some) > 0 {
		o.Settled(some)
	}
}

// book reports how many messages of a load were confirmed elsewhere, and how many were removed here.
func (t *taking) book(confirmed, removed int) {
	if t.books != nil {
		t.books(confirmed, removed)
	}
}

// confirmedOf is how many outcomes are good.
func confirmedOf(outcomes []error) (n int) {
	for _, err := range outcomes {
		if err == nil {
			n++
		}
	}
	return n
}
