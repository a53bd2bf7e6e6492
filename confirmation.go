package rehop

import (
	"context"
	"fmt"
	"time"

	"github.com/rehop/rehop/internal/rabbit"
)

// Confirmation is the outcome, now or later, of a message that [Client.PublishAsync] has sent.
type Confirmation struct {
	done chan struct{}
	err  error // read it when done is closed
}

// Done is closed when the outcome is known.
func (c *Confirmation) Done() <-chan struct{} { return c.done }

// Err returns the outcome, as [Client.Publish] does, and before it is known an ErrUnknown.
func (c *Confirmation) Err() error {
	select {
	case <-c.done:
		return c.err
	default:
		return fmt.Errorf("%w: no confirm yet", ErrUnknown)
	}
}

// Wait is Err with a context. If ctx ends first, it returns ErrUnknown. The message stays unconfirmed,
// and you can wait for its outcome again.
func (c *Confirmation) Wait(ctx context.Context) error {
	select {
	case <-c.done:
		return c.err
	default:
	}
	select {
	case <-c.done:
		return c.err
	case <-ctx.Done():
		return fmt.Errorf("%w: no confirm yet: %w", ErrUnknown, ctx.Err())
	}
}

// PublishAsync sends a message and does not wait for its confirm. Messages that one goroutine
// publishes are sent in the order of the calls. What [Client.Publish] would return is in the
// Confirmation.
//
// PublishAsync returns when the message was sent. It blocks, until ctx ends, while as many messages
// are unconfirmed as Config.MaxUnconfirmed and MaxUnconfirmedBytes allow, and while there is no
// connection or the broker is blocked. If ctx ends before the message was sent, the outcome is
// ErrBlocked or ErrDisconnected.
//
// ctx has no effect after PublishAsync has returned. From then on the message is sent again after a
// lost connection until its outcome is known or the client closes, unless Config.DisableResend is
// set. [Client.Close] waits for the outcomes, and every Confirmation gets one: ErrUnknown if no
// confirm has come, ErrClosed if the message was not sent.
//
// Do not change the body and the headers before the outcome is known. OnPublishEnd must neither close the
// client nor call PublishAsync: a message counts as unconfirmed until its hooks have returned. MaxWaiting
// includes calls of PublishAsync that wait.
func (c *Client) PublishAsync(ctx context.Context, m Message) *Confirmation {
	sent := &Confirmation{done: make(chan struct{})}
	start := time.Now()
	ctx = c.startPublish(ctx, &m)
	settled := func(err error) {
		sent.err = publishError(&m, err)
		defer close(sent.done) // also if a hook ends the goroutine
		if len(c.hooks.publishEnd) > 0 {
			defer c.inside.Visit(nil)() // Close waits for the goroutine that the hooks may be called on
			c.endPublish(ctx, &m, start, sent.err)
		}
	}
	p := new(rabbit.Publishing)
	exchange, key, err := c.prepare(ctx, &m, p)
	if err != nil {
		settled(err)
		return sent
	}
	c.sender.Start(ctx, exchange, key, p, !c.config.DisableResend, settled)
	return sent
}
