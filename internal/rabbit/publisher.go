package rabbit

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Publishing is a message on its way to the broker. The id must not be empty.
type Publishing = amqp.Publishing

// Table is a table of headers as it goes over the wire.
type Table = amqp.Table

// The delivery modes.
const (
	Transient  = amqp.Transient
	Persistent = amqp.Persistent
)

// Publisher sends messages and learns what became of them. It is safe for concurrent use.
type Publisher struct {
	link    *Link
	gate    *gate
	started *gate          // those that Start has sent and that have no outcome yet
	maxBody atomic.Int64   // what the broker has said that it takes
	replies func(Delivery) // not nil: its messages are requests, and this takes their replies

	mu      sync.Mutex
	session *pubSession // nil: none yet
	opening *opening    // not nil while one is being opened

	openSince atomic.Int64 // since when the link is open, in Unix nanoseconds
	storms    storms
	pending   group // confirms whose callers have gone
}

// NewPublisher publishes over link. Its gate follows the link's state by SetState.
func NewPublisher(link *Link, limits Limits) *Publisher {
	p := &Publisher{link: link, gate: newGate(limits), started: newGate(limits)}
	p.started.set(true, nil)
	p.maxBody.Store(math.MaxInt64)
	return p
}

// SetState opens or shuts the gate.
func (p *Publisher) SetState(s State, err error) {
	switch s {
	case Open:
		p.openSince.Store(time.Now().UnixNano())
		p.gate.set(true, nil)
	case Blocked:
		p.gate.set(false, err)
	case Recovering:
		p.gate.set(false, fmt.Errorf("%w: %w", ErrDisconnected, err))
	case Closed:
		p.gate.close()
	}
}

// Close turns new messages away. Those under way end when the link closes.
func (p *Publisher) Close() {
	p.started.close()
	p.gate.close()
}

// Quiet waits until no message is under way, or ctx ends, and returns how many are.
func (p *Publisher) Quiet(ctx context.Context) (unconfirmed int) {
	select {
	case <-p.gate.quiet():
		return 0
	case <-ctx.Done():
		return p.gate.underway()
	}
}

// Wait returns when nothing is left of what was published. Call it after the link has closed.
func (p *Publisher) Wait() { p.pending.wait() }

// Ticket is a message that was sent and not yet answered for.
type Ticket struct {
	session *pubSession
	confirm *amqp.DeferredConfirmation
	id      string
	destination
	size int
}

// messageOverhead stands for frames and properties where the size of a message is reckoned.
const messageOverhead = 512

// Send hands one message to the connection, waiting for a place if need be, and returns a ticket
// for its outcome. An error means that it was not sent.
func (p *Publisher) Send(ctx context.Context, exchange, key string, msg *Publishing) (Ticket, error) {
	if err := p.storms.await(ctx, destination{exchange, key}); err != nil {
		return Ticket{}, err
	}
	return p.send(ctx, exchange, key, msg, whenPossible)
}

// readiness is what a caller of send waits for. One who holds tickets must not wait for room: if all who hold some did so at once,
// nobody would ever give any back. It gets errNoPlace instead. One who does not wait for the end of another message with the same id
// gets errTwin.
type readiness int

const (
	atOnce          readiness = iota // nothing
	whenThereIsRoom                  // a place in the window
	whenPossible                     // that, and the end of another message with the same id
	behindAll                        // that, also behind as many as may wait while there is no broker
)

func (p *Publisher) send(ctx context.Context, exchange, key string, msg *Publishing, when readiness) (Ticket, error) {
	if err := check(exchange, key, msg, int(p.maxBody.Load())); err != nil {
		return Ticket{}, err
	}
	size := len(msg.Body) + messageOverhead
	enter := p.gate.tryEnter
	switch when {
	case whenThereIsRoom, whenPossible:
		enter = p.gate.enter
	case behindAll:
		enter = p.gate.enterBehind
	}
	if err := enter(ctx, size); err != nil {
		return Ticket{}, err
	}
	t, err := p.transmit(ctx, exchange, key, msg, when)
	if err != nil {
		p.gate.leave(size)
		return Ticket{}, err
	}
	t.size = size
	return t, nil
}

func (p *Publisher) transmit(ctx context.Context, exchange, key string, msg *Publishing, when readiness) (Ticket, error) {
	s, err := p.claim(ctx, exchange, msg.MessageId, when)
	if err != nil {
		return Ticket{}, err
	}
	defer s.sent()
	// The last moment at which the caller can still be heard: sent is sent.
	if err := ctx.Err(); err != nil {
		s.free(msg.MessageId)
		return Ticket{}, fmt.Errorf("%w: not sent: %w", ErrDisconnected, err)
	}
	sent := *msg
	if p.replies != nil {
		sent.ReplyTo = directReplyTo
	}
	confirm, err := s.ch.PublishWithDeferredConfirm(exchange, key, !isDirectReply(exchange, key), false, sent)
	if err != nil {
		s.free(msg.MessageId)
		return Ticket{}, fmt.Errorf("%w: %w", ErrDisconnected, err)
	}
	return Ticket{session: s, confirm: confirm, id: msg.MessageId, destination: destination{exchange, key}}, nil
}

// claim reserves an id on a channel that takes messages.
func (p *Publisher) claim(ctx context.Context, exchange, id string, when readiness) (*pubSession, error) {
	for {
		s, err := p.current(ctx)
		if err != nil {
			return nil, err
		}
		if err := p.knows(ctx, s, exchange); err != nil {
			return nil, err
		}
		if err := s.claim(ctx, id, exchange, when >= whenPossible); err == nil || !errors.Is(err, errRetired) {
			return s, err
		}
	}
}

// Outcome waits for what the broker says. Nil: it has the message, in a queue.
func (p *Publisher) Outcome(ctx context.Context, t Ticket) error {
	select {
	case <-t.confirm.Done():
	case <-ctx.Done():
		p.abandon(t)
		return fmt.Errorf("%w: no confirm yet: %w", ErrUnknown, ctx.Err())
	}
	returned := t.session.settle(t.id)
	p.gate.leave(t.size)
	if returned != nil {
		return returned
	}
	if t.confirm.Acked() {
		p.storms.calm(t.destination)
		t.session.accepted(t.exchange)
		return nil
	}
	if t.session.ch.IsClosed() {
		return p.lost(t)
	}
	p.storms.grow(t.destination)
	if t.session.refused(t.exchange) {
		p.replace(t.session)
	}
	return fmt.Errorf("%w: %w", ErrRefused, ErrNacked)
}

// abandon is for a message whose outcome nobody waits for. The broker may still answer; until then it keeps its place in the window.
func (p *Publisher) abandon(t Ticket) {
	late := func() {
		<-t.confirm.Done()
		t.session.settle(t.id)
		p.gate.leave(t.size)
	}
	if !p.pending.start(late) {
		late() // the link has closed, and with it every confirm is settled
	}
}

// lost finds out what the end of its channel means for a message that was under way.
func (p *Publisher) lost(t Ticket) error {
	e, underway := t.session.cause(t.exchange)
	if e == nil || !e.Server || !e.Recover {
		return fmt.Errorf("%w: connection lost before the confirm", ErrUnknown)
	}
	exchange, maxSize := culprit(e)
	if maxSize > 0 {
		p.maxBody.Store(int64(maxSize))
		if t.size-messageOverhead > maxSize {
			return fmt.Errorf("%w: the body has %d bytes, the broker's limit is %d", ErrTooLarge, t.size-messageOverhead, maxSize)
		}
	}
	mine := exchange != "" && exchange == t.exchange
	if mine && underway == 1 { // no other can be meant
		if e.Code == amqp.NotFound {
			return fmt.Errorf("%w: %s (%d)", ErrUnroutable, e.Reason, e.Code)
		}
		return fmt.Errorf("%w: %s (%d)", ErrRefused, e.Reason, e.Code)
	}
	// The message that was refused cannot be told from those that were sent just before it; but sent
	// again, it meets the same answer, which then is its own.
	return &channelError{mine: mine, code: e.Code, reason: e.Reason}
}

// channelError is an ErrUnknown that came with a channel exception.
type channelError struct {
	mine   bool // the broker blamed the exchange that this message went to
	code   int
	reason string
}

func (e *channelError) Error() string {
	return fmt.Sprintf("%v: the broker closed the channel: %s (%d)", ErrUnknown, e.reason, e.code)
}

func (e *channelError) Is(target error) bool { return target == ErrUnknown }

// maxChannelErrors is how many channel exceptions one message may meet before it is given up:
// sending again what the broker refuses would tear down everybody's channel for ever.
const maxChannelErrors = 3

// Publish sends a message and waits for its outcome. With resend, a message whose fate is unknown
// is sent again under the same id until ctx ends.
func (p *Publisher) Publish(ctx context.Context, exchange, key string, msg *Publishing, resend bool) error {
	c := course{resend: resend}
	for {
		t, err := p.Send(ctx, exchange, key, msg)
		if err == nil {
			err = p.Outcome(ctx, t)
		}
		if err == nil || c.ends(err) || Pause(ctx, resendPause) != nil {
			return doubtful(c.doubt, err)
		}
	}
}

// resendPause keeps a broker that takes no channel, or that drops every connection, from being hit
// in a tight loop.
const resendPause = 10 * time.Millisecond

// course is what a message has been through until its outcome is certain.
type course struct {
	resend   bool
	refusals int   // channel exceptions that it has met
	doubt    error // not nil: an earlier try may have been stored
}

// ends reports whether err is final; otherwise the message is to be sent again.
func (c *course) ends(err error) bool {
	if errors.Is(err, ErrClosed) || errors.Is(err, errOverLimit) {
		return true
	}
	if !errors.Is(err, ErrUnknown) {
		return !errors.Is(err, ErrDisconnected)
	}
	if !c.resend {
		return true
	}
	c.doubt = err
	var ce *channelError
	if errors.As(err, &ce) {
		c.refusals++
		return ce.mine && c.refusals > 1 || c.refusals >= maxChannelErrors
	}
	return false
}

// doubtful is err; or, when an earlier try may have been stored all the same, the doubt about that,
// because the errors that say "not sent" or "stored nowhere" would not be true.
func doubtful(doubt, err error) error {
	if err == nil || doubt == nil || errors.Is(err, ErrUnknown) {
		return err
	}
	return fmt.Errorf("%w; sending again: %v", doubt, err)
}

// current returns a session whose channel is open. If there is none, one is opened in the background,
// for all who want one, and whoever wants one waits for it within its own context.
func (p *Publisher) current(ctx context.Context) (*pubSession, error) {
	for {
		p.mu.Lock()
		if s := p.session; s != nil && !s.ch.IsClosed() {
			p.mu.Unlock()
			return s, nil
		}
		o := p.opening
		if o == nil {
			o = &opening{done: make(chan struct{})}
			if !p.pending.start(func() { p.open(o) }) {
				p.mu.Unlock()
				return nil, ErrClosed
			}
			p.opening = o
		}
		p.mu.Unlock()
		select {
		case <-o.done:
			if o.err != nil {
				return nil, o.err
			}
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", ErrDisconnected, ctx.Err())
		}
	}
}

// opening is a session that is being opened.
type opening struct {
	done chan struct{}
	err  error
}

func (p *Publisher) open(o *opening) {
	s, err := openPubSession(context.Background(), p.link, p.gate.limits.Unconfirmed, p.replies != nil)
	if err != nil && !errors.Is(err, ErrClosed) && !errors.Is(err, ErrDisconnected) {
		err = fmt.Errorf("%w: %w", ErrDisconnected, err)
	}
	p.mu.Lock()
	if p.opening, o.err = nil, err; err == nil {
		p.session = s
		p.pending.start(func() { p.watch(s) })
		if p.replies != nil {
			p.pending.start(func() { p.receive(s) })
		}
	}
	p.mu.Unlock()
	close(o.done)
}

// receive hands on the replies that come to a session. One that gets no more of them takes no more requests.
func (p *Publisher) receive(s *pubSession) {
	for d := range s.replies {
		p.replies(Delivery{Delivery: d})
	}
	close(s.mute)
	p.replace(s)
}

// replace has the next message open a new channel. What is under way on the old one still gets its answer.
func (p *Publisher) replace(s *pubSession) {
	p.mu.Lock()
	if p.session == s {
		p.session = nil
	}
	p.mu.Unlock()
	s.retire()
}

// confirmLimit is how long a broker that is there and not blocked may take to answer for a message. It
// is longer than the election of a queue's leader, in which a confirm can get lost.
const confirmLimit = time.Minute

// watch closes a session on which a message gets no answer: all that are under way on it are then
// unknown, and can be sent again.
func (p *Publisher) watch(s *pubSession) {
	ticker := time.NewTicker(confirmLimit / 4)
	defer ticker.Stop()
	for {
		select {
		case <-s.ended:
			return
		case <-ticker.C:
		}
		if s.spent() {
			s.close()
			return
		}
		then := time.Now().Add(-confirmLimit)
		state, _ := p.link.State()
		if state == Open && time.Unix(0, p.openSince.Load()).Before(then) && s.stalled(then) {
			p.replace(s)
			s.close()
			return
		}
	}
}

// knows makes sure that the exchange exists before the first message goes to it: publishing to a
// missing one closes the channel, and every other message under way on it loses its answer.
func (p *Publisher) knows(ctx context.Context, s *pubSession, exchange string) error {
	if exchange == "" {
		return nil
	}
	s.mu.Lock()
	l, asked := s.exchanges[exchange]
	if !asked {
		l = &lookup{done: make(chan struct{})}
		s.exchanges[exchange] = l
	}
	s.mu.Unlock()
	if asked {
		select {
		case <-l.done:
			return l.err
		case <-ctx.Done():
			return fmt.Errorf("%w: look for exchange %q: %w", ErrDisconnected, exchange, ctx.Err())
		}
	}
	if l.err = p.look(ctx, exchange); l.err != nil {
		s.mu.Lock()
		delete(s.exchanges, exchange) // the next one asks again
		s.mu.Unlock()
	}
	close(l.done)
	return l.err
}

func (p *Publisher) look(ctx context.Context, exchange string) error {
	err := p.link.briefly(ctx, func(ch *amqp.Channel) error {
		return ch.ExchangeDeclarePassive(exchange, "topic", true, false, false, false, nil)
	})
	var e *amqp.Error
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrDisconnected), errors.Is(err, ErrBlocked), errors.Is(err, ErrClosed):
		return err
	case errors.As(err, &e) && (e.Code == amqp.NotFound || e.Server && e.Code == amqp.InternalError && !isASCII(exchange)): // see declareError
		return fmt.Errorf("%w: there is no exchange %q; list it in Config.Exchanges, or declare it with rehop topology apply", ErrUnroutable, exchange)
	case errors.As(err, &e) && e.Code == amqp.AccessRefused:
		// RabbitMQ 4.3 asks for configure permission to answer; publishing may be allowed all the same.
		return nil
	}
	return fmt.Errorf("%w: look for exchange %q: %w", ErrDisconnected, exchange, err)
}
