package ordering

import (
	"container/heap"
	"time"
)

const (
	// releaseAfter is how often a probe is sent at most so that a message that is done can be acked.
	releaseAfter = time.Second
	// byeGrace is how long an orderly end waits for the broker.
	byeGrace = 2 * time.Second
	// tickEvery is how often Tick is to be called at least.
	tickEvery = time.Second
)

// Next is when Tick is to be called.
func (o *Owner) Next() time.Time {
	next := o.now.Add(tickEvery)
	if len(o.timers) > 0 && o.timers[0].due.Before(next) {
		return o.timers[0].due
	}
	return next
}

// Tick receives the time.
func (o *Owner) Tick(now time.Time) {
	o.now = now
	switch o.phase {
	case waiting:
		// One probe would do: whoever is active leaves a message unacked, and so there is always one that
		// shows when this session has become active. But the probe may have got lost, or the queue purged.
		if o.since(o.probed) >= 12*o.opt.Probe {
			o.probe()
		}
	case entering:
		if o.since(o.greeted) >= o.opt.Probe {
			o.hello()
		}
	case reading, claiming:
		o.remind()
		o.expire()
	case owning:
		o.tickOwner()
	case closing:
		o.farewell()
		if o.bye == nil && o.opt.EndWithin > 0 && o.since(o.stopped) >= o.opt.EndWithin {
			o.end("handlers do not return", false)
		}
		if o.bye != nil && o.since(o.left) >= 2*byeGrace {
			o.end("the broker has not confirmed the orderly end in time", false)
		}
	}
}

func (o *Owner) since(t time.Time) time.Duration { return o.now.Sub(t) }

func (o *Owner) tickOwner() {
	for len(o.timers) > 0 && !o.timers[0].due.After(o.now) {
		k := heap.Pop(&o.timers).(*key)
		o.advance(k)
	}
	if o.crowded() { // there may be room in the held queue by now
		o.advanceAll()
	}
	if o.unacked < o.opt.Window && o.since(later(o.heardMain, o.probed)) >= o.opt.Probe {
		o.probe()
	}
	if o.sent == o.back && o.since(later(o.heardHeld, o.marked)) >= o.opt.Probe {
		o.mark(0)
	}
	o.remind()
	o.releaseLast()
	o.endTrials()
	o.expire()
	long := o.opt.Lasting > 0 && o.since(o.began) >= o.opt.Lasting
	if many := o.opt.Deliveries > 0 && o.received >= o.opt.Deliveries; o.phase == owning && (long || many) {
		o.Stop(o.now)
	}
}

// remind sends a mark again that has not come back.
func (o *Owner) remind() {
	if o.sent == o.back || o.since(o.marked) < o.opt.Probe {
		return
	}
	o.sent--
	epoch := uint64(0)
	if o.phase == claiming {
		epoch = o.epoch
	}
	o.mark(epoch)
}

// expire ends the session if a queue sends nothing although it should: the broker has another active
// consumer.
func (o *Owner) expire() {
	switch {
	case o.phase == closed:
	case o.heardHeld.Before(o.markNoted) && o.since(o.heardHeld) >= o.opt.Lease+2*o.opt.Probe:
		o.end("the held queue sends nothing", false)
	case o.phase == owning && o.misses():
		o.end("the held queue does not send what is in it", false)
	case o.phase == owning && o.unacked < o.opt.Window && o.heardMain.Before(o.probeNoted) && o.since(o.heardMain) >= o.opt.Lease+2*o.opt.Probe:
		o.end("the main queue sends nothing", false)
	}
}

// misses reports whether a copy is in the held queue that should have come from there.
func (o *Owner) misses() bool {
	for _, k := range o.keys {
		for _, mv := range k.moves() {
			if mv.confirmed && !mv.back && mv.to == Held && o.since(mv.since) >= o.opt.Lease {
				return true
			}
		}
	}
	return false
}

// releaseLast sends a probe if the only message that is unacked is done: it can be acked when there is another one.
func (o *Owner) releaseLast() {
	if o.phase == owning && o.deferred != nil && o.deferred.Kind == Plain && o.since(o.probed) >= releaseAfter {
		o.probe()
	}
}

// Stop ends the session in an orderly way: handlers that run may finish, no others start.
func (o *Owner) Stop(now time.Time) {
	o.now = now
	switch {
	case o.phase < owning:
		o.end("", true)
	case o.phase == owning:
		o.phase, o.stopped, o.runnable, o.parked, o.timers = closing, now, fifo[*key]{}, nil, nil
		o.farewell()
	}
}

// Abandon ends the session at once, for a reason that the Owner does not know.
func (o *Owner) Abandon(reason string, now time.Time) {
	o.now = now
	o.end(reason, false)
}

// lastProbes is how many probes a session sends, one after the other, before it ends.
const lastProbes = 2

// farewell ends a session that is closing, when all that it has begun is over. It first sends probes, and waits for
// them: then all messages can be acked, and the broker has all acks. The channel of a consumer of RabbitMQ keeps
// acks of a quorum queue back while more than 32 of its commands are under way, and forgets them when it closes. The
// first probe may overtake acks that were sent before it, the second one does not.
func (o *Owner) farewell() {
	if o.phase != closing || o.running > 0 || o.moves > 0 || o.bye != nil {
		return
	}
	if o.probes == 0 {
		o.left = o.now
	}
	if (o.probes == 0 || o.arrived != o.leaving) && o.probes < lastProbes {
		o.probes++
		o.leaving = o.arrived
		o.probe()
	}
	if o.arrived == o.leaving && o.unacked < o.opt.Window && o.since(o.left) < byeGrace {
		return
	}
	o.bye = &Move{to: Held, copy: Message{Kind: Bye, Epoch: o.epoch, Session: o.opt.Session}}
	o.publish(o.bye)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
