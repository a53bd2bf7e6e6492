package delivery

import "time"

// checkFaults sees whether the run shows anything at all: there was work, the faults have really
// struck, messages were waiting for their retries then, and work continued afterwards.
func (a *auditor) checkFaults(events []Event) {
	r := &a.report
	if r.Faults < a.rules.Faults {
		r.inconclusive("%d faults, want %d", r.Faults, a.rules.Faults)
	}
	if a.rules.Watched && r.Returned == 0 {
		r.inconclusive("no copy of a message that returned was seen")
	}
	drained := false
	var first, lastEnd int64
	var waitUntil int64 // the latest return of a message that has failed so far
	confirmedBefore := 0
	for i, e := range events {
		switch e.Kind {
		case Confirmed:
			if first == 0 {
				confirmedBefore++
			}
		case Failed:
			waitUntil = max(waitUntil, e.At+int64(e.Delay))
		case FaultBegins:
			if first == 0 {
				first = e.At
			}
			a.checkWitness(events[i:], e)
			if !a.rules.NoRetries && waitUntil <= e.At {
				r.inconclusive("no message waited for a retry when the fault %q began", e.Fault)
			}
		case FaultEnds:
			lastEnd = e.At
			a.checkRecovery(events[i:], e)
		case Drained:
			drained = true
		}
	}
	if !drained {
		r.breach(BreachNotDrained, "the queues did not become empty in time")
	}
	if first == 0 {
		return
	}
	if confirmedBefore < a.rules.Confirms {
		r.inconclusive("%d confirms before the first fault, want at least %d", confirmedBefore, a.rules.Confirms)
	}
	if lastEnd == 0 {
		r.inconclusive("no fault has ended")
	}
}

// checkWitness looks for an event that shows that the fault has struck, before the next one.
func (a *auditor) checkWitness(events []Event, fault Event) {
	for _, e := range events[1:] {
		if e.Kind == FaultBegins {
			break
		}
		if a.rules.Witness != nil && a.rules.Witness(fault.Fault, e) {
			return
		}
	}
	a.report.inconclusive("nothing shows that the fault %q has struck", fault.Fault)
}

// checkRecovery looks for the first message that is published, confirmed and handled after a fault.
func (a *auditor) checkRecovery(events []Event, end Event) {
	confirmed, worked := recovered(events)
	if confirmed == 0 || worked == 0 {
		a.report.inconclusive("nothing was confirmed and handled after the fault %q and before the next", end.Fault)
		return
	}
	if took := time.Duration(max(confirmed, worked) - end.At); a.rules.Recovery > 0 && took > a.rules.Recovery {
		a.report.breach(BreachRecovery, "work continued %v after the fault %q, want at most %v", took, end.Fault, a.rules.Recovery)
	}
}

// recovered is when the first message was confirmed and when the first was handled after the end of a fault, which is the first event, and
// before the next fault; 0 is never.
func recovered(events []Event) (confirmed, worked int64) {
	for _, e := range events[1:] {
		switch {
		case e.Kind == Confirmed && confirmed == 0:
			confirmed = e.At
		case e.Kind == Handled && worked == 0:
			worked = e.At
		case e.Kind == FaultBegins: // the next fault came before anything could be seen
			return confirmed, worked
		}
		if confirmed != 0 && worked != 0 {
			break
		}
	}
	return confirmed, worked
}
