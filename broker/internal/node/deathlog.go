package node

import (
	"slices"

	"github.com/rehop/rehop/broker/internal/queue"
	"github.com/rehop/rehop/broker/internal/store"
)

// loggedReasons are the reasons by their numbers in the log, from 1 on. The order must not change; new reasons go to the end.
var loggedReasons = []queue.Reason{queue.Rejected, queue.Expired, queue.MaxLength, queue.DeliveryLimit}

// returnedAlive is the number of dead letters that are ordinary messages again. A queue keeps dead letters because it
// promises to. If a start finds it without a dead-letter exchange, its definition or its policy may have been damaged,
// and what it has kept must not be dropped.
const returnedAlive store.Death = 255

// claim is a message in a queue.
type claim struct {
	message *queue.Message
	queue   store.QueueID
}

// logReturned logs which dead letters are ordinary messages again, so that later starts treat them like this one. Their
// deliveries are counted from 0.
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
		return queue.Rejected // by a newer version of rehop
	}
	return loggedReasons[d-1]
}

// logDeath logs that a message was dead-lettered and has not reached all targets, and which queues it enters now.
// Otherwise its consumers would get it again after a restart, and those queues would get it twice.
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
