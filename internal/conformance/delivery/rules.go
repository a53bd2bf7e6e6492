package delivery

import "time"

// Rules are what the auditor holds a history against.
type Rules struct {
	// Queues are bound to the exchange, each gets every message that has a route.
	Queues []string
	// Fate is what the handler of a queue does with a message.
	Fate func(queue, id string) Fate
	// Attempts is how often a handler may run for one message.
	Attempts int

	// KeepsUnrouted: a message that has no route is confirmed, and kept in the unrouted queue. Default: its
	// publisher gets an error.
	KeepsUnrouted bool
	// RedeliveryFails: a message that is delivered again counts as failed, so an attempt may come without the one
	// before and without its wait, as often as sessions that ended explain.
	RedeliveryFails bool
	// Watched: copies of what returned were looked at, and there must be some.
	Watched bool

	// Prefetch is, for each queue, how many unacked messages one consumer may have.
	Prefetch map[string]int
	// Windows is, for each client that sends again by itself what it does not know the fate of, how
	// many messages it may have under way: a lost connection may double each of them.
	Windows map[string]int
	// DeadLetters is how many messages the broker may return twice from where they wait when a fault
	// hits it: its at-least-once dead-lettering sends this many at a time.
	DeadLetters int
	// Crashes: faults end the broker without warning, after which it marks all messages that a classic queue has
	// as delivered before.
	Crashes bool

	// Faults is how many there must have been. Default: 1.
	Faults int
	// Witness reports whether an event shows that the fault has really struck.
	Witness func(fault string, e Event) bool
	// Confirms is how many there must have been before the first fault. Default: 100, which Start waits for.
	Confirms int
	// Recovery is how soon after the end of a fault messages must be confirmed and handled again, where time is
	// virtual. Default: no bound. Real time depends on the machine, and a trial waits for the duration Soon.
	Recovery time.Duration
	// Late is by how much a retry may come after its time, or after work continued where a fault was in between. It is to catch messages that
	// are held back, and not slow machines. Default: as long as a trial waits for what is missing; RabbitMQ itself may hold back a message for
	// three minutes.
	Late time.Duration
	// NoRetries: no message needs to wait for a retry when a fault begins. Default: one at least must,
	// or the run shows nothing about retries.
	NoRetries bool
	// Unbounded: duplicates are counted and not held against a bound.
	Unbounded bool
}

// enough is how many confirms show that a workload is in full swing.
const enough = 100

// earlyTolerance is how much too early a retry may come, for the clocks' grain.
const earlyTolerance = 10 * time.Millisecond

func (r Rules) withDefaults() Rules {
	if r.Faults == 0 {
		r.Faults = 1
	}
	if r.Late == 0 {
		r.Late = missingTimeout
	}
	if r.Confirms == 0 {
		r.Confirms = enough
	}
	return r
}

// Sees makes a Witness of kinds of events.
func Sees(kinds ...Kind) func(string, Event) bool {
	return func(_ string, e Event) bool {
		for _, k := range kinds {
			if e.Kind == k {
				return true
			}
		}
		return false
	}
}
