package admin

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rehop/rehop/internal/envelope"
	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/internal/rabbit"
)

const (
	// underWay is how many messages are moved together, and movedTwice how many the broker may have given us. When
	// the process dies, those of them whose copies were confirmed and whose removal was not are there twice.
	underWay   = 2 * batchSize
	movedTwice = 2 * underWay
	// inHand is about how many bytes the messages may have that are in hand at once. The first few tell how large they are.
	inHand   = 64 << 20
	firstFew = 16
	// idle is how long a queue that had messages may take to deliver the next one. Others may have taken it.
	idle = 5 * time.Second
	// lastWord is how long the broker may take to confirm what is under way when a migration is canceled.
	lastWord = 5 * time.Second
	// Behind publishers that never pause, a queue is not emptied; it is near enough to that with so few messages, or
	// after so many rounds.
	fewLeft   = 16
	maxRounds = 20
	// refusedPause is the pause after the broker has refused a message.
	refusedPause = 100 * time.Millisecond
)

// empty moves messages until none has come for a while.
func (m *migration) empty(ctx context.Context, from, exchange string, quiet time.Duration) error {
	last := time.Now()
	for {
		depth, err := m.admin.read.InspectClosely(ctx, from)
		switch {
		case err != nil:
			return queueError(err)
		case depth.Messages > 0:
			if err := m.carry(ctx, from, exchange); err != nil {
				return err
			}
			last = time.Now()
			continue
		case time.Since(last) >= quiet:
			return nil
		}
		if err := rabbit.Pause(ctx, min(lookAgain, quiet-time.Since(last))); err != nil {
			return err
		}
	}
}

// catchUp moves messages while more come, so that few are left when they are led elsewhere: those come late.
func (m *migration) catchUp(ctx context.Context, from, exchange string) error {
	for range maxRounds {
		if err := m.carry(ctx, from, exchange); err != nil {
			return err
		}
		depth, err := m.admin.read.InspectClosely(ctx, from)
		if err != nil || depth.Messages <= fewLeft {
			return queueError(err)
		}
	}
	return nil
}

// carry moves as many messages as are in a queue now, in their order, through an exchange that leads to one
// queue alone.
func (m *migration) carry(ctx context.Context, from, exchange string) error {
	// On this connection nobody else can hold messages of the queue then.
	if err := m.lock(ctx); err != nil {
		return err
	}
	depth, err := m.admin.read.InspectClosely(ctx, from)
	if err != nil {
		return queueError(err)
	}
	for left := depth.Messages; left > 0; {
		n := left
		if m.moved.messages == 0 {
			n = min(left, firstFew) // how large they are is not known yet
		}
		if err := m.carrySome(ctx, from, exchange, n); err != nil {
			return err
		}
		left -= n
	}
	return nil
}

// volume is what a run has moved.
type volume struct{ messages, bytes int }

// window is how many messages may be in hand at once, so that they fit into memory.
func (v volume) window() int {
	if v.messages == 0 {
		return firstFew
	}
	mean := max(1, v.bytes/v.messages)
	return min(movedTwice, max(1, inHand/mean))
}

func (m *migration) carrySome(ctx context.Context, from, exchange string, n int) error {
	window := min(n, m.moved.window())
	session, err := m.admin.read.OpenSession(ctx, rabbit.ConsumeOptions{Queue: from}, window)
	if err != nil {
		return queueError(err)
	}
	c := &carriage{migration: m, session: session, from: from, exchange: exchange, n: n, window: window, deliveries: make(chan rabbit.Delivery, window)}
	go c.receive()
	err = c.all(ctx)
	session.Close() // gives back what was not moved
	for range c.deliveries {
	}
	return err
}

// carriage moves messages from one queue to another.
//
// It takes exactly as many as it wants. RabbitMQ gives back, and counts, what is on its way to a consumer that is
// canceled; so the last ones are removed from their queue only when all have come, and until then the broker
// sends no more.
type carriage struct {
	*migration
	session    *rabbit.Session
	from       string
	exchange   string
	n          int                  // how many it wants
	window     int                  // how many the broker sends ahead
	taken      int                  // so many have come
	removed    int                  // so many have been removed from their queue
	confirmed  []rabbit.Delivery    // and not yet removed
	unmoved    []rabbit.Delivery    // what could not be moved, at the end
	deliveries chan rabbit.Delivery // closed when no more will come
}

func (c *carriage) receive() {
	defer close(c.deliveries)
	for {
		d, ok := c.session.Next()
		if !ok {
			return
		}
		c.deliveries <- d
	}
}

func (c *carriage) all(ctx context.Context) error {
	var end error
	for c.taken < c.n && end == nil {
		var batch []rabbit.Delivery
		batch, end = c.batch(ctx)
		c.taken += len(batch)
		if err := c.move(ctx, batch); err != nil {
			end = err
		}
		c.progress.Moved, c.progress.Left = c.moved.messages, max(0, c.n-c.taken)
		c.tell()
	}
	// Given back earlier, the first would come again behind the others.
	c.session.Cancel()
	for _, d := range c.unmoved {
		d.Requeue()
	}
	for d := range c.deliveries { // only if it ends early
		d.Requeue()
	}
	if err := c.remove(c.n); err != nil {
		return err
	}
	<-c.session.Ended() // the broker has every ack
	if errors.Is(end, errIdle) {
		return rabbit.Pause(ctx, lookAgain)
	}
	return end
}

// errIdle: the queue has fewer messages than it had.
var errIdle = errors.New("no message has come")

// batch takes the next messages. An error says why no more follow.
func (c *carriage) batch(ctx context.Context) (batch []rabbit.Delivery, err error) {
	timer := time.NewTimer(idle)
	defer timer.Stop()
	for len(batch) < min(c.n-c.taken, underWay, c.window) {
		if len(batch) > 0 && len(c.deliveries) == 0 {
			break // what is here need not wait
		}
		select {
		case d, ok := <-c.deliveries:
			if !ok {
				return batch, fmt.Errorf("connection lost while messages of queue %q were moved", c.from)
			}
			batch = append(batch, d)
		case <-timer.C:
			return batch, errIdle
		case <-ctx.Done():
			return batch, ctx.Err()
		}
	}
	return batch, nil
}

// remove removes moved messages from their queue until so many have been.
func (c *carriage) remove(upTo int) error {
	for len(c.confirmed) > 0 && c.removed < upTo {
		if !c.confirmed[0].Ack() {
			return fmt.Errorf("connection lost while messages of queue %q were moved; some are in both queues now", c.from)
		}
		c.confirmed = c.confirmed[1:]
		c.removed++
	}
	return nil
}

// move publishes messages, and removes from their queue what the broker has confirmed. What it refuses, because
// the queue is full, is tried again until ctx ends; what it can never take stays where it is.
func (c *carriage) move(ctx context.Context, batch []rabbit.Delivery) error {
	// What is under way when ctx ends is waited for: otherwise it would be there twice.
	late, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(lastWord, cancel) })()
	for {
		left, refusal, err := c.publish(late, batch)
		if err == nil && len(left) == 0 {
			return c.remove(c.n - c.window)
		}
		if err == nil {
			c.progress.Waiting = fmt.Sprintf("the broker to take messages: %v", refusal)
			c.tell()
			if err = rabbit.Pause(ctx, refusedPause); err == nil {
				c.progress.Waiting = ""
			}
		}
		if err != nil {
			c.unmoved = left
			return err
		}
		batch = left
	}
}

// publish publishes messages once, and returns those that are not confirmed.
func (c *carriage) publish(ctx context.Context, batch []rabbit.Delivery) (left []rabbit.Delivery, refusal, fault error) {
	items := make([]rabbit.Item, len(batch))
	for i, d := range batch {
		items[i] = rabbit.Item{Exchange: c.exchange, Key: d.RoutingKey, Message: c.copyOf(d.Delivery)}
	}
	for i, err := range c.admin.sender.PublishBatch(ctx, items, true) {
		switch {
		case err == nil:
			c.confirmed = append(c.confirmed, batch[i])
			c.moved.messages++
			c.moved.bytes += len(batch[i].Body)
			continue
		case errors.Is(err, rabbit.ErrNacked):
			refusal = err
		case fault == nil:
			fault = fmt.Errorf("message %s of queue %q, which stays there: %w", items[i].Message.MessageId, c.from, err)
		}
		left = append(left, batch[i])
	}
	return left, refusal, fault
}

// copyOf is a message as it was published, and with where it was published to, which the broker forgets.
func (m *migration) copyOf(d rabbit.Message) *rabbit.Publishing {
	p := &rabbit.Publishing{
		MessageId: d.MessageId, Body: d.Body, ContentType: d.ContentType, ContentEncoding: d.ContentEncoding,
		DeliveryMode: d.DeliveryMode, Priority: d.Priority, Timestamp: d.Timestamp, Expiration: d.Expiration,
		CorrelationId: d.CorrelationId, ReplyTo: d.ReplyTo, Type: d.Type, AppId: d.AppId, Headers: make(rabbit.Table, len(d.Headers)+4),
	}
	if p.MessageId == "" {
		p.MessageId = rabbit.NewID() // what is sent again can then be told from its copy
	}
	for name, value := range d.Headers {
		// The broker counts anew in each queue.
		if name != "x-delivery-count" && name != "x-acquired-count" {
			p.Headers[name] = value
		}
	}
	headers := rabbit.FromTable(d.Headers)
	if envelope.Written(headers) {
		return p
	}
	origin := envelope.Failure{Exchange: d.Exchange, Key: d.RoutingKey}
	if m.consumed {
		origin.Queue = m.want.Name
		origin.Exchange, origin.Key = m.admin.layouts.of(m.want.Name).Origin(layouts.Message{Queue: m.want.Name, ID: d.MessageId, Exchange: d.Exchange, Key: d.RoutingKey,
			Headers: headers, Body: d.Body, ContentType: d.ContentType, Redelivered: d.Redelivered})
	}
	with := make(map[string]any, len(p.Headers)+4)
	for name, value := range p.Headers {
		with[name] = value
	}
	origin.Write(with)
	if size, err := rabbit.HeaderSize(rabbit.ToTable(with)); err == nil && size+roomForCounts <= rabbit.HeaderRoom(p) {
		p.Headers = rabbit.ToTable(with)
	}
	return p
}

// roomForCounts is what the broker may add to the headers until a message is delivered.
const roomForCounts = 256
