package consume

import "time"

// Result is what happened to a delivery.
type Result struct {
	Outcome Outcome
	Err     error         // what the handler returned
	Kind    string        // of a failure; see the package envelope
	Took    time.Duration // how long the handler ran
	Delay   time.Duration // how long the message waits
}

// Outcome is what happened to a delivery.
type Outcome string

// The outcomes of a delivery.
const (
	Done      Outcome = "done"      // handled, acked
	Retried   Outcome = "retry"     // waits for its next attempt
	Failed    Outcome = "failed"    // is in the failed queue
	Discarded Outcome = "discarded" // acked because the handler returned Discard, or it was not for this queue
	Postponed Outcome = "postponed" // waits, and no attempt is used
	Returned  Outcome = "returned"  // is in its queue again, and no attempt is used
	Lost      Outcome = "lost"      // its session has ended: the broker delivers it again
)
