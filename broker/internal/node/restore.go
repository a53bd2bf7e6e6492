package node

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/rehop/rehop/broker/internal/queue"
	"github.com/rehop/rehop/broker/internal/store"
)

// redeliveryMark is which messages may have been delivered without a record in the log: all that existed when the broker
// started after a crash. It is kept on disk, because the messages may still exist after the next clean stop.
type redeliveryMark struct {
	Last uint64 `json:"Last"` // the highest number of such a message
}

// redeliveryMarkKey is the key of its definition.
const redeliveryMarkKey = "doubt"

// openStore opens the log and restores its contents.
func (n *Node) openStore() error {
	options := n.Config.Store
	options.Synced = n.clients.Synced
	options.Failed = n.fail
	options.Full = func(full bool) { n.SetAlarm(DiskAlarm, full) }
	options.Logger = n.Log
	log, err := store.Open(store.Dir(n.Config.Dir), options)
	if err != nil {
		return fmt.Errorf("open the log in %s: %w", n.Config.Dir, err)
	}
	n.Store = log
	if err := n.restore(); err != nil {
		_ = log.Close()
		return fmt.Errorf("recover from %s: %w", n.Config.Dir, err)
	}
	return nil
}

func (n *Node) restore() error {
	all := n.Store.Definitions()
	if err := n.restoreDefinitions(all); err != nil {
		return err
	}
	var mark redeliveryMark
	if err := restoreOne(all, redeliveryMarkKey, &mark); err != nil {
		return err
	}
	before := mark
	if err := n.logClock.begin(n, all); err != nil {
		return err
	}
	queues := make(map[store.QueueID]*Queue)
	known := make(map[store.QueueID]bool)
	for _, v := range n.vhosts {
		for _, q := range v.queues {
			queues[q.Core.ID] = q
			known[q.Core.ID] = true
		}
		v.handle(v.applyPolicies())
	}
	// The store passes handles in the order of their numbers, so that their messages are found in one pass.
	var messages []*queue.Message
	next, inOrder := 0, false
	var alive []claim
	now := n.logClock.now()
	err := n.Store.Recover(known,
		func(f store.Found) *store.Message {
			m := queue.Recovered(f)
			messages = append(messages, m)
			return &m.Message
		},
		func(handle *store.Message, h store.Hold) {
			if !inOrder {
				inOrder = true
				slices.SortFunc(messages, func(a, b *queue.Message) int { return cmp.Compare(a.Seq(), b.Seq()) })
			}
			for &messages[next].Message != handle {
				next++
			}
			m, meta := messages[next], handle.Meta()
			n.budget.Recover(m)
			if !n.Store.Clean() {
				mark.Last = max(mark.Last, m.Seq())
			}
			q := queues[h.Queue].Core
			returns := n.Config.Compat.restored(h.Deliveries)
			switch {
			case h.Death == returnedAlive:
				q.Revive(m, returns)
				return
			case h.Death != 0 && !q.Settings().HasDeadLetter:
				q.Revive(m, queue.Returns{})
				alive = append(alive, claim{m, q.ID})
				return
			case h.Death != 0:
				q.RestoreDead(m, returns, reasonOf(h.Death), h.Copied)
				return
			}
			ttl := time.Duration(-1)
			if meta.TTL >= 0 {
				ttl = time.Duration(meta.TTL) * time.Millisecond
			}
			age := time.Duration(max(now-meta.Enqueued, 0)) * time.Millisecond
			returns.Delay = time.Duration(max(h.Until-now, 0)) * time.Millisecond
			q.Restore(m, ttl, age, returns, h.Deliveries > 0 || m.Seq() <= mark.Last)
		})
	if err != nil {
		return err
	}
	if mark != before {
		n.define(put(redeliveryMarkKey, mark))
	}
	n.defineFound(all)
	n.logReturned(alive)
	for _, q := range queues {
		n.Apply(q, q.Core.Pump())
	}
	return nil
}

// defineFound defines the virtual hosts that were recreated because of their contents.
func (n *Node) defineFound(all []store.Definition) {
	for name := range n.vhosts {
		key := vhostKey(name)
		if !slices.ContainsFunc(all, func(d store.Definition) bool { return d.Key == key }) {
			n.define(put(key, vhostDefinition{}))
		}
	}
}

// Durable returns up to where the log is on disk.
func (n *Node) Durable() store.Mark {
	if n.Store == nil {
		return 0
	}
	return n.Store.Durable()
}

// NewQueueID returns an unused number for a queue.
func (n *Node) NewQueueID() store.QueueID {
	if n.Store == nil {
		return store.QueueID(n.queues.Add(1))
	}
	return n.Store.NewQueue()
}
