package delivery

import "math/bits"

// checkDuplicates counts what was handled more than once, and holds it against what the faults
// explain. At-least-once delivery allows duplicates; it does not allow any number of them.
func (a *auditor) checkDuplicates(events []Event) {
	copies := make(map[string]int) // second copies, by queue
	for p, c := range a.copies {
		most := max(c.parked, c.unrouted)
		for _, runs := range c.runs {
			if runs > 1 {
				a.report.Duplicates += runs - 1
			}
			most = max(most, runs)
		}
		// One second copy of a message that fails three times makes three duplicate runs and a second
		// copy in the failed queue: it is one event, and the attempt that was made most often shows it.
		if most > 1 {
			copies[p.queue] += most - 1
		}
	}
	bounds, skips := a.bounds(events)
	a.checkSkips(skips)
	for queue, n := range copies {
		a.report.Copies += n
		if !a.rules.Unbounded && n > bounds[queue] {
			a.report.breach(BreachDuplicates, "%d second copies in %s, and the faults explain %d", n, queue, bounds[queue])
		}
	}
	for _, n := range bounds {
		a.report.Bound += n
	}
}

// checkSkips holds attempts that a redelivery has skipped against how many messages were unacked when sessions
// ended.
func (a *auditor) checkSkips(bounds map[string]int) {
	skipped := make(map[string]int)
	for p, c := range a.copies {
		if n := bits.OnesCount(c.skipped); n > 0 {
			skipped[p.queue] += n
		}
	}
	for queue, n := range skipped {
		a.report.Skipped += n
		if n > bounds[queue] {
			a.report.breach(BreachEarly, "%d attempts in %s came without the one before or its wait, and the faults explain %d", n, queue, bounds[queue])
		}
	}
}

// bounds is how many second copies each queue may have seen, and how many attempts may have been skipped
// there.
func (a *auditor) bounds(events []Event) (copies, skips map[string]int) {
	type consumer struct{ client, queue string }
	var (
		receiving = make(map[consumer]bool)
		sessions  = make(map[string]int) // ended with unacked messages, by queue
		underway  = make(map[string]int) // publishes without an outcome, by client
		publishes = make(map[string]bool)
		resends   int // messages that may have been sent twice, each to all queues
	)
	for _, e := range events {
		who := consumer{e.Client, e.Queue}
		switch e.Kind {
		case Attempt:
			underway[e.Client]++
			publishes[e.Client] = true
		case Confirmed, Unroutable, Refused, Unknown, NotSent, Unclassified:
			underway[e.Client]--
		case Receiving:
			receiving[who] = true
		case Ceased:
			if receiving[who] { // further ones are about attempts to start again
				sessions[e.Queue]++
			}
			receiving[who] = false
		case Killed:
			sessions[e.Queue]++
			receiving[who] = false
		case Lost:
			if e.Link != "publish" {
				break
			}
			// Where each publish is in the history, those under way at the loss are known; what handlers
			// were moving is not, and bounded by how many they are.
			window := a.rules.Windows[e.Client]
			if publishes[e.Client] {
				window = min(window, underway[e.Client])
			}
			resends += window
		}
	}
	for _, m := range a.messages {
		resends += m.sentAgain
	}
	waited := make(map[string]int) // messages that were dead-lettered on their way back, by queue
	for p, c := range a.copies {
		for n := range c.failed {
			if c.failed[n] != 0 && c.delay[n] > 0 {
				waited[p.queue]++
			}
		}
	}
	var marked map[string]int
	if a.rules.Crashes && a.rules.RedeliveryFails {
		marked = a.present(events)
	}
	copies, skips = make(map[string]int), make(map[string]int)
	for queue, prefetch := range a.rules.Prefetch {
		// A session that replaces one of another prefetch may begin before that one has settled its
		// last message.
		inHand := sessions[queue] * (prefetch + 1)
		copies[queue] = inHand + resends + min(a.report.Faults*a.rules.DeadLetters, waited[queue])
		skips[queue] = inHand + marked[queue]
	}
	if a.rules.KeepsUnrouted {
		copies[noQueue] = resends
	}
	return copies, skips
}

// present is, for each queue, how many messages it may have had when faults struck, summed up: those that had
// been published by then and not been handled or parked. A fault has struck when it is first felt.
func (a *auditor) present(events []Event) map[string]int {
	published, settled := make(map[string]bool), make(map[place]bool)
	sum := make(map[string]int)
	begun := false
	for _, e := range events {
		switch e.Kind {
		case Attempt:
			published[e.ID] = true
		case Handled, Parked:
			settled[place{e.Queue, e.ID}] = true
		case FaultBegins:
			begun = true
		case Lost:
			if !begun {
				continue
			}
			begun = false
			for id := range published {
				for _, queue := range a.queues(id, a.messages[id]) {
					if !settled[place{queue, id}] {
						sum[queue]++
					}
				}
			}
		}
	}
	return sum
}
