package consume

import (
	"context"
	"time"

	"github.com/rehop/rehop/internal/rabbit"
)

const (
	// holdLimit is how long a message stays unacked at most while a subscription pauses. It is then
	// republished to the end of its queue. See Timeout.
	holdLimit = 10 * time.Minute
	// longOutage is when all messages but the one that probes go back to their queue: those that wait
	// behind others would stay unacked for longer than the broker allows.
	longOutage = time.Minute
)

// outage is a pause of a subscription because something that the handler needs is down. One worker
// probes with its message; all others wait with theirs.
type outage struct {
	over  chan struct{} // closed when it is over
	long  chan struct{} // closed after longOutage
	turn  chan struct{} // has a token while no worker probes
	timer *time.Timer   // closes long
	tries int           // probes so far
	due   time.Time     // when to probe next
}

// beginOutage begins an outage in which a message probes, unless there is one.
func (s *Subscription) beginOutage(h *Handling) (o *outage, began bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.outage != nil {
		return s.outage, false
	}
	o = &outage{over: make(chan struct{}), long: make(chan struct{}), turn: make(chan struct{}, 1)}
	o.timer = time.AfterFunc(longOutage, func() {
		if s.probe(o) { // first, so that requeued messages are not delivered again
			defer s.returning.Done()
			close(o.long)
			s.returnPrefetched(h.base)
		}
	})
	s.outage, h.probes = o, o
	close(s.paused)
	return o, true
}

// probe sets the prefetch to one until an outage is over. False: it is over, or the consumer cannot be
// replaced. Otherwise the caller must call returning.Done.
func (s *Subscription) probe(o *outage) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.outage != o || s.settings.LastConsumer || s.settings.temporary() && s.stopping() {
		return false
	}
	s.probing = true
	s.replaceConsumer()
	s.returning.Add(1)
	return true
}

// returnPrefetched requeues prefetched messages: workers that wait do not take them, and their consumer
// timeout runs.
func (s *Subscription) returnPrefetched(base context.Context) {
	s.mu.Lock()
	o := s.current
	s.mu.Unlock()
	if o.session == nil || o.narrow {
		return
	}
	defer s.shared.Inside.Visit(s)()
	o.session.Cancel() // otherwise they would be delivered to this consumer again
	s.giveBackRest(base, o)
}

// awaitOutage keeps a message while the subscription pauses. False: the message has been settled.
func (s *Subscription) awaitOutage(h *Handling) bool {
	for {
		s.mu.Lock()
		o := s.outage
		s.mu.Unlock()
		if o == nil || o == h.probes {
			return true
		}
		select {
		case <-o.turn:
			h.probes = o
			h.single()
			if !s.awaitProbe(h, o) {
				return false
			}
		default:
			if !s.hold(h, o, o.over) {
				return false
			}
		}
	}
}

// probeLater sets the time of the next probe, after one that has failed, and waits for it.
func (s *Subscription) probeLater(h *Handling, o *outage) bool {
	o.tries++
	o.due = time.Now().Add(rabbit.Backoff{Min: s.settings.ProbeMin, Max: s.settings.ProbeMax}.Delay(o.tries))
	return s.awaitProbe(h, o)
}

// awaitProbe waits until it is time for a message to probe.
func (s *Subscription) awaitProbe(h *Handling, o *outage) bool {
	due := make(chan struct{})
	timer := time.AfterFunc(time.Until(o.due), func() { close(due) })
	defer timer.Stop()
	return s.hold(h, o, due)
}

// hold keeps a message or a batch until an event, or until it is its turn to probe. False: the session
// ended, the subscription drains or stops, or it took too long, and the message has been settled. A
// drain lets running handlers finish, and this one has not begun. But where the queue ends with the
// subscription, a drain waits for the end of the outage: a message that is given back is lost.
func (s *Subscription) hold(h *Handling, o *outage, event <-chan struct{}) bool {
	if h.taken.IsZero() {
		if h.taken = h.began; h.began.IsZero() { // no handler has run
			h.taken = time.Now()
		}
	}
	limit := h.taken.Add(s.settings.holdFor(h.from.narrow))
	if s.settings.temporary() && s.stopping() {
		limit = s.stoppedAt().Add(holdLimit)
	}
	timer := time.NewTimer(time.Until(limit))
	defer timer.Stop()
	long, turn := o.long, o.turn
	if h.probes == o {
		turn = nil
	}
	if h.probes == o && !h.holdsMore() || h.from.narrow { // nothing waits behind it
		long = nil
	}
	end, ending := s.stop, s.stopping
	if s.settings.temporary() {
		end, ending = s.halt, s.halting
	}
	back := func(h *Handling) { s.giveBack(h, Result{}) }
	letGo := back
	select {
	case <-event:
		if !ending() {
			return true
		}
	case <-turn:
		o.turn <- struct{}{} // awaitOutage takes it
		return true
	case <-long:
		h.raw.Session.Cancel() // otherwise it would be delivered to this consumer again
		if h.probes == o {
			concurrently(s, h.releaseRest(), back)
			return s.hold(h, o, event)
		}
	case <-h.raw.Session.Ended():
		letGo = func(h *Handling) { s.report(h, Result{Outcome: Lost}) }
	case <-end:
	case <-timer.C:
		switch {
		case !s.settings.temporary() || !s.stopping():
			letGo = s.republish
		case time.Since(s.stoppedAt()) < holdLimit: // there is no queue any more to send it to
			return s.hold(h, o, event)
		}
	}
	concurrently(s, h.held(), letGo)
	s.passOn(h)
	return false
}

// passOn lets another message probe.
func (s *Subscription) passOn(h *Handling) {
	if h.probes != nil {
		h.probes.turn <- struct{}{}
		h.probes = nil
	}
}

// pause begins an outage, or waits for the end of one, because the handler has returned Unavailable.
// False: the message has been settled. Otherwise the handler is to run again.
func (s *Subscription) pause(h *Handling, err error) bool {
	o, began := s.beginOutage(h)
	if began {
		s.reportPause(true, err)
	}
	if o != h.probes {
		return true // when the outage is over: another worker probes
	}
	h.single()
	return s.probeLater(h, o)
}

// endOutage is called when the handler has answered for a message that probes.
func (s *Subscription) endOutage(h *Handling) {
	if h.probes != nil {
		h.probes = nil
		s.leaveOutage()
		if h.from.narrow && !s.isNarrow() {
			// Before this message is acked: otherwise the broker sends this consumer another one, in
			// addition to the prefetch of the next consumer.
			h.raw.Session.Cancel()
		}
	}
}

// leaveOutage ends an outage, if there is one: it is over, or the subscription is.
func (s *Subscription) leaveOutage() {
	s.mu.Lock()
	o := s.outage
	if o == nil {
		s.mu.Unlock()
		return
	}
	s.outage, s.paused = nil, make(chan struct{})
	if s.probing {
		s.probing = false
		s.replaceConsumer()
	}
	s.mu.Unlock()
	o.timer.Stop()
	close(o.over)
	s.reportPause(false, nil)
}

func (s *Subscription) reportPause(paused bool, err error) {
	message := "rehop: subscription resumes"
	if paused {
		message = "rehop: subscription pauses because the handler returned Unavailable"
	}
	s.shared.Logger.Warn(message, "queue", s.settings.Queue, "err", err)
	s.settings.Events.Pause(paused, err)
}
