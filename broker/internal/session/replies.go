package session

import (
	"strings"

	"github.com/rehop/rehop/broker/internal/node"
	"github.com/rehop/rehop/broker/internal/store"
	"github.com/rehop/rehop/internal/wire"
)

// replyQueue is the name from which clients take direct replies: messages that go from one channel to another
// without a queue.
const replyQueue = "amq.rabbitmq.reply-to"

// replies is a channel that waits for direct replies.
type replies struct {
	channel *Channel
	tag     string
	key     string // by which others reach it
}

func isReplyKey(name string) bool { return strings.HasPrefix(name, replyQueue+".") }

// consumeReplies has a channel get direct replies.
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
	ch.reply(m.NoWait, &wire.BasicConsumeOK{ConsumerTag: tag})
	return nil
}

// endReplies ends that.
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

// repliesFor returns who waits for replies by a key, or nil.
func (n *Server) repliesFor(key string) *replies {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.replies[key]
}

// directReplyTo puts the key by which a channel can be answered in place of the name that stands for it.
func (ch *Channel) directReplyTo(in incoming, c *store.Content) (*store.Content, error) {
	if string(in.brief.ReplyTo) != replyQueue {
		return c, nil
	}
	if ch.replies == nil {
		return nil, node.Refuse(wire.PreconditionFailed, "fast reply consumer does not exist")
	}
	p, err := wire.ParseProperties(c.Properties)
	if err != nil {
		return nil, err
	}
	p.ReplyTo = ch.replies.key
	c.Properties = p.Append(nil)
	return c, nil
}

// maxReplies is how many bytes of replies wait for a client that does not read; more are lost, as they are when it has gone.
const maxReplies = 16 << 20

// deliver hands a reply to the client.
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
