package rehop

import (
	"context"
	"fmt"
	"time"

	"github.com/rehop/rehop/internal/consume"
	"github.com/rehop/rehop/internal/rabbit"
)

// Request sends a message and waits for one reply. A handler replies with [Client.Reply]; any other
// client can reply with a message to the reply-to address that has the same correlation id. Request
// uses RabbitMQ's direct reply-to, so no queue is declared.
//
// ctx must have a deadline: a reply may never come. The errors are those of [Client.Publish].
// ErrUnroutable means that no queue is bound for the request, whatever Config.KeepUnroutable is.
// ErrUnknown means that the request was sent, and ctx ended or the connection was lost before the
// reply; it may have been handled, or may still be. Set Expiration if it is useless after the deadline.
//
// A request waits for a connection, and is sent only once: the address for its reply ends with its
// channel. Send it again yourself if it may be handled twice.
//
// The request is sent with a unique correlation id, and so handlers do not see m.CorrelationID; the
// reply that Request returns has it again. m cannot have a ReplyTo or a delay. Late and second replies
// are dropped. [Client.Close] waits for replies for up to 30 s; a request without a reply then returns
// ErrUnknown.
//
// Hooks receive the request as a published message, whose outcome is known when the broker has
// confirmed it. They cannot close the client.
func (c *Client) Request(ctx context.Context, m Message) (Message, error) {
	start := time.Now()
	ctx = c.startPublish(ctx, &m)
	q, err := c.sendRequest(ctx, &m)
	if q != nil {
		defer q.End() // also if a hook ends the goroutine
	}
	if len(c.hooks.publishEnd) > 0 {
		defer c.inside.Visit(nil)() // Close waits for the request
		c.endPublish(ctx, &m, start, requestError(&m, err))
	}
	var d rabbit.Delivery
	if err == nil {
		d, err = q.Reply(ctx)
	}
	if err != nil {
		return Message{}, requestError(&m, err)
	}
	return replyOf(d, m.CorrelationID), nil
}

func (c *Client) sendRequest(ctx context.Context, m *Message) (*rabbit.Request, error) {
	_, bounded := ctx.Deadline()
	switch {
	case !bounded:
		return nil, fmt.Errorf("%w: the context of a request needs a deadline, because a reply may never come", ErrInvalid)
	case m.ReplyTo != "":
		return nil, fmt.Errorf("%w: a request has no reply-to of its own; to have replies sent to the queue %q, publish the message", ErrInvalid, m.ReplyTo)
	case m.Delay != 0 || !m.At.IsZero():
		return nil, fmt.Errorf("%w: a request cannot be delayed", ErrInvalid)
	}
	if err := c.checkBody(m); err != nil {
		return nil, err
	}
	var p rabbit.Publishing
	if err := m.publishing(&p, false); err != nil {
		return nil, err
	}
	return c.requester.Send(ctx, m.Exchange, m.Key, &p)
}

func requestError(m *Message, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("request %s to exchange %q with key %q: %w", m.ID, m.Exchange, m.Key, err)
}

// replyOf is a reply as [Client.Request] returns it.
func replyOf(d rabbit.Delivery, correlationID string) Message {
	return Message{
		ID: d.MessageId, Exchange: d.Exchange, Key: d.RoutingKey, Headers: consume.Visible(rabbit.FromTable(d.Headers)), Body: d.Body,
		ContentType: d.ContentType, ContentEncoding: d.ContentEncoding, Transient: d.DeliveryMode == rabbit.Transient,
		Priority: d.Priority, Expiration: expiration(d.Expiration), Timestamp: d.Timestamp,
		CorrelationID: correlationID, ReplyTo: d.ReplyTo, Type: d.Type, AppID: d.AppId,
	}
}

// Reply replies to the message that is being handled; ctx is that of the handler. It publishes m to
// the reply-to address of the message, with its correlation id. Reply returns ErrInvalid if m has an
// exchange, a key or a delay, and if the message has no reply-to.
//
// Otherwise Reply returns what [Client.Publish] returns. If the reply-to address is a queue that was
// deleted with its requester, that is ErrUnroutable. If it is a direct reply-to, as with
// [Client.Request], the broker does not report a requester that is gone, and Reply returns nil.
//
// A handler that is run again replies again, and the requester receives the first reply.
func (c *Client) Reply(ctx context.Context, m Message) error {
	d := DeliveryFrom(ctx)
	invalid := func(why string) error { return fmt.Errorf("reply: %w: %s", ErrInvalid, why) }
	switch {
	case d == nil:
		return invalid("the context is not that of a handler")
	case d.ReplyTo == "":
		return invalid("the message has no reply-to, so no reply is expected")
	case m.Exchange != "" || m.Key != "":
		return invalid("the reply goes to the reply-to address of the request; leave exchange and key empty")
	case m.Delay != 0 || !m.At.IsZero():
		return invalid("a reply cannot be delayed: the requester waits for it")
	}
	m.Key, m.CorrelationID = d.ReplyTo, d.CorrelationID
	return c.Publish(ctx, m)
}
