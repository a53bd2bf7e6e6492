package session

import (
	"cmp"
	"slices"

	"github.com/rehop/rehop/broker/internal/node"
	"github.com/rehop/rehop/broker/internal/store"
	"github.com/rehop/rehop/internal/wire"
)

// settle handles the answer to deliveries.
func (ch *Channel) settle(tag uint64, multiple bool, a node.Answer) error {
	ch.mu.Lock()
	taken, ok := ch.unackedList.take(tag, multiple, ch.taken[:0])
	ch.mu.Unlock()
	ch.taken = taken
	if !ok {
		return node.Refuse(wire.PreconditionFailed, "unknown delivery tag %d", tag)
	}
	if ch.tx != nil {
		ch.tx.add(taken, a)
		return nil
	}
	ch.finish(taken, a)
	clear(ch.taken)
	return nil
}

// finish settles deliveries that were removed from the list of unacked ones, and delivers to consumers that have room now.
func (ch *Channel) finish(taken []delivery, a node.Answer) {
	ch.mu.Lock()
	for _, d := range taken {
		if d.consumer != nil {
			d.consumer.answered()
		} else {
			d.queue.CountAsConsumers(-1)
		}
	}
	full := ch.takeFull()
	ch.mu.Unlock()
	ch.settleAtQueues(slices.DeleteFunc(taken, func(d delivery) bool { return d.released }), a)
	ch.resume(full)
	ch.node.CheckMemory()
}

func (ch *Channel) settleAtQueues(taken []delivery, a node.Answer) {
	for len(taken) > 0 {
		q, n := taken[0].queue, 0
		items := ch.items[:0]
		for n < len(taken) && taken[n].queue == q {
			items = append(items, taken[n].item)
			n++
		}
		ch.node.Settle(q, items, a)
		clear(items)
		ch.items = items
		taken = taken[n:]
	}
}

// recover requeues all unacked messages.
func (ch *Channel) recover(requeue bool) error {
	if !requeue {
		return node.Refuse(wire.NotImplemented, "requeue=false")
	}
	ch.mu.Lock()
	taken, _ := ch.unackedList.take(0, true, nil)
	ch.mu.Unlock()
	ch.finish(taken, node.NackedBack)
	return nil
}

// transaction is what a channel does when it commits.
type transaction struct {
	publishes []publication
	charge    reservation // for them
	answers   []answered
}

// answered are deliveries that a client has answered in a transaction.
type answered struct {
	deliveries []delivery
	answer     node.Answer
}

func (tx *transaction) add(taken []delivery, a node.Answer) {
	tx.answers = append(tx.answers, answered{slices.Clone(taken), a})
}

// deliveries returns those that were answered and not committed.
func (tx *transaction) deliveries() (all []delivery) {
	for _, a := range tx.answers {
		all = append(all, a.deliveries...)
	}
	return all
}

func sortByTag(all []delivery) {
	slices.SortFunc(all, func(a, b delivery) int { return cmp.Compare(a.tag, b.tag) })
}

func (ch *Channel) transact(m wire.Method) error {
	if _, ok := m.(*wire.TxSelect); ok {
		if ch.confirming {
			return node.Refuse(wire.PreconditionFailed, "cannot switch from confirm to tx mode")
		}
		if ch.tx == nil {
			ch.tx = &transaction{}
		}
		return ch.send(&wire.TxSelectOK{})
	}
	if ch.tx == nil {
		return node.Refuse(wire.PreconditionFailed, "channel is not transactional")
	}
	tx := ch.tx
	ch.tx = &transaction{}
	ch.conn.release(tx.charge)
	if _, ok := m.(*wire.TxRollback); ok {
		ch.mu.Lock()
		ch.unackedList.putBack(tx.deliveries())
		if next, held := ch.unackedList.firstDue(); held {
			ch.acks.expect(ch, next.due)
		}
		ch.mu.Unlock()
		return ch.send(&wire.TxRollbackOK{})
	}
	if err := ch.commit(tx); err != nil {
		return err
	}
	return ch.send(&wire.TxCommitOK{})
}

// commit publishes and settles, and returns when everything is on disk.
func (ch *Channel) commit(tx *transaction) error {
	n := ch.node
	refused := false
	for _, p := range tx.publishes {
		out := ch.deliver(p)
		refused = refused || out.Refused
		ch.report(p, out)
	}
	for _, a := range tx.answers {
		ch.finish(a.deliveries, a.answer)
	}
	if n.Store != nil {
		if err := n.Store.Wait(n.Context, store.Mark(n.Latest.Load())); err != nil {
			return node.Refuse(wire.InternalError, "cannot write: %s", err)
		}
	}
	if refused {
		return node.Refuse(wire.PreconditionFailed, "partial tx completion")
	}
	return nil
}
