package differential

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/rehop/rehop/internal/wire"
)

const frameMax = 128 << 10

// timeLimit is how long a broker may take for what it has to do anyway.
const timeLimit = 2 * time.Minute

// event is something that a broker has sent to a client. The order of events counts within a lane alone: what
// different queues and the channel itself send meets by chance.
type event struct{ lane, text string }

// delivery is a message that the client has not answered yet.
type delivery struct {
	tag uint64
	of  event
}

// client is a connection on which everything that comes is noted.
type client struct {
	dial     func() (net.Conn, error)
	vhost    string
	name     string
	conn     net.Conn
	reader   *wire.Reader
	channels []*channel
	events   []event
	aliases  aliases
	lost     bool
}

// channel is one of a client's, numbered from 1.
type channel struct {
	number   uint16
	open     bool
	awaiting int // answers to fences and to channel.open
	content  *content
	unacked  []delivery
	shuffled bool            // tags differ between brokers
	confirms map[uint64]bool // verdicts that were received
	noAck    map[string]bool // consumers whose deliveries need no answer; "" stands for basic.get
}

// content is a message that is arriving.
type content struct {
	lane, text string
	tag        uint64 // 0: none
	noAck      bool
	header     *wire.Header
	body       []byte
}

// connect opens a connection with channels.
func connect(name, vhost string, channels int, aliases aliases, dial func() (net.Conn, error)) (*client, error) {
	c := &client{dial: dial, vhost: vhost, name: name, aliases: aliases}
	for n := range channels {
		c.channels = append(c.channels, &channel{number: uint16(n + 1)})
	}
	return c, c.reconnect()
}

// reconnect opens the connection and all channels anew.
func (c *client) reconnect() error {
	conn, err := c.dial()
	if err != nil {
		return err
	}
	c.conn, c.reader, c.lost = conn, wire.NewReader(conn, frameMax), false
	hello := append([]byte(wire.ProtocolHeader), wire.AppendMethod(nil, 0, &wire.ConnectionStartOK{
		ClientProperties: wire.Table{{Key: "capabilities", Value: wire.Table{{Key: "consumer_cancel_notify", Value: true}}}},
		Mechanism:        "PLAIN", Response: []byte("\x00guest\x00guest"), Locale: "en_US",
	})...)
	hello = wire.AppendMethod(hello, 0, &wire.ConnectionTuneOK{ChannelMax: 100, FrameMax: frameMax})
	hello = wire.AppendMethod(hello, 0, &wire.ConnectionOpen{VirtualHost: c.vhost})
	c.send(hello)
	for opened := false; !opened; {
		f, err := c.reader.Next()
		if err != nil {
			return fmt.Errorf("open a connection: %w", err)
		}
		m, err := wire.ParseMethod(f.Payload)
		if err != nil {
			return fmt.Errorf("open a connection: %w", err)
		}
		switch m := m.(type) {
		case *wire.ConnectionClose:
			return fmt.Errorf("open a connection: %s", m.ReplyText)
		case *wire.ConnectionOpenOK:
			opened = true
		}
	}
	for _, ch := range c.channels {
		*ch = channel{number: ch.number}
	}
	return c.fence()
}

func (c *client) hangUp() {
	_ = c.conn.Close()
	c.lost = true
}

// send writes frames. That the broker has gone shows when its answers are read, for which there is time from now on.
func (c *client) send(frames []byte) {
	_ = c.conn.SetDeadline(time.Now().Add(timeLimit))
	_, _ = c.conn.Write(frames)
}

func (c *client) sendMethod(ch *channel, m wire.Method) {
	switch m := m.(type) {
	case *wire.BasicGet:
		ch.remember("", m.NoAck)
	case *wire.BasicConsume:
		ch.remember(m.ConsumerTag, m.NoAck)
	}
	c.send(wire.AppendMethod(nil, ch.number, m))
}

func (ch *channel) remember(consumer string, noAck bool) {
	if ch.noAck == nil {
		ch.noAck = make(map[string]bool)
	}
	ch.noAck[consumer] = noAck
}

// fence returns when the broker has worked off what was sent on every channel, and has brought back those that it
// has closed. Nothing but a fence sends channel.flow.
func (c *client) fence() error {
	for _, ch := range c.channels {
		ch.awaiting++
		if ch.open {
			c.sendMethod(ch, &wire.ChannelFlow{Active: true})
		} else {
			c.sendMethod(ch, &wire.ChannelOpen{})
		}
	}
	return c.settle()
}

// settle reads until nothing is awaited.
func (c *client) settle() error {
	for slices.ContainsFunc(c.channels, func(ch *channel) bool { return ch.awaiting > 0 }) {
		if err := c.read(); err != nil {
			return err
		}
		if c.lost {
			return c.reconnect()
		}
	}
	return nil
}

// read records the next frame.
func (c *client) read() error {
	f, err := c.reader.Next()
	var timeout net.Error
	switch {
	case errors.As(err, &timeout) && timeout.Timeout():
		return fmt.Errorf("%s: no answer from the broker after %v", c.name, timeLimit)
	case err != nil:
		c.note("connection", "the broker hangs up")
		c.hangUp()
		return nil
	case f.Type == wire.FrameHeartbeat:
		return nil
	case f.Channel == 0:
		return c.readControl(f)
	}
	ch := c.channels[f.Channel-1]
	switch f.Type {
	case wire.FrameHeader:
		h, err := wire.ParseHeader(f.Payload)
		if err != nil {
			return fmt.Errorf("%s: header: %w", c.name, err)
		}
		h.Properties = slices.Clone(h.Properties)
		ch.content.header = &h
	case wire.FrameBody:
		ch.content.body = append(ch.content.body, f.Payload...)
	default:
		m, err := wire.ParseMethod(f.Payload)
		if err != nil {
			return fmt.Errorf("%s: method: %w", c.name, err)
		}
		return c.hear(ch, m)
	}
	if uint64(len(ch.content.body)) == ch.content.header.BodySize {
		return c.complete(ch)
	}
	return nil
}

// readControl hears connection.close; of the rest nothing comes.
func (c *client) readControl(f wire.Frame) error {
	m, err := wire.ParseMethod(f.Payload)
	if err != nil {
		return fmt.Errorf("%s: method: %w", c.name, err)
	}
	c.note("connection", c.aliases.in(describe(m)))
	c.send(wire.AppendMethod(nil, 0, &wire.ConnectionCloseOK{}))
	c.hangUp()
	return nil
}

// hear records a method.
func (c *client) hear(ch *channel, m wire.Method) error {
	lane := fmt.Sprintf("%s.%d", c.name, ch.number)
	switch m := m.(type) {
	case *wire.ChannelFlowOK:
		ch.awaiting--
		return nil
	case *wire.ChannelOpenOK:
		ch.open = true
		ch.awaiting--
		return nil
	case *wire.ChannelClose:
		c.note(lane, c.aliases.in(describe(m)))
		*ch = channel{number: ch.number, awaiting: 1}
		c.sendMethod(ch, &wire.ChannelCloseOK{})
		c.sendMethod(ch, &wire.ChannelOpen{})
		return nil
	case *wire.ChannelCloseOK:
		*ch = channel{number: ch.number, awaiting: 1}
		c.sendMethod(ch, &wire.ChannelOpen{})
		return nil
	case *wire.TxCommitOK:
		ch.awaiting--
		c.note(lane, describe(m))
		return nil
	case *wire.BasicAck:
		c.confirm(ch, m.DeliveryTag, m.Multiple, "confirmed")
		return nil
	case *wire.BasicNack:
		c.confirm(ch, m.DeliveryTag, m.Multiple, "refused")
		return nil
	case *wire.BasicDeliver:
		ch.content = &content{tag: m.DeliveryTag, noAck: ch.noAck[m.ConsumerTag], lane: lane + " deliver " + c.aliases.of("amq.ctag-", m.ConsumerTag),
			text: fmt.Sprintf("redelivered %t exchange %q key %q", m.Redelivered, m.Exchange, m.RoutingKey)}
		return nil
	case *wire.BasicGetOK:
		ch.content = &content{tag: m.DeliveryTag, noAck: ch.noAck[""], lane: lane,
			text: fmt.Sprintf("get-ok redelivered %t exchange %q key %q left %d", m.Redelivered, m.Exchange, m.RoutingKey, m.MessageCount)}
		return nil
	case *wire.BasicReturn:
		ch.content = &content{lane: lane, text: describe(m)}
		return nil
	case *wire.BasicCancel:
		tag := c.aliases.of("amq.ctag-", m.ConsumerTag)
		c.note(lane+" cancel "+tag, "cancelled")
		return nil
	case *wire.QueueDeclareOK:
		m.Queue = c.aliases.of("amq.gen-", m.Queue)
		c.note(lane, describe(m))
		return nil
	case *wire.BasicConsumeOK:
		m.ConsumerTag = c.aliases.of("amq.ctag-", m.ConsumerTag)
		c.note(lane, describe(m))
		return nil
	}
	c.note(lane, describe(m))
	return nil
}

// confirm notes the verdict on each message by itself: how many of them take one frame is a matter of chance.
func (c *client) confirm(ch *channel, tag uint64, multiple bool, verdict string) {
	first := tag
	if multiple {
		first = 1
	}
	if ch.confirms == nil {
		ch.confirms = make(map[uint64]bool)
	}
	for t := first; t <= tag; t++ {
		if !multiple || !ch.confirms[t] {
			ch.confirms[t] = true
			c.note(fmt.Sprintf("%s.%d confirm %d", c.name, ch.number, t), verdict)
		}
	}
}

// complete notes a whole message.
func (c *client) complete(ch *channel) error {
	m := ch.content
	ch.content = nil
	properties, err := wire.ParseProperties(m.header.Properties)
	if err != nil {
		return fmt.Errorf("%s: properties: %w", c.name, err)
	}
	properties.Headers, _ = timeless(properties.Headers).(wire.Table)
	e := event{m.lane, c.aliases.in(fmt.Sprintf("%s %+v %q", m.text, properties, m.body))}
	c.events = append(c.events, e)
	if m.tag != 0 && !m.noAck {
		ch.unacked = append(ch.unacked, delivery{m.tag, e})
	}
	if m.tag != 0 {
		c.note(fmt.Sprintf("%s.%d tag %d", c.name, ch.number, m.tag), "used")
	}
	return nil
}

// timeless is a value without times.
func timeless(value any) any {
	switch v := value.(type) {
	case wire.Table:
		var t wire.Table
		for _, f := range v {
			t = append(t, wire.Field{Key: f.Key, Value: timeless(f.Value)})
		}
		return t
	case wire.Array:
		var a wire.Array
		for _, item := range v {
			a = append(a, timeless(item))
		}
		return a
	case wire.Timestamp:
		return "a time"
	}
	return value
}

func (c *client) note(lane, text string) { c.events = append(c.events, event{lane, text}) }

// take returns the events since it was last called, lane by lane.
func (c *client) take() []event {
	events := c.events
	c.events = nil
	sortByLane(events)
	return events
}

func sortByLane(events []event) {
	slices.SortStableFunc(events, func(a, b event) int { return cmp.Compare(a.lane, b.lane) })
}
