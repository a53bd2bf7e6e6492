package node

import (
	"fmt"
	"time"

	"github.com/rehop/rehop/internal/wire"
)

// patience ends a channel whose client holds a delivery for too long. The channel is locked when its methods are called.
type patience struct {
	timer *time.Timer
	set   bool
	done  bool
}

// begin is called when deliveries are open. It sets the timer unless it is set: that it fires too early does not matter.
func (p *patience) begin(ch *Channel) {
	limit := ch.node.config.ConsumerTimeout
	if limit == 0 || p.done || p.set {
		return
	}
	p.set = true
	if p.timer == nil {
		p.timer = time.AfterFunc(limit, ch.impatient)
	} else {
		p.timer.Reset(limit)
	}
}

func (p *patience) stop() {
	p.done = true
	if p.timer != nil {
		p.timer.Stop()
	}
}

// impatient is called by the timer, and looks at the oldest delivery.
func (ch *Channel) impatient() {
	if !ch.node.tasks.enter() {
		return
	}
	defer ch.node.tasks.leave()
	limit := ch.node.config.ConsumerTimeout
	ch.mu.Lock()
	p := &ch.patience
	p.set = false
	since, open := ch.ledger.oldest()
	left := since + limit - ch.node.clock()
	if !p.done && open && left > 0 {
		p.set = true
		p.timer.Reset(left)
	}
	tooLong := !p.done && open && left <= 0
	ch.mu.Unlock()
	if !tooLong {
		return
	}
	ch.conn.ask(func() {
		if !ch.closed {
			ch.expel(&exception{code: wire.PreconditionFailed, text: fmt.Sprintf("delivery acknowledgement on channel %d timed out. Timeout value used: %d ms. "+
				"This timeout value can be configured, see consumers doc guide to learn more", ch.Number, limit.Milliseconds())})
		}
	})
}
