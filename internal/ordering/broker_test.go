package ordering

import (
	"slices"
	"time"
)

// queue is a quorum queue with a single active consumer, as RabbitMQ has it: what consumers return comes
// first, in the order of its return, and the next consumer becomes active when its predecessor is gone.
type queue struct {
	place    Place
	messages []*Message
	returned []*Message
	active   *consumer
	standby  []*consumer
	now      time.Time
}

// consumer is a session's consumer of one queue.
type consumer struct {
	of       *queue
	session  *session
	prefetch int
	out      []*Message             // as stored
	since    map[*Message]time.Time // when each of them was delivered
	canceled bool                   // by the queue, and its session will know
	gone     bool                   // for good
}

// ticket is what a delivery is acked by.
type ticket struct {
	consumer *consumer
	stored   *Message
}

func (q *queue) put(m Message) {
	q.messages = append(q.messages, &m)
	q.deliver()
}

func (q *queue) consume(s *session, prefetch int) *consumer {
	c := &consumer{of: q, session: s, prefetch: prefetch, since: make(map[*Message]time.Time)}
	q.standby = append(q.standby, c)
	q.deliver()
	return c
}

func (q *queue) deliver() {
	if q.active == nil && len(q.standby) > 0 {
		q.active, q.standby = q.standby[0], q.standby[1:]
	}
	for c := q.active; c != nil && len(c.out) < c.prefetch; {
		var m *Message
		switch {
		case len(q.returned) > 0:
			m, q.returned = q.returned[0], q.returned[1:]
		case len(q.messages) > 0:
			m, q.messages = q.messages[0], q.messages[1:]
		default:
			return
		}
		c.out = append(c.out, m)
		c.since[m] = q.now
		d := *m
		d.Data = ticket{c, m}
		if q.place == Main {
			c.session.fromMain = append(c.session.fromMain, &d)
		} else {
			c.session.fromHeld = append(c.session.fromHeld, &d)
		}
	}
}

// lose takes everything back from a consumer, of which the queue has lost sight.
func (q *queue) lose(c *consumer) {
	if c == nil || c.gone {
		return
	}
	for _, m := range c.out {
		again := *m
		again.Redelivered = true
		q.returned = append(q.returned, &again)
	}
	c.out = nil
	clear(c.since)
	if q.active == c {
		q.active = nil
	}
	q.standby = slices.DeleteFunc(q.standby, func(s *consumer) bool { return s == c })
	q.deliver()
}

// expire takes single messages back that a consumer has had for longer than the timeout, and cancels it, as RabbitMQ 4.3 does. What
// it has had for less time stays with it until its channel is closed, and the next consumer is active at once.
func (q *queue) expire(timeout time.Duration) (canceled bool) {
	c := q.active
	if c == nil {
		return false
	}
	for _, m := range slices.Clone(c.out) {
		if q.now.Sub(c.since[m]) < timeout {
			continue
		}
		again := *m
		again.Redelivered = true
		q.returned = append(q.returned, &again)
		c.out = slices.DeleteFunc(c.out, func(other *Message) bool { return other == m })
		delete(c.since, m)
		c.canceled = true
	}
	if c.canceled {
		q.active = nil
		q.deliver()
	}
	return c.canceled
}

// find has a consumer back that the queue had lost sight of.
func (q *queue) find(c *consumer) {
	if c == nil || c.gone || c.canceled || q.active == c || slices.Contains(q.standby, c) {
		return
	}
	q.standby = append(q.standby, c)
	q.deliver()
}

// remove ends a consumer.
func (q *queue) remove(c *consumer) {
	if c == nil {
		return
	}
	q.lose(c)
	c.gone = true
}

// ack has no effect if the queue has taken the message back.
func (t ticket) ack() {
	for i, m := range t.consumer.out {
		if m == t.stored {
			t.consumer.out = slices.Delete(t.consumer.out, i, i+1)
			t.consumer.of.deliver()
			return
		}
	}
}
