package rabbit

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop/topology"
)

// ConsumeOptions are what to consume and how.
type ConsumeOptions struct {
	Queue     string
	Tag       string // "": the broker makes one
	Exclusive bool
	Args      map[string]any
	// Plan is declared before the session.
	Plan topology.Plan
	// First is the queue of the plan that is declared before everything else, so that nothing is declared if the broker refuses it.
	First string
	// Timeout is the consumer timeout to ask for, which quorum queues have from RabbitMQ 4.3 on. 0: none.
	Timeout time.Duration
	// QuorumPriorities: the queue is a quorum queue and must have priorities.
	QuorumPriorities bool
	// Settled is called when acks, requeues and rejects have been sent, or when the session ended first,
	// with the notes of deliveries that have one, and before the session has ended. All calls of a session
	// come from one goroutine, on which Around runs the function that makes them. Both may be nil.
	Settled func(notes []any, sent bool)
	Around  func(calls func())
}

// Delivery is a message that belongs to a session.
type Delivery struct {
	amqp.Delivery
	Session *Session
	Note    any // for ConsumeOptions.Settled
}

// Ack acks the message, a little later, together with others. If its session has ended, this does nothing
// and returns false: the broker has redelivered the message, and the tag may mean another message by now.
func (d *Delivery) Ack() bool { return d.Session.ledger.settle(d.DeliveryTag, acked, d.Note) }

// Requeue requeues the message. False: see Ack.
func (d *Delivery) Requeue() bool { return d.Session.ledger.settle(d.DeliveryTag, requeued, d.Note) }

// Reject has the broker dead-letter the message. False: see Ack.
func (d *Delivery) Reject() bool { return d.Session.ledger.settle(d.DeliveryTag, rejected, d.Note) }

// Session is one consumer on one channel, from its beginning to its end.
type Session struct {
	ch         *amqp.Channel
	tag        string
	deliveries <-chan amqp.Delivery
	ledger     *ledger
	conn       *Conn
	queue      string
	overdue    time.Time     // from then on deliveries may have been held for too long; zero: never
	ended      chan struct{} // closed when nothing of this session can be settled any more
	exhausted  chan struct{} // closed when the last delivery has been taken

	canceled chan struct{} // closed when the broker sends no more
	closing  chan struct{} // closed by Close

	// calls has room for the one call that waits for its answer, and none is made after the channel was
	// closed: amqp091-go gives an answer to the first call that waits, and the broker ends the whole
	// connection when a closed channel is used.
	calls chan struct{}

	mu        sync.Mutex
	closed    bool // by Close
	canceling bool
	emptied   bool
	retired   bool
	taking    int // goroutines that may have a delivery that the ledger does not know yet
}

// OpenSession declares the plan and starts a consumer with the given prefetch.
func (l *Link) OpenSession(ctx context.Context, o ConsumeOptions, prefetch int) (*Session, error) {
	line, err := l.Conn(ctx)
	if err != nil {
		return nil, err
	}
	if release := line.release(); o.QuorumPriorities && !release.hasQuorumPriorities() {
		return nil, &DeclareError{Object: "queue", Name: o.Queue, Code: amqp.NotImplemented, Reason: fmt.Sprintf("quorum queues of RabbitMQ %s have no priorities", release),
			Hint: "use a classic queue, leave out max-priority, or use RabbitMQ 4.0 or later"}
	}
	// Calls end before this returns: a subscription that was stopped must not declare or consume the queue.
	ctx, end := Grace(ctx, openGrace)
	defer end()
	s, err := line.openSession(ctx, o, prefetch)
	if d, is := errors.AsType[*DeclareError](err); is && o.Timeout > 0 && d.Code == amqp.PreconditionFailed && strings.Contains(d.Reason, timeoutArgument) {
		// It is a classic queue, which has none.
		o.Timeout = 0
		return line.openSession(ctx, o, prefetch)
	}
	return s, err
}

// openGrace is how long the broker may take to answer after the context of a session that is being opened has ended. If it takes longer, a message that it
// then sends to the session is taken back, and counts as delivered without an answer.
const openGrace = 10 * time.Second

const timeoutArgument = "x-consumer-timeout"

func (s *Conn) openSession(ctx context.Context, o ConsumeOptions, prefetch int) (*Session, error) {
	var session *Session
	_, err := s.on(ctx, func(ch *amqp.Channel) (err error) {
		session, err = s.consume(ch, o, prefetch)
		return err
	})
	if err != nil {
		return nil, err // session may still be set in the background
	}
	return session, nil
}

func (s *Conn) consume(ch *amqp.Channel, o ConsumeOptions, prefetch int) (*Session, error) {
	for _, q := range o.Plan.Queues {
		if q.Name != o.First {
			continue
		}
		if err := declareQueue(ch, q); err != nil {
			return nil, err
		}
	}
	if err := declare(ch, o.Plan); err != nil {
		return nil, err
	}
	if err := ch.Qos(prefetch, 0, false); err != nil {
		return nil, fmt.Errorf("set prefetch %d: %w", prefetch, err)
	}
	closed, canceled := ch.NotifyClose(make(chan *amqp.Error, 1)), ch.NotifyCancel(make(chan string, 1))
	tag := o.Tag
	if tag == "" {
		tag = "rehop-" + NewID()
	}
	args := ToTable(o.Args)
	if o.Timeout > 0 {
		args = maps.Clone(args)
		if args == nil {
			args = make(amqp.Table)
		}
		args[timeoutArgument] = o.Timeout.Milliseconds()
	}
	deliveries, err := ch.Consume(o.Queue, tag, false, o.Exclusive, false, false, args)
	if err != nil {
		return nil, declareError("consumer of queue", o.Queue, err)
	}
	session := &Session{ch: ch, tag: tag, deliveries: deliveries, ledger: newLedger(ch, prefetch, o), conn: s, queue: o.Queue,
		ended: make(chan struct{}), exhausted: make(chan struct{}), canceled: make(chan struct{}), closing: make(chan struct{}), calls: make(chan struct{}, 1)}
	if o.Timeout > 0 && s.release().hasQueueTimeouts() {
		session.overdue = time.Now().Add(o.Timeout - time.Minute) // clocks differ
	}
	go session.watch(closed, canceled)
	return session, nil
}

// watch ends the session when its channel has closed, when everything is settled after Cancel, or when
// the broker has redelivered its messages.
func (s *Session) watch(closed <-chan *amqp.Error, canceled <-chan string) {
	defer close(s.ended)
	for {
		select {
		case <-closed:
			s.ledger.stop()
			return
		case _, by := <-canceled:
			canceled = nil
			if by && s.timedOut() {
				s.ledger.stop() // the broker would end the connection for an ack on a channel that is being closed
				s.closeChannel()
				return
			}
		case <-s.closing:
			s.ledger.flush()
			s.ledger.stop() // first, for the same reason
			awaitRest(s.ledger, closed)
			s.closeChannel()
			return
		case <-s.ledger.drained:
			awaitRest(s.ledger, closed)
			// Closing is a round trip: when it returns, the broker has all that was sent before.
			s.closeChannel()
			s.ledger.stop()
			return
		}
	}
}

// awaitRest waits until the queue has a burst of acks, or the session is over.
func awaitRest[T any](l *ledger, over <-chan T) {
	wait := l.rest()
	if wait <= 0 {
		return
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-over:
	}
}

// timedOut reports whether the broker has canceled the consumer because of its consumer timeout. The
// overdue messages are in the queue again, and nothing names them: their acks would have no effect, and
// copies would be duplicates. Otherwise the queue was deleted.
func (s *Session) timedOut() bool {
	if s.overdue.IsZero() || time.Now().Before(s.overdue) {
		return false
	}
	err := s.conn.briefly(context.Background(), func(ch *amqp.Channel) error {
		_, err := ch.QueueDeclarePassive(s.queue, true, false, false, false, nil)
		return err
	})
	e, is := errors.AsType[*amqp.Error](err)
	return !is || e.Code != amqp.NotFound
}

// Next waits for the next delivery. False: this session will have no more.
func (s *Session) Next() (Delivery, bool) {
	s.reach()
	d, ok := <-s.deliveries
	return s.take(d, ok)
}

// Arrived is Next that does not wait. False: no other delivery has arrived yet, or there will be no more.
func (s *Session) Arrived() (Delivery, bool) {
	s.reach()
	select {
	case d, ok := <-s.deliveries:
		return s.take(d, ok)
	default:
		s.leave(false)
		return Delivery{}, false
	}
}

// NextBefore is Next that also returns when one of two channels yields first. more is false if this
// session will have no more.
func (s *Session) NextBefore(due <-chan time.Time, quit <-chan struct{}) (d Delivery, ok, more bool) {
	s.reach()
	select {
	case raw, ok := <-s.deliveries:
		d, ok = s.take(raw, ok)
		return d, ok, ok
	case <-due:
	case <-quit:
	}
	s.leave(false)
	return Delivery{}, false, true
}

// reach is called before a delivery is taken, and take afterwards.
func (s *Session) reach() {
	s.mu.Lock()
	s.taking++
	s.mu.Unlock()
}

// Alone waits, after Cancel, until the broker has the acks of all deliveries but one; it passes those that
// no other goroutine takes to the function rest. False: the session has ended, or quit was closed.
func (s *Session) Alone(quit <-chan struct{}, other func(Delivery)) bool {
	deliveries := s.deliveries
	s.reach()
	defer func() {
		if deliveries != nil {
			s.leave(false)
		}
	}()
	for {
		select {
		case <-s.ledger.alone:
			return s.roundTrip()
		case <-s.ended:
			return false
		case <-quit:
			return false
		case d, ok := <-deliveries:
			if d, ok := s.take(d, ok); ok {
				s.reach()
				other(d)
			} else {
				deliveries = nil
			}
		}
	}
}

// Flush sends every ack, requeue and reject so far.
func (s *Session) Flush() { s.ledger.flush() }

// Sync waits until the queue has every ack, requeue and reject so far, or the session has ended.
func (s *Session) Sync() {
	s.ledger.flush()
	s.roundTrip()
}

// roundTrip reports whether the queue has all that was sent before.
func (s *Session) roundTrip() bool {
	awaitRest(s.ledger, s.ended)
	return s.call(func() error { return s.ch.Qos(1, 0, false) }) == nil
}

func (s *Session) closeChannel() { _ = s.call(s.ch.Close) }

// call makes a call of the channel when no other waits for its answer.
func (s *Session) call(f func() error) error {
	s.calls <- struct{}{}
	defer func() { <-s.calls }()
	return f()
}

func (s *Session) take(d amqp.Delivery, ok bool) (Delivery, bool) {
	if ok {
		s.ledger.delivered(d.DeliveryTag)
	}
	s.leave(!ok)
	if !ok {
		return Delivery{}, false
	}
	return Delivery{Delivery: d, Session: s}, true
}

// leave notes that the ledger knows what was taken, if anything, and whether there was no more. The last
// one to leave retires the ledger: before, a goroutine may have a delivery that it does not know.
func (s *Session) leave(empty bool) {
	s.mu.Lock()
	s.taking--
	s.emptied = s.emptied || empty
	last := s.emptied && s.taking == 0 && !s.retired
	s.retired = s.retired || last
	s.mu.Unlock()
	if last {
		close(s.exhausted)
		s.ledger.retire()
	}
}

// Cancel asks the broker to send no more, and waits until it has agreed. What has been sent can still
// be taken with Next, and settled; then the session ends.
func (s *Session) Cancel() {
	s.mu.Lock()
	first := !s.canceling
	s.canceling = true
	s.mu.Unlock()
	if !first {
		select {
		case <-s.canceled:
		case <-s.ended:
		}
		return
	}
	if err := s.call(func() error { return s.ch.Cancel(s.tag, false) }); err != nil {
		// The channel is gone, and so is the consumer.
		s.closeChannel()
	}
	close(s.canceled)
}

// Close ends the session at once. The broker takes back what is not settled.
func (s *Session) Close() {
	s.mu.Lock()
	first := !s.closed
	s.closed = true
	s.mu.Unlock()
	if first {
		close(s.closing)
	}
	<-s.ended
}

// Exhausted is closed when the last delivery has been taken: the broker or Cancel has ended the
// consumer, or the connection is lost.
func (s *Session) Exhausted() <-chan struct{} { return s.exhausted }

// HasEnded reports whether nothing of this session can be settled any more.
func (s *Session) HasEnded() bool {
	select {
	case <-s.ended:
		return true
	default:
		return false
	}
}

// Lost reports whether the broker has taken back what is not settled. It is true as soon as Next
// returns false because of that, which is before the session has ended.
func (s *Session) Lost() bool { return s.HasEnded() || s.ch.IsClosed() }

// Ended is closed when nothing of this session can be settled any more.
func (s *Session) Ended() <-chan struct{} { return s.ended }

// Permanent reports whether the broker has refused to open a session, rather than not been reached.
func Permanent(err error) bool {
	_, refused := errors.AsType[*DeclareError](err)
	return refused || errors.Is(err, ErrClosed)
}
