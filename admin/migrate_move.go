package admin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/rehop/rehop/internal/envelope"
	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/internal/rabbit"
)

const (
	// underWay is how many messages are moved together, and movedTwice how many may be unacked. If the process dies, those whose copies were confirmed and
	// whose removal was not exist twice.
	underWay   = 2 * batchSize
	movedTwice = 2 * underWay
	// windowBytes is about how many bytes of unacked messages there may be. The first few messages show how large they are.
	windowBytes = 64 << 20
	firstFew    = 16
	// idle is how long a queue that had messages may take to deliver the next one. Other consumers may have taken it.
	idle = 5 * time.Second
	// cancelGrace is how long the broker may take to confirm messages after a migration was canceled.
	cancelGrace = 5 * time.Second
	// A queue with publishers that never pause does not get empty. It is near enough to that with fewLeft messages, or after maxRounds rounds.
	fewLeft   = 16
	maxRounds = 20
	// refusedPause is the pause after the broker has refused a message.
	refusedPause = 100 * time.Millisecond
)

// empty moves messages until none has arrived for a while.
func (m *migration) empty(ctx context.Context, from, exchange string, quiet time.Duration) error {
	last := time.Now()
	for {
		depth, err := m.admin.read.InspectClosely(ctx, from)
		switch {
		case err != nil:
			return queueError(err)
		case depth.Messages > 0:
			if _, err := m.carry(ctx, from, exchange); err != nil {
				return err
			}
			last = time.Now()
			continue
		case time.Since(last) >= quiet:
			return nil
		}
		if err := rabbit.Pause(ctx, min(pollPause, quiet-time.Since(last))); err != nil {
			return err
		}
	}
}

// catchUp moves messages while more arrive, so that few are left when the gate is switched: those get behind newer ones.
func (m *migration) catchUp(ctx context.Context, from, exchange string) error {
	for range maxRounds {
		if _, err := m.carry(ctx, from, exchange); err != nil {
			return err
		}
		depth, err := m.admin.read.InspectClosely(ctx, from)
		if err != nil || depth.Messages <= fewLeft {
			return queueError(err)
		}
	}
	return nil
}

// carry moves as many messages as are in a queue now, in their order, through an exchange that routes to one queue only. It returns how many those are.
func (m *migration) carry(ctx context.Context, from, exchange string) (int, error) {
	// With the lock, nobody else has unacked messages of the queue on this connection.
	if err := m.lock(ctx); err != nil {
		return 0, err
	}
	depth, err := m.admin.read.InspectClosely(ctx, from)
	if err != nil {
		return 0, queueError(err)
	}
	for left := depth.Messages; left > 0; {
		n := left
		if m.moved.messages == 0 {
			n = min(left, firstFew) // their size is not known yet
		}
		if err := m.carrySome(ctx, from, exchange, n); err != nil {
			return 0, err
		}
		left -= n
	}
	return depth.Messages, nil
}

// volume is how much a run has moved.
type volume struct{ messages, bytes int }

// window is how many messages may be unacked, so that they fit into memory.
func (v volume) window() int {
	if v.messages == 0 {
		return firstFew
	}
	mean := max(1, v.bytes/v.messages)
	return min(movedTwice, max(1, windowBytes/mean))
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
	session.Close() // the broker requeues what was not moved
	for range c.deliveries {
	}
	return err
}

// carriage moves messages from one queue to another.
//
// It receives exactly as many as it wants. When a consumer is canceled, RabbitMQ requeues messages that are on their way to it, which counts as a
// delivery. So the last messages are acked only when all have arrived, and until then the broker sends no more.
type carriage struct {
	*migration
	session    *rabbit.Session
	from       string
	exchange   string
	n          int                  // how many it wants
	window     int                  // how many the broker sends without an ack
	taken      int                  // how many have arrived
	removed    int                  // how many were removed from their queue
	confirmed  []rabbit.Delivery    // copies were confirmed, originals not yet removed
	unmoved    []rabbit.Delivery    // messages that could not be moved
	deliveries chan rabbit.Delivery // closed when no more will arrive
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
		c.report()
	}
	// Not earlier: the first messages would be delivered again behind the others.
	c.session.Cancel()
	for _, d := range c.unmoved {
		d.Requeue()
	}
	for d := range c.deliveries { // there are some only if it ends early
		d.Requeue()
	}
	if err := c.remove(c.n); err != nil {
		return err
	}
	<-c.session.Ended() // the broker has every ack
	if errors.Is(end, errIdle) {
		return rabbit.Pause(ctx, pollPause)
	}
	return end
}

// errIdle: the queue has fewer messages than it had.
var errIdle = errors.New("no message has arrived")

// batch takes the next messages. An error is the reason why no more follow.
func (c *carriage) batch(ctx context.Context) (batch []rabbit.Delivery, err error) {
	timer := time.NewTimer(idle)
	defer timer.Stop()
	for len(batch) < min(c.n-c.taken, underWay, c.window) {
		if len(batch) > 0 && len(c.deliveries) == 0 {
			break // messages that have arrived need not wait
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

// remove removes moved messages from their queue, until upTo were removed.
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

// move publishes messages, and removes those from their queue that the broker has confirmed. If it rejects a message because the queue is full, move
// tries again until ctx ends; a message that it can never accept stays in its queue.
func (c *carriage) move(ctx context.Context, batch []rabbit.Delivery) error {
	// When ctx ends, this waits for confirms of published messages: otherwise they would exist twice.
	late, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(cancelGrace, cancel) })()
	for {
		left, refusal, err := c.publish(late, batch)
		if err == nil && len(left) == 0 {
			return c.remove(c.n - c.window)
		}
		if err == nil {
			c.progress.Waiting = fmt.Sprintf("the broker to accept messages: %v", refusal)
			c.report()
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
	batch = slices.DeleteFunc(slices.Clone(batch), func(d rabbit.Delivery) bool {
		drop := c.own(d)
		if drop {
			c.confirmed = append(c.confirmed, d)
		}
		return drop
	})
	items := make([]rabbit.Item, len(batch))
	for i, d := range batch {
		items[i] = rabbit.Item{Exchange: c.exchange, Key: d.RoutingKey, Message: c.admin.copyWithOrigin(d.Delivery, c.want.Name, c.consumed)}
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

// copyWithOrigin is a copy of a message, with the exchange and the key to which it was published, which the broker does not keep. consumed: a subscription
// of rehop consumes the queue.
func (a *Admin) copyWithOrigin(d rabbit.Message, queue string, consumed bool) *rabbit.Publishing {
	p := copyOf(d)
	for name, value := range d.Headers {
		// The broker counts in each queue separately.
		if name != "x-delivery-count" && name != "x-acquired-count" {
			p.Headers[name] = value
		}
	}
	headers := rabbit.FromTable(d.Headers)
	if envelope.Written(headers) {
		return p
	}
	origin := envelope.Failure{Exchange: d.Exchange, Key: d.RoutingKey}
	if consumed {
		origin.Queue = queue
		origin.Exchange, origin.Key = a.layouts.of(queue).Origin(layouts.Message{Queue: queue, ID: d.MessageId, Exchange: d.Exchange, Key: d.RoutingKey,
			Headers: headers, Body: d.Body, ContentType: d.ContentType, Redelivered: d.Redelivered})
	}
	with := maps.Clone(map[string]any(p.Headers))
	origin.Write(with)
	if fits(p, with) {
		p.Headers = rabbit.ToTable(with)
	}
	return p
}

// fits reports whether a message can have these headers.
func fits(p *rabbit.Publishing, headers map[string]any) bool {
	size, err := rabbit.HeaderSize(rabbit.ToTable(headers))
	return err == nil && size+roomForCounts <= rabbit.HeaderRoom(p)
}

// roomForCounts is how many bytes the broker may add to the headers until a message is delivered.
const roomForCounts = 256

// vacate moves messages out of the queue until it can be deleted: no message has arrived for Settle, none is unacked or delayed, and no other queue holds
// messages that it would dead-letter to this one by its name.
func (m *migration) vacate(ctx context.Context) error {
	queue := m.want.Name
	for {
		if err := m.empty(ctx, queue, layouts.AsideExchange(queue), 0); err != nil {
			return err
		}
		still, err := m.still(ctx)
		if still || err != nil {
			return err
		}
	}
}

// still waits until the queue can be deleted, or returns false if it has to be emptied again.
func (m *migration) still(ctx context.Context) (bool, error) {
	watched := []*statistics{{queue: m.have}}
	for _, f := range m.feeders {
		if f.lossy {
			watched = append(watched, &statistics{queue: f.LiveQueue})
		}
	}
	since := time.Now()
	for passes := 1; ; passes++ {
		pending := ""
		for i, s := range watched {
			ready, err := m.ready(ctx, s.queue)
			switch {
			case err != nil || i == 0 && ready > 0:
				return false, err
			case ready > 0:
				return false, m.waiting(ctx, fmt.Sprintf("%d messages of queue %q that it dead-letters to this one by its name", ready, s.queue.Name))
			}
			held, sure, err := s.away(ctx, m.admin.management, m.instant)
			switch {
			case err != nil:
				return false, err
			case held > 0 && i == 0:
				return false, m.waiting(ctx, fmt.Sprintf("%d messages of queue %q that consumers hold or that it delays", held, s.queue.Name))
			case held > 0:
				return false, m.waiting(ctx, fmt.Sprintf("%d messages that consumers of queue %q hold or that it delays, and it dead-letters to this one by its name", held, s.queue.Name))
			case !sure:
				pending = s.queue.Name
			}
		}
		left := m.options.Settle - time.Since(since)
		// During the first pass a message may have moved from a queue that was not yet checked to one that was.
		if left <= 0 && pending == "" && passes > 1 {
			return true, nil
		}
		var err error
		switch {
		case left <= 0 && pending == "":
		case left <= 0:
			err = m.waiting(ctx, fmt.Sprintf("the broker to show whether consumers hold messages of queue %q", pending))
		default:
			err = rabbit.Pause(ctx, min(pollPause, left))
		}
		if err != nil {
			return false, err
		}
	}
}
