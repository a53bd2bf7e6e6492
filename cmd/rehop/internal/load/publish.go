package load

import (
	"context"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// headerSent is the header with the time of publishing, in nanoseconds.
const headerSent = "sent"

// publishing publishes until the time is up, and waits for the confirms.
func (r *run) publishing(ctx context.Context) (*histogram, time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, r.For)
	defer cancel()
	return r.together(ctx, r.Publishers, r.publisher)
}

// flight is a message that waits for its confirm.
type flight struct {
	sent    time.Time
	confirm *amqp.DeferredConfirmation
}

// publisher publishes with a window of unconfirmed messages until ctx ends.
func (r *run) publisher(ctx context.Context, l line, h *histogram) error {
	ch := l.Channel
	if err := ch.Confirm(false); err != nil {
		return fmt.Errorf("switch confirms on: %w", err)
	}
	closed := ch.NotifyClose(make(chan *amqp.Error, 1))
	// There is room for all that can be returned, so that the library never waits.
	returns := ch.NotifyReturn(make(chan amqp.Return, r.Window+2))
	flights := make(chan flight, r.Window)
	landed := make(chan error, 1)
	go func() {
		err := r.land(flights, closed, returns, h)
		if err != nil {
			l.cut(err) // a broker that does not read would block the publisher forever
		}
		landed <- err
	}()
	mode := amqp.Persistent
	if r.Transient {
		mode = amqp.Transient
	}
	body := make([]byte, r.Size)
	var fault error
	for ctx.Err() == nil && fault == nil {
		sent := time.Now()
		confirm, err := ch.PublishWithDeferredConfirmWithContext(ctx, "", r.queue, true, false,
			amqp.Publishing{DeliveryMode: mode, Body: body, Headers: amqp.Table{headerSent: sent.UnixNano()}})
		if err != nil {
			if ctx.Err() == nil {
				fault = fmt.Errorf("publish: %w", err)
			}
			break
		}
		select {
		case flights <- flight{sent, confirm}:
		case err := <-landed: // too early: the channel is lost
			return err
		}
	}
	close(flights)
	if err := <-landed; err != nil {
		return err
	}
	return fault
}

// land waits for the confirms, in the order of publishing.
func (r *run) land(flights <-chan flight, closed <-chan *amqp.Error, returns <-chan amqp.Return, h *histogram) error {
	for f := range flights {
		limit := time.NewTimer(r.settleTimeout)
		select {
		case <-f.confirm.Done():
		case err := <-closed:
			limit.Stop()
			return fmt.Errorf("publish: the channel is lost: %w", reason(err))
		case <-limit.C:
			return fmt.Errorf("publish: no confirm within %v: the broker is too slow for this window, or it has an alarm and blocks publishers", r.settleTimeout)
		}
		limit.Stop()
		returned := false
		select {
		case _, returned = <-returns: // comes before the confirm
		default:
		}
		if returned || !f.confirm.Acked() {
			r.refused.Add(1)
			continue
		}
		h.add(time.Since(f.sent))
		r.published.Add(1)
	}
	return nil
}

// reason is why a channel is closed. The library has nil for one that was closed normally.
func reason(err *amqp.Error) error {
	if err == nil {
		return amqp.ErrClosed
	}
	return err
}
