package node

import (
	"github.com/rehop/rehop/broker/internal/queue"
	"github.com/rehop/rehop/broker/internal/store"
)

func (n *Node) batch() *store.Batch { return n.batches.Get().(*store.Batch) }

// commit writes a batch to the log, if there is one, and takes it back.
func (n *Node) commit(b *store.Batch) store.Mark {
	var mark store.Mark
	if n.store != nil {
		mark = n.store.Commit(b)
		for last := n.latest.Load(); last < uint64(mark) && !n.latest.CompareAndSwap(last, uint64(mark)); last = n.latest.Load() {
			continue
		}
	}
	b.Reset()
	n.batches.Put(b)
	return mark
}

// throttle waits while much is to be written. No lock is held.
func (n *Node) throttle() {
	if n.store != nil && n.opened.Load() {
		// An error is the end of the log or of the node, which everybody is told of elsewhere.
		_ = n.store.Throttle(n.life)
	}
}

// after sees to what follows from a call to a queue. No lock is held.
func (n *Node) after(q *Queue, fx queue.Effects) {
	if n.settleAndLoad(q, fx) {
		n.bury(q)
	}
	n.checkMemory()
}

// settleAndLoad does what must be done at once, and reports whether messages have died.
func (n *Node) settleAndLoad(q *Queue, fx queue.Effects) (dead bool) {
	for {
		n.settled(q, fx.Settled)
		dead = dead || fx.Dead
		if !fx.Load {
			return dead
		}
		fx = q.core.Loaded(n.load(q))
	}
}

// settled notes in the log that messages have left a queue.
func (n *Node) settled(q *Queue, messages []*queue.Message) {
	if len(messages) == 0 || !q.kept() {
		return
	}
	b := n.batch()
	for _, m := range messages {
		if m.Stored() {
			b.Settle(&m.Message, q.core.ID)
		}
	}
	n.commit(b)
}

// load reads contents that consumers wait for. It returns the messages that cannot be read.
func (n *Node) load(q *Queue) map[*queue.Message]bool {
	var unreadable map[*queue.Message]bool
	for _, m := range q.core.Missing() {
		if err := n.reload(m); err != nil {
			n.log.Error("a stored message cannot be read and is set aside", "queue", q.Name, "vhost", q.vhost.Name, "error", err)
			if unreadable == nil {
				unreadable = make(map[*queue.Message]bool)
			}
			unreadable[m] = true
		}
	}
	return unreadable
}

func (n *Node) reload(m *queue.Message) error {
	if c := n.recent.find(m); c != nil {
		n.budget.Load(m, c)
		return nil
	}
	c, err := n.store.Read(&m.Message)
	if err != nil {
		return err
	}
	if m.Shared() {
		n.recent.add(m, &c)
	}
	n.budget.Load(m, &c)
	return nil
}

// tick is called by a queue's timer.
func (n *Node) tick(q *Queue) {
	if !n.tasks.enter() {
		return
	}
	defer n.tasks.leave()
	fx, expired := q.core.Tick()
	n.after(q, fx)
	if expired {
		_, _ = q.delete(false, false)
	}
}
