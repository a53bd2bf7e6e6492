package consume

import (
	"fmt"
	"time"

	"github.com/rehop/rehop/internal/envelope"
	"github.com/rehop/rehop/internal/layouts"
)

// Arrival is what an admission needs to know of a delivery.
type Arrival struct {
	Uncertain bool          // the broker's count of its deliveries may be of another queue
	Uncounted bool          // it was delivered before, and the broker does not count that
	Recorded  int           // deliveries without an answer, by its own record
	Counted   int           // further ones that the broker has counted
	Refused   bool          // by its layout it can never be handled
	Early     time.Duration // until it is due
	Careful   bool          // its consumer has a prefetch of one
}

// Entry is what is done with a delivery before its handler runs.
type Entry int

// What can be done with a delivery before its handler runs.
const (
	Handle      Entry = iota // nothing: the handler runs
	HandleAlone              // it is suspect, and the handler runs because it came alone
	Isolate                  // it is suspect, and the handler runs when all others are settled
	Republish                // it goes to the end of its queue, so that its deliveries are counted
	Refuse                   // it goes to the failed queue because its layout does not accept it
	WaitOn                   // it came early, and waits until it is due
	GiveUp                   // it goes to the failed queue because it has crashed its consumers
	Drop                     // it is acked because it is not for this queue
)

// Admission is what is done with a delivery before its handler runs, and why.
type Admission struct {
	Do      Entry
	Returns int // how often it was delivered before without an answer
}

// Admit decides whether a delivery is handled. If a message was delivered repeatedly without an
// answer, its consumers have died or lost their connections. Such a message is handled alone where the
// consumer can be replaced (isolates), and if that crashes consumers too, it goes to the failed queue.
// Admit is a pure function.
func Admit(a Arrival, crashLimit int, isolates bool) Admission {
	if a.Uncertain {
		return Admission{Republish, a.Recorded}
	}
	returns := a.Recorded + a.Counted
	if a.Uncounted {
		// Classic queues mark a message as redelivered, and do not count: it is counted by
		// republishing the message with a higher number.
		if returns++; returns < crashLimit {
			return Admission{Republish, returns}
		}
	}
	switch {
	case a.Refused:
		return Admission{Refuse, returns}
	case a.Early > layouts.DelayUnit:
		return Admission{WaitOn, returns}
	case returns >= crashLimit:
		return Admission{GiveUp, returns}
	case returns < suspectAfter, !isolates:
		return Admission{Handle, returns}
	case a.Careful:
		return Admission{HandleAlone, returns}
	}
	return Admission{Isolate, returns}
}

// judgement is an Admission and its reasons.
type judgement struct {
	Admission
	arrival Arrival
	refused error // why the layout refuses the message
}

// judge decides what is to be done with a delivery before its handler runs. It changes nothing.
func (s *Subscription) judge(o offer, h *Handling) judgement {
	if s.shares && s.settings.Layout.Stray(s.message(h)) {
		return judgement{Admission: Admission{Do: Drop}}
	}
	if h.past != &unwritten {
		s.rounds.await(h.raw.MessageId)
	}
	arrival, refused := s.arrival(o, h)
	return judgement{Admit(arrival, s.settings.CrashLimit, s.settings.Isolates), arrival, refused}
}

// carryOut does what is to be done with a delivery before its handler runs. False: the delivery has
// been settled, and the handler does not run.
func (s *Subscription) carryOut(o offer, h *Handling, admission judgement) bool {
	if admission.arrival.Uncounted {
		h.setReturns(admission.Returns)
	}
	switch admission.Do {
	case Drop:
		s.ack(h, Discarded, Result{})
	case Handle:
		if o.careful && admission.Returns < suspectAfter {
			s.setCareful(false)
			// Before this message is acked: otherwise the broker sends this consumer another one, which
			// it takes back, and counts, when the consumer ends.
			o.session.Cancel()
		}
		return true
	case HandleAlone:
		if s.isCareful() {
			return true
		}
		s.giveBack(h, Result{}) // the next session has already begun, with a larger prefetch
	case Isolate:
		return s.isolate(o, h)
	case Republish:
		s.republishCounted(h)
	case Refuse:
		s.fail(h, admission.refused, envelope.KindPermanent, Result{Err: admission.refused})
	case WaitOn:
		s.waitOn(h, admission.arrival.Early)
	case GiveUp:
		err := fmt.Errorf("delivered %d times without an answer: the process died or lost its connection each time", admission.Returns)
		s.fail(h, err, envelope.KindCrash, Result{Err: err})
	}
	return false
}

// arrival is what an admission needs to know, and why the layout refuses the message.
func (s *Subscription) arrival(o offer, h *Handling) (a Arrival, refused error) {
	a = Arrival{Recorded: h.past.Returns, Careful: o.careful}
	if !h.past.Due.IsZero() {
		a.Early = time.Until(h.past.Due)
	}
	if s.shares {
		refused = s.settings.Layout.Check(s.message(h))
		a.Refused = refused != nil
	}
	switch {
	case h.mark == carried:
		a.Uncertain = s.mustRepublish(h)
	case h.mark == again && s.counts(h):
		a.Counted = brokerCount(h)
	case h.mark == again:
		a.Uncounted = !s.gaveBack(o)
	}
	return a, refused
}

// gaveBack reports whether a redelivered message was requeued by a consumer that failed it, as far as
// that can be known: after a crash or a lost connection the consumer is careful, if it can be.
func (s *Subscription) gaveBack(o offer) bool {
	return s.settings.Layout.RedeliveryFails() && s.settings.Isolates && !o.careful
}
