package session

import (
	"strings"

	"github.com/rehop/rehop/broker/internal/node"
	"github.com/rehop/rehop/broker/internal/store"
	"github.com/rehop/rehop/internal/wire"
)

// replyQueue is the name from which clients consume direct replies: messages that go from one channel to another
// without a queue.
const replyQueue = "amq.rabbitmq.reply-to"

// replies is a channel that consumes direct replies.
type replies struct {
	channel *Channel
	tag     string
	key     string // the routing key for replies
}

func isReplyKey(name string) bool { return strings.HasPrefix(name, replyQueue+".") }

func (ch *Channel) consumeReplies(m *wire.BasicConsume, tag string) error {
	switch {
	case !m.NoAck:
		return node.Refuse(wire.PreconditionFailed, "reply consumer cannot acknowledge")
	case ch.replies != nil:
		return node.Refuse(wire.PreconditionFailed, "reply consumer already set")
	}
	ch.replies = &replies{channel: ch, tag: tag, key: randomName(replyQueue + ".")}
	n := ch.node
	n.mu.Lock()
	n.replies[ch.replies.key] = ch.replies
	n.mu.Unlock()
	return ch.reply(m.NoWait, &wire.BasicConsumeOK{ConsumerTag: tag})
}

func (ch *Channel) endReplies() {
	if ch.replies == nil {
		return
	}
	n := ch.node
	n.mu.Lock()
	delete(n.replies, ch.replies.key)
	n.mu.Unlock()
	ch.replies = nil
}

// repliesFor returns the consumer of direct replies with a key, or nil.
func (n *Server) repliesFor(key string) *replies {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.replies[key]
}

// maxReplies is how many bytes of replies wait for a client that does not read. More are lost, as they are when the client is gone.
const maxReplies = 16 << 20

func (r *replies) deliver(c *store.Content) {
	ch := r.channel
	ch.mu.Lock()
	defer ch.mu.Unlock()
	o := ch.conn.out
	buf := o.lock()
	if ch.over || len(buf) > maxReplies {
		o.unlock(buf)
		return
	}
	ch.nextTag++
	buf = wire.AppendDeliver(buf, ch.Number, r.tag, ch.nextTag, false, c.Exchange, c.Key)
	o.unlock(wire.AppendContent(buf, ch.Number, wire.ClassBasic, node.WithoutFlags(c.Properties), c.Body, ch.conn.FrameMax))
}

// setReplyTo replaces replyQueue in reply-to by the key of the channel.
func (ch *Channel) setReplyTo(in incoming, c *store.Content) error {
	if string(in.brief.ReplyTo) != replyQueue {
		return nil
	}
	if ch.replies == nil {
		return node.Refuse(wire.PreconditionFailed, "fast reply consumer does not exist")
	}
	p, err := wire.ParseProperties(c.Properties)
	if err != nil {
		return err
	}
	p.ReplyTo = ch.replies.key
	c.Properties = p.Append(nil)
	return nil
}
