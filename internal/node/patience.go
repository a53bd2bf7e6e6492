package node

import (
	"fmt"
	"time"

	"github.com/rehop/rehop/internal/wire"
)

// patience ends a channel whose client holds a delivery for too long. The channel is locked when its methods are called.
type patience struct {
	timer *time.Timer
	done  bool
	since time.Duration // when the oldest open delivery may have been handed over
}

// begin notes a delivery.
func (p *patience) begin(ch *Channel) {
	limit := ch.node.config.ConsumerTimeout
	if limit == 0 || p.done || ch.ledger.open != 1 {
		return
	}
	p.since = ch.node.clock()
	if p.timer == nil {
		p.timer = time.AfterFunc(limit, func() { ch.impatient() })
	} else {
		p.timer.Reset(limit)
	}
}

// progress notes that deliveries were settled.
func (p *patience) progress(ch *Channel) {
	if p.timer == nil || p.done {
		return
	}
	if ch.ledger.open == 0 {
		p.timer.Stop()
		return
	}
	p.since = ch.node.clock()
}

func (p *patience) stop() {
	p.done = true
	if p.timer != nil {
		p.timer.Stop()
	}
}

// impatient is called by the timer. A channel that has settled something since gets as much time again.
func (ch *Channel) impatient() {
	if !ch.node.tasks.enter() {
		return
	}
	defer ch.node.tasks.leave()
	limit := ch.node.config.ConsumerTimeout
	ch.mu.Lock()
	p := &ch.patience
	left := p.since + limit - ch.node.clock()
	if p.done || ch.ledger.open == 0 {
		ch.mu.Unlock()
		return
	}
	if left > 0 {
		p.timer.Reset(left)
		ch.mu.Unlock()
		return
	}
	ch.mu.Unlock()
	ch.conn.ask(func() {
		if !ch.closed {
			ch.expel(&exception{code: wire.PreconditionFailed, text: fmt.Sprintf("delivery acknowledgement on channel %d timed out. Timeout value used: %d ms. "+
				"This timeout value can be configured, see consumers doc guide to learn more", ch.Number, limit.Milliseconds())})
		}
	})
}
