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
	started *gate          // messages of Start without an outcome
	maxBody atomic.Int64   // the limit that the broker has reported
	replies func(Delivery) // not nil: its messages are requests, and this takes their replies

	mu      sync.Mutex
	session *pubSession // nil: none yet
	opening *opening    // not nil while one is being opened

	openSince atomic.Int64 // since when the link is open, in Unix nanoseconds
	throttle  throttle
	pending   group        // confirms whose callers have returned
	doubtful  atomic.Int64 // messages of Start that ended without a confirm while the publisher was closing
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

// Close refuses new messages, and those that wait for a connection. Unconfirmed ones end when the link closes.
func (p *Publisher) Close() {
	p.started.close()
	p.gate.close()
}

// Quiet waits, after Close, until no message is under way, or ctx ends, and returns how many are, or have ended
// with ErrUnknown since Close when nobody waited for them.
func (p *Publisher) Quiet(ctx context.Context) (unconfirmed int) {
	for _, g := range []*gate{p.gate, p.started} {
		select {
		case <-g.quiet():
		case <-ctx.Done():
		}
	}
	// What Start has sent is in both.
	return max(p.gate.underway(), p.started.underway()) + int(p.doubtful.Load())
}

// Wait returns when nothing is left of what was published. Call it after the link has closed.
func (p *Publisher) Wait() { p.pending.wait() }

// Ticket is an unconfirmed message.
type Ticket struct {
	session *pubSession
	confirm *amqp.DeferredConfirmation
	id      string
	destination
	size int
}

// messageOverhead is an estimate for frames and properties in the size of a message.
const messageOverhead = 512

// Send sends one message, waits for a place in the window if necessary, and returns a ticket for its
// outcome. An error means that it was not sent.
func (p *Publisher) Send(ctx context.Context, exchange, key string, msg *Publishing) (Ticket, error) {
	if err := p.throttle.await(ctx, destination{exchange, key}); err != nil {
		return Ticket{}, err
	}
	return p.send(ctx, exchange, key, msg, whenPossible)
}

// readiness is what a caller of send waits for. A caller that holds tickets must not wait for room: if all
// that hold some did so at once, none would be released. It gets errNoPlace instead. A caller that does
// not wait for the end of another message with the same id gets errDuplicateID.
type readiness int

const (
	atOnce          readiness = iota // nothing
	whenThereIsRoom                  // a place in the window
	whenPossible                     // that, and the end of another message with the same id
	behindAll                        // that, also if Limits.Waiting callers wait already
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
	// The last moment at which the caller can cancel.
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
		if err := p.ensureExchange(ctx, s, exchange); err != nil {
			return nil, err
		}
		if err := s.claim(ctx, id, exchange, when >= whenPossible); err == nil || !errors.Is(err, errRetired) {
			return s, err
		}
	}
}

// Outcome waits for the outcome. Nil: the broker has stored the message in a queue.
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
		p.throttle.accepted(t.destination)
		return nil
	}
	if t.session.ch.IsClosed() {
		return p.lost(t)
	}
	p.throttle.refused(t.destination)
	if t.session.refused() {
		p.replace(t.session)
	}
	return fmt.Errorf("%w: %w", ErrRefused, ErrNacked)
}

// abandon is for a message whose outcome is not waited for. It keeps its place in the window until the
// broker answers.
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

// lost is the outcome of an unconfirmed message whose channel has closed.
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
	if mine && underway == 1 { // no other message can be meant
		if e.Code == amqp.NotFound {
			return fmt.Errorf("%w: %s (%d)", ErrUnroutable, e.Reason, e.Code)
		}
		return fmt.Errorf("%w: %s (%d)", ErrRefused, e.Reason, e.Code)
	}
	// It is unknown which of several messages was refused; but if it is sent again, it gets the same
	// answer, which then is its own.
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

// maxChannelErrors is how many channel exceptions one message may cause before it is given up: sending it
// again would close the channel of all publishers each time.
const maxChannelErrors = 3

// Publish sends a message and waits for its outcome. With resend, a message whose outcome is unknown is
// sent again under the same id until ctx ends.
func (p *Publisher) Publish(ctx context.Context, exchange, key string, msg *Publishing, resend bool) error {
	c := resending{resend: resend}
	for {
		t, err := p.Send(ctx, exchange, key, msg)
		if err == nil {
			err = p.Outcome(ctx, t)
		}
		if err == nil || c.isFinal(err) || Pause(ctx, resendPause) != nil {
			return doubtful(c.doubt, err)
		}
	}
}

// resendPause prevents a tight loop with a broker that refuses channels or drops every connection.
const resendPause = 10 * time.Millisecond

// resending is the state of a message until its outcome is certain.
type resending struct {
	resend   bool
	refusals int   // channel exceptions so far
	doubt    error // not nil: an earlier copy may have been stored
}

// isFinal reports whether err is final; otherwise the message is to be sent again.
func (c *resending) isFinal(err error) bool {
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
	closed, is := errors.AsType[*channelError](err)
	if !is {
		return false
	}
	c.refusals++
	return closed.mine && c.refusals > 1 || c.refusals >= maxChannelErrors
}

// doubtful is err; or, when an earlier copy may have been stored, an ErrUnknown, because "not sent" or
// "stored nowhere" may be wrong.
func doubtful(doubt, err error) error {
	if err == nil || doubt == nil || errors.Is(err, ErrUnknown) {
		return err
	}
	return fmt.Errorf("%w; sending again: %v", doubt, err)
}

// current returns a session whose channel is open. If there is none, one is opened in the background for
// all callers, and each waits for it within its own context.
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
		case <-p.gate.ended.Done():
			return nil, ErrClosed
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

// receive passes on the replies of a session. A session without replies takes no more requests.
func (p *Publisher) receive(s *pubSession) {
	for d := range s.replies {
		p.replies(Delivery{Delivery: d})
	}
	close(s.repliesEnded)
	p.replace(s)
}

// replace has the next message open a new channel. Unconfirmed messages on the old one still get their
// answer.
func (p *Publisher) replace(s *pubSession) {
	p.mu.Lock()
	if p.session == s {
		p.session = nil
	}
	p.mu.Unlock()
	s.retire()
}

// confirmLimit is how long a broker that is connected and not blocked may take to confirm a message. It is
// longer than the election of a queue's leader, in which a confirm can get lost.
const confirmLimit = time.Minute

// watch closes a session on which a message gets no answer: the outcome of all unconfirmed messages on it
// is then unknown, and they can be sent again.
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

// ensureExchange checks that the exchange exists before the first message goes to it: publishing to a
// missing one closes the channel, and every unconfirmed message on it loses its answer.
func (p *Publisher) ensureExchange(ctx context.Context, s *pubSession, exchange string) error {
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
	if l.err = p.findExchange(ctx, exchange); l.err != nil {
		s.mu.Lock()
		delete(s.exchanges, exchange) // the next one asks again
		s.mu.Unlock()
	}
	close(l.done)
	return l.err
}

func (p *Publisher) findExchange(ctx context.Context, exchange string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(p.gate.ended, cancel)()
	err := p.link.briefly(ctx, func(ch *amqp.Channel) error {
		return ch.ExchangeDeclarePassive(exchange, "topic", true, false, false, false, nil)
	})
	e, is := errors.AsType[*amqp.Error](err)
	switch {
	case err != nil && p.gate.ended.Err() != nil:
		return ErrClosed
	case err == nil, errors.Is(err, ErrDisconnected), errors.Is(err, ErrBlocked), errors.Is(err, ErrClosed):
		return err
	case is && (e.Code == amqp.NotFound || e.Server && e.Code == amqp.InternalError && !isASCII(exchange)): // see declareError
		return fmt.Errorf("%w: %w", ErrUnroutable, &NoExchangeError{exchange})
	case is && e.Code == amqp.AccessRefused:
		return nil // RabbitMQ 4.3 needs configure permission for a passive declare; publishing may be allowed anyway
	}
	return fmt.Errorf("%w: look for exchange %q: %w", ErrDisconnected, exchange, err)
}
