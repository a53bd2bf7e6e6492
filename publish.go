package rehop

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/rehop/rehop/internal/delays"
	"github.com/rehop/rehop/internal/envelope"
	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/internal/rabbit"
	"github.com/rehop/rehop/layout"
)

// Publish sends a message and waits for the broker's confirm. It returns nil only if the broker has
// stored the message in a queue. Otherwise the error is one of ErrUnroutable, ErrRefused, ErrUnknown,
// ErrBlocked, ErrDisconnected, ErrTooLarge, ErrInvalid and ErrClosed; compare with errors.Is.
//
// A message with a Delay is confirmed in a delay queue and routed later. With Config.KeepUnroutable, nil
// can also mean that the message is in the queue rehop.unrouted. A direct reply, to a key that begins with
// amq.rabbitmq.reply-to, is confirmed even if nobody waits for it.
//
// While there is no connection, or the broker is blocked, Publish waits until ctx ends.
func (c *Client) Publish(ctx context.Context, m Message) error {
	if len(c.hooks.publishEnd) == 0 && len(c.hooks.publishStart) == 0 {
		return c.publishOne(ctx, &m)
	}
	return c.publishObserved(ctx, m)
}

// publishObserved is separate from Publish so that only messages that hooks see move to the heap.
func (c *Client) publishObserved(ctx context.Context, m Message) error {
	start := time.Now()
	ctx = c.startPublish(ctx, &m)
	err := c.publishOne(ctx, &m)
	c.endPublish(ctx, &m, start, err)
	return err
}

// startPublish gives a message its id and calls the hooks.
func (c *Client) startPublish(ctx context.Context, m *Message) context.Context {
	if m.ID == "" {
		m.ID = NewID()
	}
	if len(c.hooks.publishStart) > 0 {
		m.Headers = maps.Clone(m.Headers) // hooks write to it, and the caller may reuse its headers
	}
	for _, on := range c.hooks.publishStart {
		if with := on(ctx, m); with != nil {
			ctx = with
		}
	}
	return ctx
}

// endPublish calls the hooks with the outcome of a message.
func (c *Client) endPublish(ctx context.Context, m *Message, start time.Time, err error) {
	took := time.Since(start)
	for _, on := range c.hooks.publishEnd {
		on(ctx, m, took, err)
	}
}

func (c *Client) publishOne(ctx context.Context, m *Message) error {
	if m.ID == "" {
		m.ID = NewID()
	}
	var p rabbit.Publishing
	exchange, key, err := c.prepare(ctx, m, &p)
	if err == nil {
		err = c.sender.Publish(ctx, exchange, key, &p, !c.config.DisableResend)
	}
	return publishError(m, err)
}

func publishError(m *Message, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("publish message %s to exchange %q with key %q: %w", m.ID, m.Exchange, m.Key, err)
}

// PublishBatch sends many messages without waiting for one before sending the next. It returns nil if
// all are confirmed, otherwise a *BatchError with the outcome of each message.
func (c *Client) PublishBatch(ctx context.Context, messages []Message) error {
	outcomes := make([]error, len(messages))
	note := func(i int, err error) { outcomes[i] = err }
	if len(c.hooks.publishEnd) == 0 && len(c.hooks.publishStart) == 0 {
		c.publishEach(ctx, messages, note, func(calls func()) { calls() }) // no user code runs that could call Close
	} else {
		c.PublishEach(ctx, messages, note)
	}
	if slices.ContainsFunc(outcomes, func(err error) bool { return err != nil }) {
		return &BatchError{Errors: outcomes}
	}
	return nil
}

// PublishEach is PublishBatch for callers that do not wait for the slowest message: it calls settled
// once for each message, with its index, as soon as the outcome is known. Several goroutines may call
// settled at once; all calls come before PublishEach returns. settled cannot close the client, which
// would wait for the other messages: [Client.Close] returns an error there.
func (c *Client) PublishEach(ctx context.Context, messages []Message, settled func(i int, err error)) {
	visiting := func(calls func()) {
		defer c.inside.Visit(nil)()
		calls()
	}
	visiting(func() { c.publishEach(ctx, messages, settled, visiting) })
}

// publishEach runs calls of settled that come from other goroutines than its own by around.
func (c *Client) publishEach(ctx context.Context, messages []Message, settled func(i int, err error), around func(calls func())) {
	contexts, sent := make([]context.Context, len(messages)), make([]Message, len(messages))
	items := make([]rabbit.Item, 0, len(messages))
	index := make([]int, 0, len(messages))
	start := time.Now()
	end := func(i int, err error) {
		err = publishError(&sent[i], err)
		c.endPublish(contexts[i], &sent[i], start, err)
		sent[i] = Message{} // it may be large, and others may take long
		settled(i, err)
	}
	for i := range messages {
		sent[i] = messages[i] // the caller's stays unchanged: it may be published again, as another message
		contexts[i] = c.startPublish(ctx, &sent[i])
		p := new(rabbit.Publishing)
		exchange, key, err := c.prepare(ctx, &sent[i], p)
		if err != nil {
			end(i, err)
			continue
		}
		items, index = append(items, rabbit.Item{Exchange: exchange, Key: key, Message: p}), append(index, i)
	}
	c.sender.PublishEach(ctx, items, !c.config.DisableResend, around, func(j int, err error) {
		items[j].Message = nil // it may be large, and others may take long
		end(index[j], err)
	})
}

// prepare turns a message into what is sent, and returns the exchange and the key for it.
func (c *Client) prepare(ctx context.Context, m *Message, p *rabbit.Publishing) (exchange, key string, err error) {
	if err := c.checkBody(m); err != nil {
		return "", "", err
	}
	delay := m.Delay
	if !m.At.IsZero() {
		delay = max(delay, time.Until(m.At))
	}
	if delay > 0 {
		return c.delayed(ctx, m, p, delay)
	}
	return m.Exchange, m.Key, m.publishing(p, c.config.KeepUnroutable)
}

func (c *Client) checkBody(m *Message) error {
	if len(m.Body) > c.config.MaxBody {
		return fmt.Errorf("%w: the body has %d bytes, the maximum of the client is %d", ErrTooLarge, len(m.Body), c.config.MaxBody)
	}
	return nil
}

// delayed addresses a message to the cascade, from which it goes to its own exchange with its own
// key. By then no publisher waits for its outcome, so its exchange must have an alternate exchange:
// an unroutable message must be kept, and must not block the cascade.
func (c *Client) delayed(ctx context.Context, m *Message, p *rabbit.Publishing, delay time.Duration) (exchange, key string, err error) {
	if m.Expiration > 0 {
		return "", "", fmt.Errorf("%w: a delayed message cannot have an expiration: it would cut the delay short", ErrInvalid)
	}
	if m.Exchange == "" && !utf8.ValidString(m.Key) { // RabbitMQ 4 ends the connection
		return "", "", fmt.Errorf("%w: the key %q of a delayed message without an exchange is the name of a queue, and is not UTF-8", ErrInvalid, m.Key)
	}
	if m.Exchange != "" && !c.declares(m.Exchange) {
		return "", "", fmt.Errorf("%w: a delayed message needs an exchange that rehop declares, so that it is kept if it is unroutable later; list %q in the exchanges of the client (exchanges in rehop.yaml)", ErrInvalid, m.Exchange)
	}
	if err := m.publishing(p, true); err != nil {
		return "", "", err
	}
	var address layouts.Address
	if m.Exchange != "" {
		key = m.Key
		address, err = c.delays.ToExchange(ctx, delay, m.Exchange, key)
	} else {
		temporary, bound := c.temporary(m.Key)
		address, key, err = c.delays.ToQueue(ctx, delay, delays.Destination{Queue: m.Key, Temporary: temporary, Bound: bound})
	}
	if err != nil {
		return "", "", err
	}
	headers := make(rabbit.Table, len(p.Headers)+len(address.Headers)+1)
	maps.Copy(headers, p.Headers)
	maps.Copy(headers, address.Headers)
	headers[envelope.Until] = time.Now().Add(delay).UnixMilli()
	p.Headers = headers
	if size, err := rabbit.HeaderSize(headers); err != nil {
		return "", "", err
	} else if room := rabbit.HeaderRoom(p) - delays.Reserve(len(address.Headers), key); size > room {
		return "", "", fmt.Errorf("%w: the headers have %d bytes, a frame has room for %d with a delay of %v", ErrTooLarge, size, room, delay)
	}
	return address.Exchange, key, nil
}

// temporary reports whether a queue is known to be deleted automatically, and whether its subscription
// has already bound it for messages that return. Such a queue gets no landing queue, which would
// outlive it.
func (c *Client) temporary(queue string) (temporary, bound bool) {
	if strings.HasPrefix(queue, "amq.gen-") { // named by the broker: a reply queue
		return true, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for s := range c.subscriptions {
		if s.config.Queue != queue || layouts.ReturnKey(s.queue) != queue { // a queue that can reject would block other messages
			continue
		}
		_, native := s.config.Layout.(layout.Native)
		exclusive := s.config.Exclusive && native // and only its own connection may bind it
		return exclusive || s.config.AutoDelete || s.queue.Args["x-expires"] != nil, exclusive
	}
	return false, false
}

// declares reports whether this client declares the exchange, and so knows that it has an
// alternate exchange.
func (c *Client) declares(exchange string) bool {
	for _, x := range c.config.Exchanges {
		if x.Name == exchange {
			return x.layout().KeepsUnrouted()
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for s := range c.subscriptions {
		if s.config.Exchange == exchange && !s.config.ExistingExchange && s.config.layout().KeepsUnrouted() {
			return true
		}
	}
	return false
}
