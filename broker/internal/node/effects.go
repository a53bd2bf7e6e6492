package node

import (
	"github.com/rehop/rehop/broker/internal/queue"
	"github.com/rehop/rehop/broker/internal/store"
)

// Batch returns an empty batch for the log.
func (n *Node) Batch() *store.Batch { return n.batches.Get().(*store.Batch) }

// Commit writes a batch to the log, if there is a log. The caller must not use the batch any more.
func (n *Node) Commit(b *store.Batch) store.Mark {
	var mark store.Mark
	if n.Store != nil {
		mark = n.Store.Commit(b)
		for last := n.Latest.Load(); last < uint64(mark) && !n.Latest.CompareAndSwap(last, uint64(mark)); last = n.Latest.Load() {
			continue
		}
	}
	b.Reset()
	n.batches.Put(b)
	return mark
}

// Throttle waits while much is to be written. No lock is held.
func (n *Node) Throttle() {
	if n.Store != nil && n.opened.Load() {
		// An error means that the log has failed or the node is closed, which is reported elsewhere.
		_ = n.Store.Throttle(n.Context)
	}
}

// Apply does what follows from a call to a queue. No lock is held.
func (n *Node) Apply(q *Queue, fx queue.Effects) {
	if n.settleAndLoad(q, fx) {
		n.deadLetterAll(q)
	}
	n.CheckMemory()
}

// settleAndLoad does what must be done at once. It reports whether there are dead letters.
func (n *Node) settleAndLoad(q *Queue, fx queue.Effects) (dead bool) {
	for {
		n.settled(q, fx.Settled)
		dead = dead || fx.Dead
		if !fx.Load {
			return dead
		}
		fx = q.Core.Loaded(n.load(q))
	}
}

// settled logs that messages have left a queue.
func (n *Node) settled(q *Queue, messages []*queue.Message) {
	if len(messages) == 0 || !q.kept() {
		return
	}
	b := n.Batch()
	for _, m := range messages {
		if m.Stored() {
			b.Settle(&m.Message, q.Core.ID)
		}
	}
	n.Commit(b)
}

// load reads the contents that consumers wait for. It returns the messages that cannot be read.
func (n *Node) load(q *Queue) map[*queue.Message]bool {
	var unreadable map[*queue.Message]bool
	for _, m := range q.Core.Missing() {
		if err := n.reload(m); err != nil {
			n.Log.Error("a stored message cannot be read and was dropped from its queue; its file is kept", "queue", q.Name, "vhost", q.Vhost.Name, "error", err)
			if unreadable == nil {
				unreadable = make(map[*queue.Message]bool)
			}
			unreadable[m] = true
		}
	}
	return unreadable
}

func (n *Node) reload(m *queue.Message) error {
	if c := n.contentCache.find(m); c != nil {
		n.budget.Load(m, c)
		return nil
	}
	c, err := n.Store.Read(&m.Message)
	if err != nil {
		return err
	}
	if m.Shared() {
		n.contentCache.add(m, &c)
	}
	n.budget.Load(m, &c)
	return nil
}

// tick is called by a queue's timer.
func (n *Node) tick(q *Queue) {
	fx, expired := q.Core.Tick()
	n.Apply(q, fx)
	if expired {
		_, _ = q.Delete(false, false)
	}
}
