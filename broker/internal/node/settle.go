package node

import "github.com/rehop/rehop/broker/internal/queue"

// Answer is what becomes of a delivery.
type Answer int

const (
	Acked Answer = iota
	Rejected
	Nacked       // rejected by basic.nack
	RejectedBack // to its queue, by basic.reject
	NackedBack   // to its queue, by basic.nack
	Lost         // its channel has ended
)

// Settle does what was answered to deliveries of one queue.
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
