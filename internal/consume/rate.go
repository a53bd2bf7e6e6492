package consume

import "time"

// MaxRateWait is how long the rate may keep a prefetched message waiting: well below the broker's
// consumer timeout. See Timeout.
const MaxRateWait = holdLimit

// awaitRate keeps a message, or a batch, until the rate allows another run of the handler, whose time
// has not begun. False: the message has been settled, or all of the batch.
//
// The worker whose turn it is waits for nothing but time: never for another message, nor for the
// broker. While the subscription pauses, the message that probes has the tokens for itself, and all
// others wait for the end of the pause first.
func (s *Subscription) awaitRate(h *Handling) bool {
	for {
		switch s.takeToken(h, nil) {
		case taken:
			return true
		case paused:
			if !s.awaitOutage(h) {
				return false
			}
			continue
		case stopped:
			h.raw.Session.Cancel() // otherwise it would be delivered to this consumer again
			concurrently(s, h.held(), func(h *Handling) { s.giveBack(h, Result{}) })
		case lost:
			s.reportLost(h)
		}
		s.passOn(h)
		return false
	}
}

// tokenWait is how the wait for a token ends.
type tokenWait int

const (
	taken   tokenWait = iota // the message has its token
	paused                   // the subscription pauses
	stopped                  // the subscription drains or stops
	lost                     // the session has ended
)

// takeToken waits for a token. A drain ends the wait, so that another consumer can handle the message,
// but not where the queue is deleted with the subscription. It also ends, as if the session had ended,
// when over is closed, if it is not nil.
func (s *Subscription) takeToken(h *Handling, over <-chan struct{}) tokenWait {
	pause, may := s.pausing(h)
	if !may {
		return paused
	}
	b, end, ended := s.bucket, s.stop, h.raw.Session.Ended()
	if s.settings.temporary() {
		end = s.halt
	}
	// until waits for the turn or for a time, whichever is not nil.
	until := func(turn chan<- struct{}, due <-chan time.Time) tokenWait {
		select {
		case turn <- struct{}{}:
			return taken
		case <-due:
			return taken
		case <-pause:
			return paused
		case <-end:
			return stopped
		case <-ended:
			return lost
		case <-over:
			return lost
		}
	}
	if !b.tryTurn() {
		if how := until(b.turn, nil); how != taken {
			return how
		}
	}
	defer b.pass()
	for wait := b.take(time.Now()); wait > 0; wait = b.take(time.Now()) {
		timer := time.NewTimer(wait)
		how := until(nil, timer.C)
		timer.Stop()
		if how != taken {
			return how
		}
	}
	return taken
}

// pausing returns a channel that is closed when the subscription pauses; nil for the message that
// probes. may is false if the subscription pauses now.
func (s *Subscription) pausing(h *Handling) (pause <-chan struct{}, may bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.outage == nil {
		return s.paused, true
	}
	return nil, s.outage == h.probes
}
