package session

import (
	"fmt"
	"time"

	"github.com/rehop/rehop/broker/internal/node"
	"github.com/rehop/rehop/internal/wire"
)

// ackTimer fires when a delivery was unacked for too long. The channel is locked when its methods are called.
type ackTimer struct {
	timer *time.Timer
	at    time.Duration // when it fires; 0: it is not set
	done  bool
}

// expect sets the timer unless it fires earlier. It does not matter if it fires too early.
func (t *ackTimer) expect(ch *Channel, due time.Duration) {
	if due == 0 || t.done || t.at != 0 && t.at <= due {
		return
	}
	t.at = due
	left := due - ch.node.Clock()
	if t.timer == nil {
		t.timer = ch.node.Tasks.AfterFunc(left, ch.ackOverdue)
	} else {
		t.timer.Reset(left)
	}
}

func (t *ackTimer) stop() {
	t.done = true
	if t.timer != nil {
		t.timer.Stop()
	}
}

// ackOverdue is called by the timer.
func (ch *Channel) ackOverdue() {

	now := ch.node.Clock()
	ch.mu.Lock()
	ch.acks.at = 0
	first, held := ch.unackedList.firstDue()
	due := held && first.due <= now
	if held && !due {
		ch.acks.expect(ch, first.due)
	}
	ch.mu.Unlock()
	if !due {
		return
	}
	ch.conn.ask(func() {
		switch {
		case ch.closed:
		case ch.node.Config.Compat.QueuesTimeOut():
			ch.release()
		default:
			ch.closeOverdue((first.due - first.since).Milliseconds())
		}
	})
}

func (ch *Channel) closeOverdue(limit int64) {
	_ = ch.closeFor(&node.Exception{Code: wire.PreconditionFailed, Text: fmt.Sprintf("delivery acknowledgement on channel %d timed out. Timeout value used: %d ms. "+
		"This timeout value can be configured, see consumers doc guide to learn more", ch.Number, limit)})
}

// release returns deliveries that were unacked for too long to their queues, and cancels their consumers. The client
// still has to answer those deliveries, which has no effect then. A client that cannot be notified loses its channel.
func (ch *Channel) release() {
	ch.mu.Lock()
	taken := ch.unackedList.release(ch.node.Clock())
	if next, held := ch.unackedList.firstDue(); held {
		ch.acks.expect(ch, next.due)
	}
	ch.mu.Unlock()
	ended, unnotified := make(map[*consumer]bool), false
	for _, d := range taken {
		switch c := d.consumer; {
		case c == nil || !ch.conn.hasCapability("consumer_cancel_notify"):
			unnotified = true
		case !ended[c]:
			ended[c] = true
			known := ch.endConsumer(c, func() { _ = ch.send(&wire.BasicCancel{ConsumerTag: c.Tag, NoWait: true}) })
			unnotified = unnotified || !known && !c.timedOut // the client has cancelled it, and has unacked messages of it
			c.timedOut = true                                // its later deliveries become overdue next
		}
	}
	ch.settleAtQueues(taken, node.NackedBack)
	if unnotified {
		ch.closeOverdue(-1)
	}
}
