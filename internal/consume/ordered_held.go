package consume

import (
	"time"
)

// heldEvery is how often a hook is called while something waits and nothing changes.
const heldEvery = 10 * time.Second

// Held is what waits in order.
type Held struct {
	Owns     bool      // this process handles the messages
	Messages int       // that wait in the held queue
	Keys     int       // of these messages
	Blocked  int       // keys that wait for an operator
	Oldest   time.Time // when the first of them failed first; zero: none has
	Stalled  bool      // no message can be handled until one of those that wait is due
}

// waiting is what waits. The caller holds the lock.
func (r *ordered) waiting() Held {
	s := r.owner.State()
	held := Held{Owns: s.Owns, Messages: s.Held, Keys: s.Keys, Blocked: s.Blocked, Stalled: s.Stalled}
	for _, m := range r.owner.List() {
		past := m.Data.(*Handling).past
		if past != nil && !past.FirstFailed.IsZero() && (held.Oldest.IsZero() || past.FirstFailed.Before(held.Oldest)) {
			held.Oldest = past.FirstFailed
		}
	}
	return held
}

// reportHeld calls the hook if what waits has changed, or from time to time.
func (r *ordered) reportHeld(now Held) {
	if now == r.reported && (now.Messages == 0 || time.Since(r.at) < heldEvery) {
		return
	}
	if now.Stalled && !r.reported.Stalled {
		r.sub.shared.Logger.Warn("rehop: no message can be handled until one of those that wait is due: the held queue is full", "queue", r.sub.settings.Queue, "held", now.Messages)
	}
	r.reported, r.at = now, time.Now()
	if r.sub.settings.Events.Held != nil {
		defer r.sub.shared.Inside.Visit(r.sub)() // on the goroutine of Supervise, too
		r.sub.settings.Events.Held(now)
	}
}
