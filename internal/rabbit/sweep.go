package rabbit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Message is a message as the broker delivered it.
type Message = amqp.Delivery

// ErrHeldTooLong: the broker has taken messages back because of its consumer timeout.
var ErrHeldTooLong = errors.New("the broker's consumer timeout is over")

// TimeoutError is an ErrHeldTooLong of a broker that has reported its timeout.
type TimeoutError struct{ Timeout time.Duration }

func (e *TimeoutError) Error() string { return fmt.Sprintf("%v: it is %v", ErrHeldTooLong, e.Timeout) }

func (e *TimeoutError) Is(target error) bool { return target == ErrHeldTooLong }

// ErrNothingComes: a queue has messages, and the broker delivers none of them.
var ErrNothingComes = errors.New("the queue has messages, but the broker delivers none of them")

const (
	// firstWindow shows how large the messages are. The following windows are larger, up to maxWindow; after
	// manyWindows, so that the channels do not run out, up to hugeWindow. AMQP's limit is 65535.
	firstWindow = 32
	growWindow  = 8
	maxWindow   = 4096
	manyWindows = 128
	hugeWindow  = 32768
	// idleCheck is after how long without messages the depth of the queue is checked. A queue without ready
	// messages counts as empty after suspect if other consumers may have them, and after onTheirWay
	// otherwise. stuck is how long a queue with messages may deliver none.
	idleCheck  = 100 * time.Millisecond
	suspect    = 3 * idleCheck
	onTheirWay = 10 * time.Second
	stuck      = 30 * time.Second
	// gatherPause is how long a batch that is not full waits for the next message.
	gatherPause = 10 * time.Millisecond
	// diedLately is how long the broker may take to notice that another process has died, and takeBack how
	// long to notice that a channel has closed.
	diedLately = 3 * time.Second
	takeBack   = 10 * time.Second
)

// Sweep takes messages from the head of a queue, in their order, and returns what was not removed.
//
// It consumes by windows: a channel whose consumer has a prefetch. What is removed makes room for more,
// what stays fills the window; the next window then is another channel. RabbitMQ searches the message of
// an ack among all unacked ones of its channel, so a single channel would become slower with each message
// that stays. One window at a time has a consumer, so that the order is that of the queue.
//
// It is not safe for concurrent use.
type Sweep struct {
	gone    <-chan *amqp.Error
	conn    *Conn // with which the right to read the queue ends
	queue   string
	control *amqp.Channel // asks for the depth
	asking  turn
	nacks   bool          // what is nacked keeps its order
	others  int           // consumers that were there before
	passing bool          // messages leave the queue by themselves
	fragile bool          // a message that is returned may be dropped
	waits   time.Duration // at most for messages that are most likely on their way

	cap     int  // no window is larger
	room    int  // for bytes of bodies that wait in memory to be taken
	roomy   bool // there is room for all that comes
	size    int  // of the next window
	opened  int
	full    []*window           // those with messages that stay, without consumers
	current *window             // nil: none
	again   map[Fingerprint]int // prints of messages that were taken, were given back, and come again, with how many have it
	coming  int                 // how many those are
	spilled int                 // messages that were given back because there was no room for them, and come again
	largest int                 // bytes of the largest of those

	stranded bool // something may not have been given back
}

// turn belongs to the one call on a channel that waits for an answer: amqp091-go mixes up the answers of
// two. A call whose caller has returned keeps it.
type turn chan struct{}

// call makes a call that waits for the broker, when it is its turn.
func (s *Sweep) call(ctx context.Context, t turn, do func() error) error {
	return s.conn.ended(s.conn.link.call(ctx, func() error {
		t <- struct{}{}
		defer func() { <-t }()
		return do()
	}, func() {}))
}

// SweepOptions are how a queue is read.
type SweepOptions struct {
	Ahead   int  // how many messages are fetched ahead at most; 0: by their size alone
	Room    int  // how many bytes of bodies may wait in memory to be taken
	Passing bool // messages leave the queue without a consumer
	Fragile bool // a message that is returned may be dropped, so it is taken only if necessary
}

// OpenSweep opens a sweep of a queue, and returns how many messages are ready in it. A missing queue is a *DeclareError that is Missing.
func (c *Conn) OpenSweep(ctx context.Context, queue string, o SweepOptions) (*Sweep, int, error) {
	s := &Sweep{conn: c, queue: queue, passing: o.Passing, fragile: o.Fragile, waits: onTheirWay, nacks: c.release().nacksKeepOrder(), cap: o.Ahead, room: o.Room, size: firstWindow, asking: make(turn, 1)}
	var depth Depth
	var err error
	s.control, err = c.on(ctx, func(ch *amqp.Channel) (err error) {
		depth, err = inspect(ch, queue)
		return err
	})
	if err != nil {
		return nil, 0, c.ended(err)
	}
	s.gone = s.control.NotifyClose(make(chan *amqp.Error, 1))
	// Consumers of a process that has just died may still hold messages.
	for until := time.Now().Add(diedLately); depth.Consumers > 0 && time.Now().Before(until); {
		if err = Pause(ctx, pollInterval); err == nil {
			depth, err = s.depth(ctx)
		}
		if err != nil {
			s.closeControl()
			return nil, 0, err
		}
	}
	if depth == (Depth{}) {
		if depth, err = c.inspect(ctx, queue, !o.Fragile); err != nil {
			s.closeControl()
			return nil, 0, err
		}
	}
	s.others = depth.Consumers
	return s, depth.Messages, nil
}

// pollInterval is the pause between two checks of the depth of a queue.
const pollInterval = 5 * time.Millisecond

// Batch is messages that were taken together.
type Batch struct {
	Messages []Message
	// Again are messages that Take has returned before, and that were returned to the queue since.
	Again  []Message
	window *window
}

// Take returns the next messages, up to most of them with about the given bytes, but at least one. want is
// how many more are wanted after those that were taken before: no more are fetched ahead. No message, and
// none again: there are no more.
func (s *Sweep) Take(ctx context.Context, most, bytes, want int) (Batch, error) {
	silence := time.Duration(0)
	for {
		if s.current != nil && s.current.isOver() {
			if err := s.next(ctx); err != nil {
				return Batch{}, err
			}
		}
		if err := s.takenBack(); err != nil {
			return Batch{}, err
		}
		if s.current == nil {
			if err := s.open(ctx, s.ahead(want)); err != nil {
				return Batch{}, err
			}
		}
		s.current.most = s.current.taken + s.ahead(want)
		if err := s.current.await(ctx, most, bytes); err != nil {
			return Batch{}, s.fault(s.current, err)
		}
		if err := s.takenBack(); err != nil { // what has come may be what was returned before
			return Batch{}, err
		}
		batch := s.current.take(most, bytes)
		if s.current.isFilled() {
			// Before anything is removed, because that would make room for more.
			if err := s.cancel(ctx, s.current); err != nil {
				s.current.untake(batch)
				return Batch{}, err
			}
		}
		if len(batch) > 0 {
			s.spilled = max(0, s.spilled-len(batch))
			fresh, again := s.split(batch)
			return Batch{fresh, again, s.current}, nil
		}
		if s.current.isOver() {
			continue
		}
		silence += idleCheck
		depth, err := s.depth(ctx)
		switch {
		case err != nil:
			return Batch{}, err
		case depth.Messages == 0 && silence >= s.emptyAfter(depth):
			if ended, err := s.isEmptied(ctx); err != nil || ended {
				return Batch{}, err
			}
			silence = 0
		case silence >= stuck:
			return Batch{}, fmt.Errorf("read queue %q: %w: %d messages, %d consumers; stop the other consumers, or wait until they have ended", s.queue, ErrNothingComes, depth.Messages, depth.Consumers)
		}
	}
}

// takenBack is an error if the broker has taken back the messages of a window without a consumer.
func (s *Sweep) takenBack() error {
	for _, w := range s.full {
		if w.isTakenBack() {
			return s.fault(w, w.why())
		}
	}
	return nil
}

// ahead is how many messages may be fetched ahead if this many new ones are wanted. Those that found no
// room before are fetched without others behind them: if these found none, the former would be returned
// once more, and each time counts toward a delivery limit.
func (s *Sweep) ahead(want int) int {
	if s.spilled > 0 {
		return min(want+s.coming, s.spilled)
	}
	return want + s.coming
}

// emptyAfter is after how long without messages a queue without ready messages counts as empty. If no other
// consumer can have taken its messages, they are most likely on their way: RabbitMQ may take seconds to
// read large ones.
func (s *Sweep) emptyAfter(now Depth) time.Duration {
	const active = 1
	if s.passing || s.others > 0 || now.Consumers > active+len(s.full) {
		return suspect
	}
	return max(suspect, s.waits)
}

// WaitAtMost is for a sweep that may not keep messages for long: it limits emptyAfter.
func (s *Sweep) WaitAtMost(most time.Duration) { s.waits = min(s.waits, most) }

// isEmptied reports whether the queue has no more messages for a window that gets none. After the broker's
// answer that its consumer is canceled nothing comes any more.
func (s *Sweep) isEmptied(ctx context.Context) (bool, error) {
	w := s.current
	if err := s.call(ctx, w.turn, func() error {
		_, err := inspect(w.ch, s.queue)
		return err
	}); err != nil {
		return false, s.fault(w, err)
	}
	if err := s.cancel(ctx, w); err != nil {
		return false, err
	}
	select {
	case <-w.ended:
	case <-ctx.Done():
		return false, ctx.Err()
	}
	if !w.isOver() {
		return false, nil
	}
	d, err := s.conn.inspect(ctx, s.queue, !s.fragile)
	return d.Messages == 0, err
}

// MakeRoom lifts the limit of memory, so that nothing is returned because there is no room for it.
func (s *Sweep) MakeRoom() { s.roomy = true }

// Lost is an ErrDisconnected if the connection is lost.
func (s *Sweep) Lost() error {
	if err := s.conn.Lost(); err != nil {
		return fmt.Errorf("read queue %q: %w", s.queue, err)
	}
	return nil
}

// Gone can be received from when the connection is lost, or the sweep is closed: nothing can be removed any more.
func (s *Sweep) Gone() <-chan *amqp.Error { return s.gone }

// Restarts reports whether the next call of Take returns messages to the queue and takes them again.
// Batches that were taken before cannot be removed after that.
func (s *Sweep) Restarts() bool { return s.current != nil && s.current.isOver() && s.current.spilled() }

// Holds reports whether messages have come that were not removed.
func (s *Sweep) Holds() bool { return len(s.full) > 0 || s.current != nil && s.current.unsettled() }

// split separates new messages from those that were taken before.
func (s *Sweep) split(batch []Message) (fresh, again []Message) {
	if s.coming == 0 {
		return batch, nil
	}
	for _, m := range batch {
		if TakeOne(s.again, FingerprintOf(&m)) {
			s.coming--
			again = append(again, m)
		} else {
			fresh = append(fresh, m)
		}
	}
	return fresh, again
}

// Ahead reports whether messages have come that were not taken, or may come without another call of Take.
func (s *Sweep) Ahead() bool { return s.current != nil && !s.current.isOver() }

// Unread ends the current window, and returns what has come to it and was not taken: to be removed, or
// returned to the queue by Rewind or Close.
func (s *Sweep) Unread(ctx context.Context) (Batch, error) {
	w := s.current
	if w == nil || w.ch.IsClosed() {
		return Batch{}, nil
	}
	if err := s.stop(ctx); err != nil {
		return Batch{}, err
	}
	select {
	case <-w.ended:
	case <-ctx.Done():
		return Batch{}, ctx.Err()
	}
	fresh, again := s.split(w.take(math.MaxInt, math.MaxInt))
	w.neverTaken(fresh)
	return Batch{fresh, again, w}, nil
}

// TakeOne takes one out of several that are counted, and reports whether there was one.
func TakeOne(counted map[Fingerprint]int, print Fingerprint) bool {
	switch counted[print] {
	case 0:
		return false
	case 1:
		delete(counted, print)
	default:
		counted[print]--
	}
	return true
}

// Remove removes messages of a batch from the queue, by their tags in ascending order. When it returns, the
// queue has the acks: if this process then dies, none of the messages is delivered again. An error means that
// some may be.
//
// That makes room for others. If these might be more than are wanted, the consumer is canceled first:
// otherwise some returned messages would be taken, and end up behind the others.
func (s *Sweep) Remove(ctx context.Context, b Batch, tags []uint64) error {
	w := b.window
	if len(tags) == 0 {
		return nil
	}
	var ending error
	if w == s.current && !w.canceled && w.mayGet(len(tags)) > w.most {
		if ending = s.call(ctx, w.turn, w.complete); ending == nil {
			ending = s.cancel(ctx, w)
		}
	}
	if ending == nil && w.hasManyCommits() {
		ending = s.prove(ctx, w)
	}
	err := s.fault(w, w.remove(tags)) // in any case they are new if they come again
	if err == nil {
		err = s.commit(ctx, w)
	}
	return cmp.Or(ending, err)
}

// commit has the broker remove what was acked.
func (s *Sweep) commit(ctx context.Context, w *window) error {
	err := s.call(ctx, w.turn, w.ch.TxCommit)
	if err == nil && w.hasLapsed() {
		err = ErrHeldTooLong
	}
	return s.fault(w, err)
}

// prove waits until the queue has the acks of a window's commits.
func (s *Sweep) prove(ctx context.Context, w *window) error {
	if !w.canceled {
		if err := s.call(ctx, w.turn, w.complete); err != nil || !w.hasManyCommits() {
			return err
		}
		return s.cancel(ctx, w)
	}
	// Without a consumer nothing can show it. Windows of up to maxWindow messages have few enough commits left
	// when theirs is canceled, unless the batches are small.
	err := Pause(ctx, w.commits.rest())
	if err == nil {
		w.commits.clear()
	}
	return err
}

// Rewind returns everything to the queue. Take does not return again what it has returned.
func (s *Sweep) Rewind(ctx context.Context) error {
	for _, w := range s.full {
		s.expect(w)
	}
	if s.current != nil {
		s.expect(s.current)
	}
	s.giveBack(ctx)
	return ctx.Err()
}

// expect notes what a window holds, so that Take recognises it when it comes again.
func (s *Sweep) expect(w *window) {
	if s.again == nil {
		s.again = make(map[Fingerprint]int)
	}
	for _, h := range w.held {
		if !h.unread {
			s.again[h.fingerprint]++
			s.coming++
		}
	}
}

// Close returns everything to the queue. When it returns, the broker has every removal, and has requeued
// what stays. An error means that it may not have done so yet; it will when the connection is closed.
func (s *Sweep) Close(ctx context.Context) error {
	s.giveBack(ctx)
	s.closeControl()
	if s.stranded {
		return fmt.Errorf("return the messages of queue %q: %w", s.queue, context.Cause(ctx))
	}
	return nil
}

func (s *Sweep) closeControl() {
	s.conn.link.calls.start(func() {
		s.asking <- struct{}{}
		_ = s.control.Close()
	})
}

// depth asks for the depth of the queue.
func (s *Sweep) depth(ctx context.Context) (d Depth, err error) {
	answer := make(chan Depth, 1) // the call may outlast its caller
	err = s.call(ctx, s.asking, func() error {
		d, err := inspect(s.control, s.queue)
		answer <- d
		return err
	})
	if err == nil {
		d = <-answer
	}
	return d, err
}

// open opens the next window.
func (s *Sweep) open(ctx context.Context, want int) error {
	size := s.size
	if s.cap > 0 {
		size = min(size, s.cap)
	}
	w := newWindow(max(1, min(size, want)), s.room)
	w.roomy = s.roomy
	_, err := s.conn.on(ctx, func(ch *amqp.Channel) error { return w.open(ch, s.queue) })
	if err != nil {
		s.stranded = s.stranded || ctx.Err() != nil // it may still be opened, until it is closed again
		return s.conn.ended(err)
	}
	s.opened++
	s.current = w
	return nil
}

// next leaves a window that is over.
func (s *Sweep) next(ctx context.Context) error {
	w := s.current
	if w.spilled() {
		// What did not fit comes again, and so does what of this window stays.
		s.expect(w)
		s.current = nil
		if !w.canceled {
			_ = s.call(ctx, w.turn, w.complete) // then the size of the others is known
		}
		if s.spilled == 0 {
			s.largest = 0
		}
		dropped := 0
		for _, f := range s.followed(ctx, w) {
			s.release(ctx, f, true)
			dropped += f.notTaken()
			s.largest = max(s.largest, f.largestBody())
		}
		s.spilled = max(s.spilled, dropped) + len(w.held)
		s.size = max(1, min(w.prefetch/2, s.room/max(1, s.largest)/2))
		return ctx.Err()
	}
	largest := max(1, w.largestBody())
	if s.spilled > 0 {
		largest = max(largest, s.largest)
	}
	limit := maxWindow
	if s.opened > manyWindows {
		limit = hugeWindow
	}
	s.size = max(1, min(s.size*growWindow, limit, s.room/largest))
	s.current = nil
	if len(w.held) > 0 {
		s.full = append(s.full, w)
		return nil
	}
	return s.fault(w, s.call(ctx, w.turn, w.close))
}

// cancel ends the consumer of a window.
func (s *Sweep) cancel(ctx context.Context, w *window) error {
	if w.canceled {
		return nil
	}
	w.canceled = true
	err := s.call(ctx, w.turn, func() error { return w.ch.Cancel(w.tag, false) })
	if err == nil {
		w.commits.clear()
	}
	return s.fault(w, err)
}

// stop ends the consumer of the current window, when what is on its way has come.
func (s *Sweep) stop(ctx context.Context) error {
	w := s.current
	if w.canceled {
		return nil
	}
	d, err := s.depth(ctx)
	if err != nil {
		return err
	}
	w.canceled = true
	if err = s.call(ctx, w.turn, func() error { return w.cancel(d.Messages > 0) }); err == nil {
		w.commits.clear()
	}
	return s.fault(w, err)
}

// giveBack returns the messages of all windows to the queue, in order.
func (s *Sweep) giveBack(ctx context.Context) {
	all := s.full
	if w := s.current; w != nil {
		all = append(all, w)
		_ = s.stop(ctx) // otherwise it would get what the others return
	}
	if len(all) > 0 {
		d, err := s.depth(ctx)
		lingers := err != nil || d.Consumers > s.others
		for _, w := range all {
			s.release(ctx, w, lingers)
		}
	}
	s.full, s.current = nil, nil
}

// release returns the messages of a window, and waits until they are in the queue again. counted: until
// then it counts as a consumer, as with quorum queues.
//
// A classic queue puts every message back in its place. A quorum queue puts it behind others that were
// returned, so the order is that of the returns. When a channel closes, all its messages are returned in
// order, also those on their way.
func (s *Sweep) release(ctx context.Context, w *window, counted bool) {
	if w.ch.IsClosed() { // the broker has requeued everything
		_ = w.close()
		return
	}
	lapsed := w.hasLapsed()
	before, err := s.depth(ctx)
	canceled := w.canceled || lapsed
	_ = s.call(ctx, w.turn, func() error {
		if w.unsettled() && (s.nacks || !counted) {
			if !canceled {
				_ = w.cancel(true)
			}
			_ = w.giveBack()
		}
		return w.close()
	})
	s.stranded = s.stranded || ctx.Err() != nil
	counted = counted && !lapsed // the broker may have ceased to count it
	for until := time.Now().Add(takeBack); err == nil && counted && time.Now().Before(until); {
		var now Depth
		if now, err = s.depth(ctx); err != nil || now.Consumers < before.Consumers || now.Consumers <= s.others {
			return
		}
		err = Pause(ctx, pollInterval)
	}
}

var timedOut = regexp.MustCompile(`Timeout value used: (\d+) ms`)

// fault is what the end of a window's channel means.
func (s *Sweep) fault(w *window, err error) error {
	if errors.Is(err, amqp.ErrClosed) {
		err = w.why()
	}
	e, is := errors.AsType[*amqp.Error](err)
	switch {
	case err == nil:
		return nil
	case is && e.Code == amqp.PreconditionFailed && strings.Contains(e.Reason, "timed out"):
		err = ErrHeldTooLong
		if m := timedOut.FindStringSubmatch(e.Reason); m != nil {
			if ms, overflow := strconv.Atoi(m[1]); overflow == nil {
				err = &TimeoutError{Timeout: time.Duration(ms) * time.Millisecond}
			}
		}
	case errors.Is(err, ErrHeldTooLong):
	default:
		err = s.conn.ended(lost(err))
	}
	return fmt.Errorf("read queue %q: %w", s.queue, err)
}

// lost is an error as ErrDisconnected, unless it is the broker's answer to a call, or the caller's own.
func lost(err error) error {
	e, is := errors.AsType[*amqp.Error](err)
	if err == nil || is && e.Server && e.Code != amqp.ConnectionForced ||
		errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrDisconnected) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrDisconnected, err)
}
