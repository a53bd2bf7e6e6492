package rabbit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// pubSession is one channel in confirm mode.
//
// The broker sends the return of an unroutable message before its confirm, and amqp091-go passes on both
// in that order from one goroutine. The channel of returns has room for every unconfirmed message, so
// passing on a return never waits; the first goroutine that sees a confirm receives all returns so far.
// So no return is missed, and none is attributed to another message: two messages with the same id are
// never unconfirmed at once.
type pubSession struct {
	ch           *amqp.Channel
	returns      chan amqp.Return
	closed       chan *amqp.Error
	ended        chan *amqp.Error     // for watch and close
	replies      <-chan amqp.Delivery // nil: it gets none
	repliesEnded chan struct{}        // closed when no more replies come

	mu        sync.Mutex
	underway  map[string]unconfirmed // by message id
	atEnd     map[string]int         // how many were under way to each exchange when the channel closed
	returned  map[string]error
	exchanges map[string]*lookup // those that were asked for
	freed     chan struct{}      // not nil while somebody waits for an id; closed when one is freed
	refusing  time.Time          // when the broker refused a message first
	retired   bool               // takes no more messages
	expecting int                // requests that wait for their replies
	senders   int                // who have claimed an id and not yet sent their message
	unused    chan struct{}      // closed: retired, and nobody is about to send
	end       *amqp.Error
}

// refusalLimit is how long the broker may refuse messages on a channel, whatever else it takes meanwhile, before the
// channel is replaced.
//
// A full queue refuses on every channel, and then a new one does no harm. But there are queues that refuse on one
// channel only, until that is closed: a quorum queue that misses one of the channel's messages when its leader changes;
// and in RabbitMQ 3.10 to 3.12 one whose leader was down when the channel published to it first, until that node is back.
const refusalLimit = 5 * time.Second

// refused notes that the broker has refused a message, and reports whether it has done so for too long.
func (s *pubSession) refused() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refusing.IsZero() {
		s.refusing = time.Now()
	}
	return time.Since(s.refusing) >= refusalLimit
}

// retire ends sending on the channel. It is closed when nothing is unconfirmed on it.
func (s *pubSession) retire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.retired {
		return
	}
	s.retired = true
	s.wake()
	if s.senders == 0 {
		close(s.unused)
	}
}

// sent notes that a caller that has claimed an id has sent the message, or will not.
func (s *pubSession) sent() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.senders--; s.retired && s.senders == 0 {
		close(s.unused)
	}
}

// close closes a retired channel when no caller is about to send: the broker closes the whole connection
// if a frame follows the end of its channel.
func (s *pubSession) close() {
	select {
	case <-s.unused:
		_ = s.ch.Close()
	case <-s.ended:
	}
}

// spent reports whether the channel is not needed any more.
func (s *pubSession) spent() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.retired && len(s.underway) == 0 && s.expecting == 0
}

// expect notes that a request waits for its reply, or with -1 that it does no longer.
func (s *pubSession) expect(by int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expecting += by
}

// unconfirmed is an unconfirmed message.
type unconfirmed struct {
	exchange string
	since    time.Time
}

// stalled reports whether a message was sent before then and has no answer yet.
func (s *pubSession) stalled(then time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.underway {
		if f.since.Before(then) {
			return true
		}
	}
	return false
}

// lookup is the check whether an exchange exists. One caller asks, and all others wait for the answer.
type lookup struct {
	done chan struct{}
	err  error
}

func openPubSession(ctx context.Context, link *Link, window int, replies bool) (*pubSession, error) {
	s := &pubSession{
		underway: make(map[string]unconfirmed), returned: make(map[string]error), exchanges: make(map[string]*lookup), unused: make(chan struct{}),
	}
	ch, err := link.on(ctx, func(ch *amqp.Channel) (err error) {
		s.returns = ch.NotifyReturn(make(chan amqp.Return, window))
		s.closed = ch.NotifyClose(make(chan *amqp.Error, 1))
		s.ended = ch.NotifyClose(make(chan *amqp.Error, 1))
		if replies { // the broker takes requests only on the channel that consumes their replies, and the consumer must not ack
			s.repliesEnded = make(chan struct{})
			if s.replies, err = ch.Consume(directReplyTo, "", true, false, false, false, nil); err != nil {
				return err
			}
		}
		return ch.Confirm(false)
	})
	if err != nil {
		return nil, fmt.Errorf("open a channel with confirms: %w", err)
	}
	s.ch = ch
	return s, nil
}

// errDuplicateID: another message with the same id is unconfirmed.
var errDuplicateID = errors.New("another message with the same id is unconfirmed")

// errRetired: the channel takes no more messages.
var errRetired = errors.New("the channel is being replaced")

// claim reserves an id for a message that is sent at once: see sent. While another message with the same
// id is unconfirmed, it waits or fails with errDuplicateID. On a retired channel it fails with errRetired.
func (s *pubSession) claim(ctx context.Context, id, exchange string, wait bool) error {
	for {
		s.mu.Lock()
		if s.retired {
			s.mu.Unlock()
			return errRetired
		}
		if _, taken := s.underway[id]; !taken {
			s.underway[id] = unconfirmed{exchange: exchange, since: time.Now()}
			s.senders++
			s.mu.Unlock()
			return nil
		}
		if !wait {
			s.mu.Unlock()
			return errDuplicateID
		}
		if s.freed == nil {
			s.freed = make(chan struct{})
		}
		freed := s.freed
		s.mu.Unlock()
		select {
		case <-freed:
		case <-ctx.Done():
			return fmt.Errorf("%w: another message with the id %q is unconfirmed: %w", ErrDisconnected, id, ctx.Err())
		}
	}
}

func (s *pubSession) free(id string) {
	s.mu.Lock()
	s.release(id)
	s.mu.Unlock()
}

func (s *pubSession) release(id string) {
	delete(s.underway, id)
	s.wake()
}

// wake lets callers that wait for an id check again. The caller holds the lock.
func (s *pubSession) wake() {
	if s.freed != nil {
		close(s.freed)
		s.freed = nil
	}
}

// settle removes a message whose confirm has come, and returns an error if it was returned.
func (s *pubSession) settle(id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		select {
		case r, ok := <-s.returns:
			if ok {
				if _, mine := s.underway[r.MessageId]; mine {
					s.returned[r.MessageId] = unroutable(r)
				}
				continue
			}
		default:
		}
		break
	}
	if s.atEnd == nil && s.ch.IsClosed() {
		s.atEnd = make(map[string]int)
		for _, f := range s.underway {
			s.atEnd[f.exchange]++
		}
	}
	s.release(id)
	err := s.returned[id]
	delete(s.returned, id)
	return err
}

func unroutable(r amqp.Return) error {
	if r.ReplyCode == amqp.NoRoute && r.Exchange == "" {
		return fmt.Errorf("%w: there is no queue %q", ErrUnroutable, r.RoutingKey)
	}
	if r.ReplyCode == amqp.NoRoute {
		return fmt.Errorf("%w: no queue is bound to exchange %q for the key %q", ErrUnroutable, r.Exchange, r.RoutingKey)
	}
	return fmt.Errorf("%w: returned by the broker: %s (%d)", ErrUnroutable, r.ReplyText, r.ReplyCode)
}

// cause is why the channel was closed, nil if the broker gave no reason, and how many messages for the
// exchange were unconfirmed then.
func (s *pubSession) cause(exchange string) (*amqp.Error, int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case e := <-s.closed:
		if e != nil {
			s.end = e
		}
	default:
	}
	return s.end, s.atEnd[exchange]
}
