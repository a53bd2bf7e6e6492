package rabbit

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Start sends a message, and returns when it was sent or ctx has ended. It first waits for a place: the
// window limits all messages without an outcome, also those that have to be sent again. ctx has no effect
// after Start has returned.
//
// settled is called once with the outcome: before Start returns if the message was not sent, and otherwise
// on another goroutine, for which Wait waits. With resend, a message whose outcome is unknown is sent again
// under the same id until the publisher closes.
func (p *Publisher) Start(ctx context.Context, exchange, key string, msg *Publishing, resend bool, settled func(error)) {
	size := len(msg.Body) + messageOverhead
	if err := p.started.enter(ctx, size); err != nil {
		settled(p.whyNoRoom(ctx, err))
		return
	}
	t, err := p.sendStarted(ctx, exchange, key, msg)
	if err != nil {
		p.started.leave(size)
		settled(err)
		return
	}
	finish := func() {
		defer p.started.leave(size) // also if settled ends the goroutine
		err := p.finish(t, exchange, key, msg, resend)
		if errors.Is(err, ErrUnknown) && p.started.isClosed() {
			p.doubtful.Add(1)
		}
		settled(err)
	}
	if !p.pending.start(finish) {
		finish() // the link has closed, and with it every confirm is settled
	}
}

// Offer publishes a message that may get lost. It never waits: false means that there was no room, and the message was not sent. Otherwise
// settled is called with the outcome, on a goroutine for which Wait waits.
func (p *Publisher) Offer(exchange, key string, msg *Publishing, settled func(error)) bool {
	size := len(msg.Body) + messageOverhead
	if p.started.tryEnter(context.Background(), size) != nil {
		return false
	}
	began := p.pending.start(func() {
		defer p.started.leave(size)
		ctx, cancel := context.WithTimeout(context.Background(), offerLimit)
		defer cancel()
		settled(p.Publish(ctx, exchange, key, msg, false))
	})
	if !began {
		p.started.leave(size)
	}
	return began
}

// offerLimit is how long a message of Offer is tried.
const offerLimit = 10 * time.Second

// whyNoRoom is the error of a message that found no place: ErrDisconnected if that is the reason.
func (p *Publisher) whyNoRoom(ctx context.Context, err error) error {
	state, cause := p.link.State()
	if state == Recovering && !errors.Is(err, ErrClosed) {
		return fmt.Errorf("%w: %w: %w", ErrDisconnected, cause, ctx.Err())
	}
	return err
}

// sendStarted sends a message, and tries again while there is no channel. The first time the caller of
// Start runs it, so that messages are sent in the order of the calls.
func (p *Publisher) sendStarted(ctx context.Context, exchange, key string, msg *Publishing) (Ticket, error) {
	c := resending{}
	for {
		err := p.throttle.await(ctx, destination{exchange, key})
		var t Ticket
		if err == nil {
			t, err = p.send(ctx, exchange, key, msg, behindAll)
		}
		if err == nil || c.isFinal(err) || Pause(ctx, resendPause) != nil {
			return t, err
		}
	}
}

// finish waits for the outcome of a message that was sent, and sends it again if necessary.
func (p *Publisher) finish(t Ticket, exchange, key string, msg *Publishing, resend bool) error {
	c := resending{resend: resend}
	ctx := context.Background()
	err := p.Outcome(ctx, t)
	for err != nil && !c.isFinal(err) {
		_ = Pause(ctx, resendPause)
		if t, err = p.sendStarted(ctx, exchange, key, msg); err == nil {
			err = p.Outcome(ctx, t)
		}
	}
	return doubtful(c.doubt, err)
}
