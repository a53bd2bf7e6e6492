package node

import "github.com/rehop/rehop/broker/internal/queue"

// Answer is how a client settles a delivery.
type Answer int

// The answers.
const (
	Acked        Answer = iota
	Rejected            // by basic.reject
	Nacked              // by basic.nack
	RejectedBack        // requeued by basic.reject
	NackedBack          // requeued by basic.nack
	Lost                // the channel was closed
)

// Settle settles deliveries of one queue.
func (n *Node) Settle(q *Queue, items []queue.Item, a Answer) {
	switch a {
	case Acked:
		if q.kept() {
			b := n.Batch()
			for _, it := range items {
				b.Settle(&it.Message.Message, q.Core.ID)
			}
			n.Commit(b)
		}
		q.Core.Settle(items)
	case Rejected, Nacked:
		n.Apply(q, q.Core.Kill(items, n.Config.Compat.fails(a)))
	default:
		failed := n.Config.Compat.fails(a)
		if q.kept() {
			b, retry := n.Batch(), q.Core.Settings().Retry
			for _, it := range items {
				b.Count(&it.Message.Message, q.Core.ID, n.Config.Compat.logged(it, failed))
				if delay := retry.Delay(it, failed); delay > 0 {
					b.Delay(&it.Message.Message, q.Core.ID, n.logClock.now()+delay.Milliseconds())
				}
			}
			n.Commit(b)
		}
		n.Apply(q, q.Core.Return(items, a != Lost, failed))
	}
}
