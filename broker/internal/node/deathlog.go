package node

import (
	"slices"

	"github.com/rehop/rehop/broker/internal/queue"
	"github.com/rehop/rehop/broker/internal/store"
)

// loggedReasons are the reasons by their numbers in the log, from 1 on. What is here stays as it is, and others are added behind.
var loggedReasons = []queue.Reason{queue.Rejected, queue.Expired, queue.MaxLength, queue.DeliveryLimit}

// returnedAlive is the number of messages that have died and are alive again. A queue keeps dead letters because it promises to. If it is found without a
// dead-letter exchange at a start, its definition or its policy may have been damaged, and then nobody may drop what it has kept.
const returnedAlive store.Death = 255

// claim is the hold of a queue on a message.
type claim struct {
	message *queue.Message
	queue   store.QueueID
}

// logReturned notes which messages are alive again, so that later starts treat them as this one does. Their deliveries are counted anew.
func (n *Node) logReturned(all []claim) {
	for len(all) > 0 {
		b := n.Batch()
		for len(all) > 0 && b.Size() < lettersAtOnce {
			m, q := &all[0].message.Message, all[0].queue
			b.Count(m, q, 0)
			b.Die(m, q, returnedAlive)
			all = all[1:]
		}
		n.Commit(b)
	}
}

func reasonOf(d store.Death) queue.Reason {
	if int(d) > len(loggedReasons) {
		return queue.Rejected // by a program that knew more
	}
	return loggedReasons[d-1]
}

// logDeath notes in the log that a message has died and is not yet where it belongs, and to which queues it goes now. Without that it would come back
// to its consumers after a restart, and go to those queues once more.
func (q *Queue) logDeath(d queue.Death, b *store.Batch, copies []arrival) queue.Death {
	copied := make([]store.QueueID, len(copies))
	for i, a := range copies {
		copied[i] = a.queue.Core.ID
	}
	if (!d.Noted || len(copied) > 0) && q.kept() {
		b.Die(&d.Item.Message.Message, q.Core.ID, store.Death(slices.Index(loggedReasons, d.Reason)+1), copied...)
		d.Noted = true
	}
	d.Copied = append(d.Copied, copied...)
	return d
}
