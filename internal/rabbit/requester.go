package rabbit

import (
	"context"
	"fmt"
	"sync"
)

// Requester sends requests and receives their replies, by RabbitMQ's direct reply-to: replies come to the
// channel that has sent the request, without a queue, and are lost when that channel ends. It is safe for
// concurrent use.
type Requester struct {
	publisher *Publisher

	mu      sync.Mutex
	waiting map[string]*Request // by the correlation id on the wire
	idle    chan struct{}       // not nil while Quiet waits until there is none
}

// Request is a request that was sent.
type Request struct {
	requester *Requester
	id        string
	session   *pubSession   // on which the reply comes
	replied   chan struct{} // closed when reply is set
	reply     Delivery
}

// NewRequester sends over link. It follows the link's state by SetState.
func NewRequester(link *Link, limits Limits) *Requester {
	r := &Requester{publisher: NewPublisher(link, limits), waiting: make(map[string]*Request)}
	r.publisher.replies = r.take
	return r
}

// SetState is SetState of a Publisher.
func (r *Requester) SetState(s State, err error) { r.publisher.SetState(s, err) }

// Close refuses new requests. Those that were sent end when the link closes.
func (r *Requester) Close() { r.publisher.Close() }

// Wait returns when nothing is left of what was sent. Call it after the link has closed.
func (r *Requester) Wait() { r.publisher.Wait() }

// Quiet waits until no request waits for its reply, or ctx ends, and returns how many do.
func (r *Requester) Quiet(ctx context.Context) (unanswered int) {
	r.mu.Lock()
	if len(r.waiting) == 0 {
		r.mu.Unlock()
		return 0
	}
	if r.idle == nil {
		r.idle = make(chan struct{})
	}
	idle := r.idle
	r.mu.Unlock()
	select {
	case <-idle:
		return 0
	case <-ctx.Done():
		r.mu.Lock()
		defer r.mu.Unlock()
		return len(r.waiting)
	}
}

// Send sends a request under a correlation id of its own, and returns when the broker has confirmed it or
// the reply is there. It waits for a connection until ctx ends. A request that may have been sent is not
// sent again: the reply to the first one could not arrive, and it may have been handled. The caller ends
// what Send returns.
func (r *Requester) Send(ctx context.Context, exchange, key string, msg *Publishing) (*Request, error) {
	q := &Request{requester: r, id: NewID(), replied: make(chan struct{})}
	r.mu.Lock()
	r.waiting[q.id] = q
	r.mu.Unlock()
	msg.CorrelationId = q.id
	c := resending{}
	for {
		err := q.send(ctx, exchange, key, msg)
		if err == nil {
			return q, nil
		}
		if c.isFinal(err) || Pause(ctx, resendPause) != nil {
			q.End()
			return nil, err
		}
	}
}

func (q *Request) send(ctx context.Context, exchange, key string, msg *Publishing) error {
	p := q.requester.publisher
	t, err := p.Send(ctx, exchange, key, msg)
	if err != nil {
		return err
	}
	q.session = t.session
	q.session.expect(1) // before the outcome is taken in: a retired session closes when nothing is left on it
	select {
	case <-q.replied:
		p.abandon(t)
		return nil
	case <-t.confirm.Done():
	case <-ctx.Done():
	}
	if err = p.Outcome(ctx, t); err != nil && q.hasReply() {
		return nil
	}
	return err
}

// Reply waits for the reply. The error is an ErrUnknown: the request may have been handled, or may still be.
func (q *Request) Reply(ctx context.Context) (Delivery, error) {
	var why error
	select {
	case <-q.replied:
	case <-q.session.repliesEnded:
		why = fmt.Errorf("%w: the channel for the reply was lost before the reply came", ErrUnknown)
	case <-ctx.Done():
		why = fmt.Errorf("%w: no reply: %w", ErrUnknown, ctx.Err())
	}
	if q.hasReply() {
		return q.reply, nil
	}
	return Delivery{}, why
}

func (q *Request) hasReply() bool {
	select {
	case <-q.replied:
		return true
	default:
		return false
	}
}

// End forgets the request. A reply that comes later is dropped.
func (q *Request) End() {
	r := q.requester
	r.mu.Lock()
	delete(r.waiting, q.id)
	if len(r.waiting) == 0 && r.idle != nil {
		close(r.idle)
		r.idle = nil
	}
	r.mu.Unlock()
	if q.session != nil {
		q.session.expect(-1)
	}
}

// take passes a reply to its request. Second replies, and those for requests that were given up, are
// dropped.
func (r *Requester) take(d Delivery) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if q := r.waiting[d.CorrelationId]; q != nil && !q.hasReply() {
		q.reply = d
		close(q.replied)
	}
}
