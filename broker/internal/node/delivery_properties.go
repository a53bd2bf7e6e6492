package node

import (
	"github.com/rehop/rehop/broker/internal/queue"
	"github.com/rehop/rehop/broker/internal/store"
	"github.com/rehop/rehop/internal/wire"
)

// Properties returns the properties of a delivery. A quorum queue adds headers to messages that were returned.
func (q *Queue) Properties(it queue.Item, content *store.Content) []byte {
	if q.Core.Type != queue.Quorum || it.Count == 0 && it.Failures == 0 {
		return WithoutFlags(content.Properties)
	}
	return q.PropertiesWithCount(it, content)
}

// PropertiesWithCount adds how often a message was returned.
func (q *Queue) PropertiesWithCount(it queue.Item, content *store.Content) []byte {
	p, err := wire.ParseProperties(content.Properties)
	if err != nil {
		return content.Properties
	}
	p.Headers = q.Vhost.node.Config.Compat.noteReturns(p.Headers.Without("BCC"), it)
	if raw := p.Append(nil); len(raw) > 0 {
		return raw
	}
	return WithoutFlags(content.Properties) // the headers are too large for one more
}

// CountAsConsumers adds to what RabbitMQ counts as consumers of a quorum queue: messages of basic.get that are unacked,
// and cancelled consumers with unacked messages. Clients rely on it to learn when a queue has all its messages back, as
// rehop does when it reads a failed queue in order.
func (q *Queue) CountAsConsumers(n int64) {
	if q.Core.Type == queue.Quorum {
		q.CountedAsConsumers.Add(n)
	}
}
