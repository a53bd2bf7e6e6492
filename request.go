package rehop

import (
	"context"
	"fmt"
	"time"

	"github.com/rehop/rehop/internal/consume"
	"github.com/rehop/rehop/internal/rabbit"
)

// Request sends a message and waits for one reply to it, which a handler sends with [Client.Reply]; any other
// client can reply, too, by a message to the reply-to address with the same correlation id. It uses
// RabbitMQ's direct reply-to, so no queue is declared.
//
// ctx must have a deadline: a reply may never come. The errors are those of [Client.Publish]. In particular,
// ErrUnroutable says at once that no queue is bound for the request, whatever Config.KeepUnroutable is.
// ErrUnknown says that the request was sent and that no reply came before ctx ended or the connection was
// lost; it may have been handled, or may still be. Set Expiration if it is of no use after the deadline.
//
// A request waits for a connection, and is never sent again once it was sent: the address for its reply ends
// with its channel. Send it again yourself if handling it twice does no harm.
//
// On the wire the request has a correlation id of its own, which is unique, and so handlers do not see
// m.CorrelationID; the reply that Request returns has it again. m cannot have a ReplyTo or a delay. A reply
// that comes too late, or a second one, is dropped. [Client.Close] waits for replies for 30 s at most; a
// request that has none then ends with ErrUnknown.
//
// Hooks see the request as a message that is published: its outcome is known when the broker has confirmed
// it. They cannot close the client.
func (c *Client) Request(ctx context.Context, m Message) (Message, error) {
	start := time.Now()
	ctx = c.startPublish(ctx, &m)
	q, err := c.sendRequest(ctx, &m)
	if q != nil {
		defer q.End() // also if a hook ends the goroutine
	}
	if len(c.hooks.publishEnd) > 0 {
		c.requestSent(ctx, &m, time.Since(start), requestError(&m, err))
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

// requestSent calls the hooks. Close waits for the request.
func (c *Client) requestSent(ctx context.Context, m *Message, took time.Duration, err error) {
	defer c.inside.Visit()()
	for _, on := range c.hooks.publishEnd {
		on(ctx, m, took, err)
	}
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

// replyOf is a reply as the requester sees it.
func replyOf(d rabbit.Delivery, correlationID string) Message {
	return Message{
		ID: d.MessageId, Exchange: d.Exchange, Key: d.RoutingKey, Headers: consume.Visible(rabbit.FromTable(d.Headers)), Body: d.Body,
		ContentType: d.ContentType, ContentEncoding: d.ContentEncoding, Transient: d.DeliveryMode == rabbit.Transient,
		Priority: d.Priority, Expiration: expiration(d.Expiration), Timestamp: d.Timestamp,
		CorrelationID: correlationID, ReplyTo: d.ReplyTo, Type: d.Type, AppID: d.AppId,
	}
}

// Reply replies to the message that is being handled; ctx is that of the handler. It publishes m to the
// reply-to address of the message, with its correlation id. m has no exchange, key or delay: they are an
// ErrInvalid, as is a message that asks for no reply.
//
// Reply returns what [Client.Publish] returns. Where the reply-to address is a queue, a requester that has
// gone is an ErrUnroutable if it has taken its queue with it. Where it is a direct reply-to, as that of
// [Client.Request] is, the broker does not say whether the requester is still there, and Reply returns nil.
//
// A handler that is run again replies again, and the requester gets the first reply.
func (c *Client) Reply(ctx context.Context, m Message) error {
	d := DeliveryFrom(ctx)
	invalid := func(why string) error { return fmt.Errorf("reply: %w: %s", ErrInvalid, why) }
	switch {
	case d == nil:
		return invalid("the context is not that of a handler")
	case d.ReplyTo == "":
		return invalid("the message asks for no reply: it has no reply-to")
	case m.Exchange != "" || m.Key != "":
		return invalid("the request says where the reply goes; leave exchange and key empty")
	case m.Delay != 0 || !m.At.IsZero():
		return invalid("a reply cannot be delayed: the requester waits for it")
	}
	m.Key, m.CorrelationID = d.ReplyTo, d.CorrelationID
	return c.Publish(ctx, m)
}
