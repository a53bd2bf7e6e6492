package rehop

import (
	"time"

	"github.com/rehop/rehop/internal/rabbit"
)

// holdLimit is how long a message is held while a subscription pauses. It is then sent to the end of
// its queue, well before the broker's consumer timeout would take it away and count that.
const holdLimit = 10 * time.Minute

// outage is a time in which the handler cannot work because something that it needs is down. One
// worker probes with its message; all others wait with theirs.
type outage struct {
	over  chan struct{}
	tries int // of the one that probes
}

// awaitOutage waits, with a message in hand, while the subscription pauses. False: the message is no
// longer in hand.
func (s *Subscriber) awaitOutage(h *handling) bool {
	for {
		s.mu.Lock()
		o := s.outage
		s.mu.Unlock()
		if o == nil || o == h.probes {
			return true
		}
		if !s.hold(h, o.over) {
			return false
		}
	}
}

// hold waits for an event with a message in hand. False: the session ended, the subscription drains or stops,
// or it has taken too long, and the message is no longer in hand. A drain lets handlers come to their end, and this one cannot begin.
func (s *Subscriber) hold(h *handling, event <-chan struct{}) bool {
	if h.heldSince.IsZero() {
		h.heldSince = time.Now()
	}
	timer := time.NewTimer(time.Until(h.heldSince.Add(holdLimit)))
	defer timer.Stop()
	select {
	case <-event:
		if !s.stopping() {
			return true
		}
		s.giveBack(h, Result{})
	case <-h.raw.Session.Ended():
		s.tellHandled(h, Result{Outcome: OutcomeLost})
	case <-s.stop:
		s.giveBack(h, Result{})
	case <-timer.C:
		s.requeueAtEnd(h)
	}
	s.endOutage(h)
	return false
}

// answer is what a handler's return means in the light of an outage.
type answer int

const (
	answered  answer = iota // an answer like any other
	askAgain                // run the handler again with the same message
	notInHand               // the message is no longer ours
)

// weigh begins an outage when the handler says so, or waits for the end of one.
func (s *Subscriber) weigh(h *handling, err error) answer {
	if err == nil || h.why() == errStopping {
		return answered
	}
	if does, _ := instructionOf(err); does != doPause {
		return answered
	}
	s.mu.Lock()
	began := s.outage == nil
	if began {
		s.outage = &outage{over: make(chan struct{})}
		h.probes = s.outage
	}
	o := s.outage
	s.mu.Unlock()
	if began {
		s.tellPause(true, err)
	}
	if o != h.probes {
		return askAgain // when the outage is over: another worker probes
	}
	o.tries++
	probe := rabbit.Backoff{Min: s.config.ProbeMin, Max: s.config.ProbeMax}
	due := make(chan struct{})
	timer := time.AfterFunc(probe.Delay(o.tries), func() { close(due) })
	defer timer.Stop()
	if !s.hold(h, due) {
		return notInHand
	}
	return askAgain
}

// endOutage is called when a message leaves the hand that may have been the probe.
func (s *Subscriber) endOutage(h *handling) {
	if h.probes == nil {
		return
	}
	s.mu.Lock()
	if s.outage == h.probes {
		s.outage = nil
		close(h.probes.over)
	}
	h.probes = nil
	s.mu.Unlock()
	s.tellPause(false, nil)
}

func (s *Subscriber) tellPause(paused bool, err error) {
	event := PauseEvent{Queue: s.config.Queue, Paused: paused, Err: err}
	message := "rehop: subscription goes on"
	if paused {
		message = "rehop: subscription pauses"
	}
	s.client.config.Logger.Warn(message, "queue", event.Queue, "err", err)
	tell(s.client.hooks.pause, func(h PauseHook) { h.OnPause(event) })
}
