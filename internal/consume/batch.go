package consume

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rehop/rehop/internal/rabbit"
)

// Batch is how many messages the handler gets together, and how long it waits for them. Size 0:
// it gets each by itself.
type Batch struct {
	Size int
	Wait time.Duration // after the first
}

// batch is what a worker handles together. All of it is from one session: after a connection was
// lost, no batch has both a message and its redelivery.
type batch struct {
	members []*Handling // that the handler gets
	rest    []*Handling // that it gets when the members have found out that an outage is over
	next    *Handling   // that was taken and is not admitted yet: it belongs to the next batch
	answers []error     // what the handler has returned for each member
	reruns  int         // immediate runs of this attempt after the first
}

// join returns a Handling for deliveries that are handled together: the context of their handler,
// without a View.
func join(members []*Handling, next *Handling) *Handling {
	first := members[0]
	return &Handling{base: first.base, hookCtx: first.base, from: first.from, raw: first.raw, batch: &batch{members: members, next: next}}
}

// messages is how many messages the handler gets.
func (h *Handling) messages() int {
	if h.batch == nil {
		return 1
	}
	return len(h.batch.members)
}

// held are all deliveries that the worker has taken.
func (h *Handling) held() []*Handling {
	if h.batch == nil {
		return []*Handling{h}
	}
	all := slices.Concat(h.batch.members, h.batch.rest)
	if h.batch.next != nil {
		all = append(all, h.batch.next)
	}
	return all
}

// holdsMore reports whether deliveries wait for the one that probes.
func (h *Handling) holdsMore() bool {
	return h.batch != nil && (len(h.batch.rest) > 0 || h.batch.next != nil)
}

// releaseRest removes all deliveries from a batch except its members.
func (h *Handling) releaseRest() []*Handling {
	all := h.held()[len(h.batch.members):]
	h.batch.rest, h.batch.next = nil, nil
	return all
}

// reportLost reports that the session of a delivery has ended, or that of a batch.
func (s *Subscription) reportLost(h *Handling) {
	for _, held := range h.held() {
		s.report(held, Result{Outcome: Lost})
	}
}

// single has one message of a batch probe, while the others wait for the result.
func (h *Handling) single() {
	if b := h.batch; b != nil && len(b.members) > 1 {
		b.members, b.rest = b.members[:1:1], slices.Concat(b.members[1:], b.rest)
	}
}

// handleBatch collects the next batch from a session, and sees to it. See handleNext.
func (w *worker) handleBatch(o offer) (more, mine bool) {
	h, more := w.collect(o)
	mine = w.handleAll(h)
	return more || w.next != nil, mine
}

// collect takes deliveries until a batch is full, or for the time that it waits for more. It
// returns nil if there is none to be handled; more is false if the session has no more.
//
// A delivery that is not simply handled waits until the batch has been: a suspect is handled when all
// others are settled, and one that has to be moved would delay the others. A copy of a message that is
// in the batch waits, too.
func (w *worker) collect(o offer) (h *Handling, more bool) {
	s := w.sub
	filling := false
	done := func() {
		if filling {
			filling = false
			<-o.turn
		}
	}
	defer done()
	first := w.next
	w.next = nil
	if first == nil {
		o.turn <- struct{}{} // the worker that has it has no message, or waits for a limited time
		filling = true
		d, ok := o.session.Next()
		if !ok {
			return nil, false
		}
		first = s.receive(w.base, o, d)
	}
	if s.halting() {
		done()
		s.giveBack(first, Result{})
		return nil, true
	}
	admission := s.judge(o, first)
	if admission.Do != Handle || o.narrow {
		done() // what follows may wait for messages of other workers
		if !s.carryOut(o, first, admission) {
			return nil, true
		}
		return join([]*Handling{first}, nil), true
	}

	timer := time.NewTimer(s.settings.Batch.Wait)
	defer timer.Stop()
	members, next, more := []*Handling{first}, (*Handling)(nil), true
	if !filling {
		select {
		case o.turn <- struct{}{}:
			filling = true
		case <-timer.C:
		case <-s.halt:
		}
	}
	ids := map[string]bool{first.raw.MessageId: true}
	for filling && next == nil && len(members) < s.settings.Batch.Size {
		var d rabbit.Delivery
		var ok bool
		if d, ok, more = o.session.NextBefore(timer.C, s.halt); !ok {
			break
		}
		another := s.receive(w.base, o, d)
		id := another.raw.MessageId
		if id != "" && ids[id] || s.judge(o, another).Do != Handle {
			next = another
			break
		}
		ids[id] = true
		members = append(members, another)
	}
	return join(members, next), more
}

// handleAll sees to a batch, if it is not nil, until none of its deliveries is to be handled again at
// once. False: another worker has taken this one's place.
func (w *worker) handleAll(h *Handling) bool {
	s := w.sub
	for h != nil {
		if h.raw.Session.Lost() { // the broker delivers all of it again
			s.reportLost(h)
			s.passOn(h)
			return true
		}
		if !s.awaitOutage(h) || s.bucket != nil && !s.awaitRate(h) {
			return true
		}
		mine, err := w.run(h)
		if !mine {
			return false
		}
		h = w.concludeAll(h, err, false)
	}
	return true
}

// concludeAll carries out what the handler has returned, err for all deliveries or one answer for
// each. It returns those that are to be handled again, or nil.
func (w *worker) concludeAll(h *Handling, err error, takenOver bool) *Handling {
	s, b := w.sub, h.batch
	type conclusion struct {
		of       *Handling
		err      error
		decision Decision
	}
	var again []*Handling
	var acks, others []conclusion
	var unavailable error
	reruns := b.reruns
	for i, m := range b.members {
		answer := err
		if err == nil {
			answer = b.answers[i]
		}
		state := m.state(b.reruns)
		if state.TakenOver = takenOver; takenOver {
			m = s.takenOver(m)
		}
		switch d := Decide(state, AnswerOf(answer), s.settings.Schedule); d.Do {
		case AwaitOutage:
			unavailable = answer
			again = append(again, s.again(m))
		case Rerun:
			reruns = b.reruns + 1
			again = append(again, s.again(m))
		case Ack, AckDiscard:
			acks = append(acks, conclusion{m, answer, d})
		default:
			others = append(others, conclusion{m, answer, d})
		}
	}
	if len(acks)+len(others) > 0 {
		s.endOutage(h)
	}
	for _, c := range acks {
		s.conclude(c.of, c.err, c.decision)
	}
	concurrently(s, others, func(c conclusion) { s.conclude(c.of, c.err, c.decision) })

	if unavailable != nil || h.probes == nil || len(again) == 0 {
		again, b.rest = slices.Concat(again, b.rest), nil
	} // else only what probes runs once more, and the others keep waiting for its result
	if len(again) == 0 {
		w.next = b.next
		return nil
	}
	next := join(again, b.next)
	next.batch.rest = b.rest
	next.batch.reruns, next.began, next.probes, next.taken = reruns, h.began, h.probes, h.taken
	if unavailable != nil && !s.pause(next, unavailable) {
		return nil
	}
	return next
}

// movesAtOnce is how many messages of a batch are moved at the same time: each waits for the broker's
// confirm.
const movesAtOnce = 64

// concurrently does something with each delivery of a batch, and returns when all is done.
func concurrently[T any](s *Subscription, all []T, do func(T)) {
	if len(all) <= 1 {
		for _, one := range all {
			do(one)
		}
		return
	}
	var group sync.WaitGroup
	var taken atomic.Int64
	for range min(len(all), movesAtOnce) {
		group.Go(func() {
			defer s.shared.Inside.Leave(s.shared.Inside.Enter(s)) // hooks are called
			for i := taken.Add(1) - 1; i < int64(len(all)); i = taken.Add(1) - 1 {
				do(all[i])
			}
		})
	}
	group.Wait()
}
