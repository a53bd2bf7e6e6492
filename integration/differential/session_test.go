package differential

import (
	"fmt"
	"net"
	"slices"

	"github.com/rehop/rehop/internal/wire"
)

// Every session has as many connections, with as many channels each.
const (
	connections = 2
	channels    = 2
)

// session is what happens on one broker.
type session struct {
	broker   string
	clients  []*client
	aliases  aliases
	observer *client  // has a channel per queue, to look at it
	queues   []string // that are looked at
	seen     []event  // since the step began
}

func newSession(broker, vhost string, queues []string, dial func() (net.Conn, error)) (*session, error) {
	s := &session{broker: broker, queues: queues, aliases: make(aliases)}
	for i := range connections {
		c, err := connect(fmt.Sprintf("c%d", i), vhost, channels, s.aliases, dial)
		if err != nil {
			return s, fmt.Errorf("%s: %w", broker, err)
		}
		s.clients = append(s.clients, c)
	}
	var err error
	s.observer, err = connect("observer", vhost, len(queues), s.aliases, dial)
	return s, err
}

func (s *session) close() {
	for _, c := range append(s.clients, s.observer) {
		if c != nil {
			c.hangUp()
		}
	}
}

func (s *session) at(p place) (*client, *channel) {
	c := s.clients[p.connection]
	return c, c.channels[p.channel]
}

// begin does a step; target is the delivery that an answer is about.
func (s *session) begin(st step, target *event) error {
	s.seen = nil
	c, ch := s.at(st.at)
	switch {
	case st.method != nil:
		c.sendMethod(ch, st.method.Method)
		if _, ok := st.method.Method.(*wire.TxCommit); ok {
			// RabbitMQ takes nothing more, not even a fence, until it has committed.
			ch.awaiting++
			return c.settle()
		}
	case st.publish != nil:
		frames := wire.AppendMethod(nil, ch.number, &st.publish.BasicPublish)
		c.send(wire.AppendContent(frames, ch.number, wire.ClassBasic, st.publish.properties.Append(nil), []byte(st.publish.body), frameMax))
	case st.answer != nil && target == nil && st.answer.pick > 0:
		// There is nothing to answer. Now and then it is done anyway.
	case st.answer != nil:
		c.sendMethod(ch, ch.answer(st.answer, target))
	case st.end.what == closeChannel:
		ch.awaiting++
		c.sendMethod(ch, &wire.ChannelClose{ReplyCode: wire.ReplySuccess})
		return c.settle()
	case st.end.what == closeConnection:
		c.send(wire.AppendMethod(nil, 0, &wire.ConnectionClose{ReplyCode: wire.ReplySuccess}))
		for !c.lost {
			if err := c.read(); err != nil {
				return err
			}
		}
		return c.reconnect()
	default:
		c.hangUp()
		return c.reconnect()
	}
	return nil
}

// answer finds the tag of the delivery that is answered, and forgets what is answered with it.
func (ch *channel) answer(a *answer, target *event) wire.Method {
	if target == nil {
		return a.method(uint64(1000+a.pick), a.multiple)
	}
	i := slices.IndexFunc(ch.unacked, func(d delivery) bool { return d.of == *target })
	tag, multiple := ch.unacked[i].tag, a.multiple && !ch.shuffled && a.verb != "reject"
	ch.unacked = slices.DeleteFunc(ch.unacked, func(d delivery) bool { return d.tag == tag || multiple && d.tag < tag })
	return a.method(tag, multiple)
}

// observe waits until the broker has done what was requested, and returns what is to be seen of its queues.
func (s *session) observe() ([]event, error) {
	for _, c := range s.clients {
		if err := c.fence(); err != nil {
			return nil, fmt.Errorf("%s: %w", s.broker, err)
		}
		s.seen = append(s.seen, c.take()...)
	}
	for i, name := range s.queues {
		s.observer.sendMethod(s.observer.channels[i], &wire.QueueDeclare{Queue: name, Passive: true})
	}
	if err := s.observer.fence(); err != nil {
		return nil, fmt.Errorf("%s: %w", s.broker, err)
	}
	sortByLane(s.seen)
	return s.observer.take(), nil
}

// leave ends all connections but the observer's.
func (s *session) leave() error {
	for _, c := range s.clients {
		c.hangUp()
		if err := c.reconnect(); err != nil {
			return err
		}
	}
	return nil
}

// drain empties all queues, those too whose names the broker has made up.
func (s *session) drain() error {
	s.seen = nil
	c := s.clients[0]
	ch := c.channels[0]
	for _, name := range append(slices.Clone(s.queues), s.aliases.names("amq.gen-")...) {
		c.note("drain", s.aliases.in(name))
		for more := true; more; {
			before := len(c.events)
			c.sendMethod(ch, &wire.BasicGet{Queue: name, NoAck: true})
			if err := c.fence(); err != nil {
				return fmt.Errorf("%s: %w", s.broker, err)
			}
			more = slices.ContainsFunc(c.events[before:], func(e event) bool { return len(e.text) > 6 && e.text[:6] == "get-ok" })
		}
		s.seen = append(s.seen, c.take()...)
	}
	return nil
}
