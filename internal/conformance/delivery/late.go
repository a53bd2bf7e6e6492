package delivery

import (
	"math"
	"time"
)

// outage is a fault and the time until work continued, or the moment at which the broker was helped with queues that stood still. Messages that
// were moving or waiting then may be late by it.
type outage struct{ from, to int64 }

// outages are those of a history. One that never ended excuses all that follows; the auditor objects to that elsewhere.
func outages(events []Event) []outage {
	var all []outage
	last := -1 // fault
	for i, e := range events {
		switch e.Kind {
		case FaultBegins:
			last = len(all)
			all = append(all, outage{e.At, math.MaxInt64})
		case FaultEnds:
			if confirmed, worked := recovered(events[i:]); last >= 0 && confirmed != 0 && worked != 0 {
				all[last].to = max(confirmed, worked)
			}
		case Cured:
			all = append(all, outage{e.At, e.At})
		}
	}
	return all
}

// checkLate holds the time of a retry against when it was due: after the delay, or when work continued after the last outage since the attempt
// before.
func (a *auditor) checkLate(e Event, c *course) {
	failed, delay := c.failed[e.Number-1], c.delay[e.Number-1]
	due := failed + int64(delay)
	for _, o := range a.outages {
		if o.from < e.At && o.to > failed {
			due = max(due, o.to)
		}
	}
	if late := time.Duration(e.At - due); late > a.rules.Late {
		a.report.breach(BreachLate, "%s in %s: attempt %d came %v after it was due, want at most %v", e.ID, e.Queue, e.Number, late, a.rules.Late)
	}
}
