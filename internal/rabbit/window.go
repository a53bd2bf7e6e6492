package rabbit

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// window is a channel of a Sweep, with the messages that it holds.
type window struct {
	ch       *amqp.Channel
	tag      string
	turn     turn
	prefetch int
	taken    int  // of what came
	most     int  // how many may come
	room     int  // for bytes of bodies that were not taken
	roomy    bool // there is room for all of them
	canceled bool // it has no consumer any more
	closed   bool
	held     []held // taken and not removed, by ascending tags
	commits  commits
	cause    error // why the channel has closed; nil: it is not known yet

	more    chan struct{} // something has come
	ended   chan struct{} // closed: nothing more will
	closing <-chan *amqp.Error
	revoked <-chan string // the broker has ended the consumer

	mu     sync.Mutex
	lapsed bool // by that, it has taken messages back
	unread []Message
	bytes  int // of those
	received
}

// received is what a window knows about the messages that came.
type received struct {
	got     int  // came from the broker
	removed int  // of these, were removed
	spill   bool // more came than there is room for, and was dropped
	again   bool // the last that came was returned before
	largest int  // bytes of the largest that came
}

// state is what has come so far, and how much of it was not taken.
func (w *window) state() (r received, unread int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.received, len(w.unread)
}

// held is a message that stays.
type held struct {
	tag         uint64
	fingerprint Fingerprint
	unread      bool // nobody has taken it
}

func newWindow(prefetch, room int) *window {
	return &window{turn: make(turn, 1), prefetch: prefetch, room: room, more: make(chan struct{}, 1), ended: make(chan struct{})}
}

func (w *window) open(ch *amqp.Channel, queue string) error {
	if err := ch.Tx(); err != nil {
		return err
	}
	if err := ch.Qos(w.prefetch, 0, false); err != nil {
		return err
	}
	closed, revoked := ch.NotifyClose(make(chan *amqp.Error, 1)), ch.NotifyCancel(make(chan string, 1))
	w.ch, w.tag = ch, "rehop-sweep-"+NewID()
	deliveries, err := ch.Consume(queue, w.tag, false, false, false, false, nil)
	if err != nil {
		return declareError("consumer of queue", queue, err)
	}
	w.closing, w.revoked = closed, revoked
	go w.receive(deliveries)
	return nil
}

// receive receives deliveries at once: amqp091-go buffers them for a slow consumer without a limit.
func (w *window) receive(deliveries <-chan Message) {
	defer close(w.ended)
	for d := range deliveries {
		w.mu.Lock()
		w.got++
		w.again = d.Redelivered
		w.largest = max(w.largest, len(d.Body))
		if w.spill = w.spill || !w.roomy && w.bytes > 0 && w.bytes+len(d.Body) > w.room; !w.spill {
			w.unread = append(w.unread, d)
			w.bytes += len(d.Body)
		}
		w.mu.Unlock()
		w.signal()
	}
}

// hasLapsed reports whether the broker has canceled the consumer. RabbitMQ 4.3 does so when messages of a
// quorum queue were unacked for too long. They are in the queue again by then, and acks have no effect.
func (w *window) hasLapsed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case _, by := <-w.revoked:
		w.lapsed = w.lapsed || by
	default:
	}
	return w.lapsed
}

// isTakenBack reports whether the broker has taken back what the window held.
func (w *window) isTakenBack() bool { return w.ch.IsClosed() || w.hasLapsed() }

func (w *window) signal() {
	select {
	case w.more <- struct{}{}:
	default:
	}
}

// why is why a window has ended unexpectedly, each time the same. amqp091-go marks a channel as closed when
// it has read the broker's channel.close, and passes on the reason a little later. It closes w.closing in
// any case.
func (w *window) why() error {
	if w.hasLapsed() {
		return ErrHeldTooLong // if the queue was deleted, the next call returns that
	}
	if w.cause == nil {
		w.cause = amqp.ErrClosed
		if e := <-w.closing; e != nil {
			w.cause = e
		}
	}
	return w.cause
}

// await waits until take returns up to most messages with the given bytes, or waiting is useless. It waits
// up to idleCheck for the first.
func (w *window) await(ctx context.Context, most, bytes int) error {
	timer := time.NewTimer(idleCheck)
	defer timer.Stop()
	for {
		ready, final := w.ready(most, bytes)
		if final {
			return nil
		}
		if ready {
			timer.Reset(gatherPause)
		}
		select {
		case <-w.more:
		case <-timer.C:
			return nil
		case <-w.ended:
			if w.canceled {
				return nil
			}
			return w.why()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// ready reports whether there is a message, and whether waiting for more is useless.
func (w *window) ready(most, bytes int) (some, final bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := len(w.unread)
	return n > 0, n >= most || w.bytes >= bytes && n > 0 || w.spill || w.canceled || w.got-w.removed >= w.prefetch
}

// take returns up to most messages with the given bytes, or one that is larger.
func (w *window) take(most, bytes int) []Message {
	w.mu.Lock()
	n, size := 0, 0
	for n < min(most, len(w.unread)) && (n == 0 || size+len(w.unread[n].Body) <= bytes) {
		size += len(w.unread[n].Body)
		n++
	}
	batch := slices.Clone(w.unread[:n])
	clear(w.unread[:n])
	w.unread = w.unread[n:]
	w.bytes -= size
	w.mu.Unlock()
	w.taken += n
	for i := range batch {
		w.held = append(w.held, held{tag: batch[i].DeliveryTag, fingerprint: FingerprintOf(&batch[i])})
	}
	return batch
}

// untake is for messages that were the last to be taken, and did not get to the caller.
func (w *window) untake(batch []Message) {
	w.held = w.held[:len(w.held)-len(batch)]
	w.taken -= len(batch)
}

// neverTaken notes which of the messages that it holds nobody has taken.
func (w *window) neverTaken(some []Message) {
	at := len(w.held)
	for _, m := range slices.Backward(some) {
		for at--; w.held[at].tag != m.DeliveryTag; at-- {
		}
		w.held[at].unread = true
	}
}

// isFilled reports whether the broker has sent all that the prefetch allows, and all of it was taken, while
// there is a consumer.
func (w *window) isFilled() bool {
	r, unread := w.state()
	return !w.canceled && !r.spill && unread == 0 && r.got-r.removed >= w.prefetch
}

// isOver reports whether nothing can be taken from it any more.
func (w *window) isOver() bool {
	r, unread := w.state()
	return unread == 0 && (w.canceled || r.spill)
}

// unsettled reports whether anything that came was not removed.
func (w *window) unsettled() bool {
	r, _ := w.state()
	return r.got > r.removed
}

func (w *window) largestBody() int {
	r, _ := w.state()
	return r.largest
}

func (w *window) spilled() bool {
	r, _ := w.state()
	return r.spill
}

// remove acks messages: together, as far as nothing is held before them. They are not held any more, even
// if it fails. The broker removes them when that is committed.
func (w *window) remove(tags []uint64) error {
	w.mu.Lock()
	before := w.removed
	w.removed += len(tags)
	w.mu.Unlock()
	together := 0
	for together < len(tags) && together < len(w.held) && w.held[together].tag == tags[together] {
		together++
	}
	w.held = without(w.held, tags)
	if w.hasLapsed() { // acks would seem to succeed
		return ErrHeldTooLong
	}
	w.commits.sent(before)
	if together > 0 {
		if err := w.ch.Ack(tags[together-1], true); err != nil {
			return err
		}
	}
	for _, tag := range tags[together:] {
		if err := w.ch.Ack(tag, false); err != nil {
			return err
		}
	}
	return nil
}

// hasManyCommits reports whether the broker might keep back the acks of another commit.
func (w *window) hasManyCommits() bool {
	r, _ := w.state()
	w.commits.applied(r.got - w.prefetch)
	return w.commits.areMany()
}

// without leaves out some, all by ascending tags.
func without(all []held, tags []uint64) []held {
	from, _ := slices.BinarySearchFunc(all, tags[0], func(h held, tag uint64) int { return cmp.Compare(h.tag, tag) })
	left := all[:from]
	for _, h := range all[from:] {
		if len(tags) > 0 && tags[0] == h.tag {
			tags = tags[1:]
			continue
		}
		left = append(left, h)
	}
	return left
}

// isAgain reports whether the last that came was returned before, so that others that were may follow.
func (w *window) isAgain() bool {
	r, _ := w.state()
	return r.again
}

// cancel ends the consumer. RabbitMQ requeues what is then on its way, before all that is held; so it waits
// a little for that, if more can come.
func (w *window) cancel(more bool) error {
	timer := time.NewTimer(idleCheck)
	defer timer.Stop()
	for more && !w.isComplete() {
		select {
		case <-w.more:
		case <-w.ended:
			more = false
		case <-timer.C:
			more = false
		}
	}
	return w.ch.Cancel(w.tag, false)
}

// complete waits until all has come that the prefetch allows, or nothing comes.
func (w *window) complete() error {
	timer := time.NewTimer(idleCheck)
	defer timer.Stop()
	for !w.isComplete() {
		select {
		case <-w.more:
			timer.Reset(idleCheck)
		case <-w.ended:
			return nil
		case <-timer.C:
			return nil
		}
	}
	return nil
}

// notTaken is how many messages have come that were not taken.
func (w *window) notTaken() int {
	r, _ := w.state()
	return r.got - w.taken
}

// mayGet is how many messages may come in all when this many more are removed.
func (w *window) mayGet(more int) int {
	r, _ := w.state()
	return w.prefetch + r.removed + more
}

// isComplete reports whether all has come that the prefetch allows.
func (w *window) isComplete() bool {
	r, _ := w.state()
	return r.got-r.removed >= w.prefetch
}

// giveBack returns all that has come, and was not removed.
func (w *window) giveBack() error {
	if err := w.ch.Nack(0, true, true); err != nil {
		return err
	}
	return w.ch.TxCommit()
}

// close closes the channel. When it returns, the broker has all that was committed before, and nothing of the window runs.
func (w *window) close() error {
	if w.closed {
		return nil
	}
	w.closed = true
	err := w.ch.Close()
	<-w.ended
	return err
}
