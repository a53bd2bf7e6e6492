package consume

import (
	"time"

	"github.com/rehop/rehop/internal/envelope"
	"github.com/rehop/rehop/internal/layouts"
)

// State is what a decision needs to know of a message in addition to the handler's answer.
type State struct {
	Failures  int  // attempts before this one that have failed
	Reruns    int  // immediate runs of this attempt after the first
	TimedOut  bool // the handler's context was canceled because its time was up
	Stopping  bool // the handler's context was canceled because the subscription stops
	TakenOver bool // another worker has taken over: the handler is not run again at once
}

// Action is what is done with a message.
type Action int

// What can be done with a message whose handler has returned.
const (
	Ack         Action = iota // it is done
	AckDiscard                // it is discarded
	Rerun                     // the handler runs again at once
	AwaitOutage               // the subscription pauses, and then the handler runs again
	MoveToWait                // it waits in a delay queue for the next attempt
	MoveAside                 // it waits in a delay queue for the same attempt
	MoveToFail                // it goes to the failed queue
	GiveBack                  // it goes back to its queue, as if it had not been delivered
)

// Decision is what happens to a message.
type Decision struct {
	Do      Action
	Attempt int           // MoveToWait and MoveToFail: which attempt has failed, from 1
	Delay   time.Duration // MoveToWait and MoveAside: for how long
	Kind    string        // MoveToWait and MoveToFail: the kind of the failure
}

// Decide decides what happens to a message, by the handler's answer. It is a pure function, except for
// the jitter of the schedule.
func Decide(s State, a Answer, schedule Schedule) Decision {
	switch {
	case a.OK:
		return Decision{Do: Ack}
	case s.Stopping: // the handler may have failed because of that
		return Decision{Do: GiveBack}
	}
	switch a.Does {
	case Pause:
		return Decision{Do: AwaitOutage}
	case Discard:
		return Decision{Do: AckDiscard}
	case Postpone:
		return Decision{Do: MoveAside, Delay: possible(a.Wait)}
	}
	attempt, kind := s.Failures+1, a.Kind
	if kind == envelope.KindError && s.TimedOut {
		kind = envelope.KindTimeout
	}
	if a.Does == Fail {
		return Decision{Do: MoveToFail, Attempt: attempt, Kind: kind}
	}
	if a.Does == Retry && s.Failures == 0 && s.Reruns < schedule.Immediate && !s.TimedOut && !s.TakenOver {
		return Decision{Do: Rerun}
	}
	delay, again := schedule.After(attempt)
	if !again {
		return Decision{Do: MoveToFail, Attempt: attempt, Kind: kind}
	}
	if a.Does == RetryAfter {
		delay = possible(a.Wait)
	}
	return Decision{Do: MoveToWait, Attempt: attempt, Delay: delay, Kind: kind}
}

// possible is the possible delay that is nearest to d.
func possible(d time.Duration) time.Duration { return min(max(d, 0), layouts.MaxDelay) }
