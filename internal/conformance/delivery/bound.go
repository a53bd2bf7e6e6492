package delivery

// checkDuplicates counts what was handled more than once, and holds it against what the faults
// explain. At-least-once delivery allows duplicates; it does not allow any number of them.
func (a *auditor) checkDuplicates(events []Event) {
	copies := make(map[string]int) // second copies, by queue
	for p, c := range a.copies {
		most := c.parked
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
	bounds := a.bounds(events)
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

// bounds is how many second copies each queue may have seen.
func (a *auditor) bounds(events []Event) map[string]int {
	type consumer struct{ client, queue string }
	var (
		receiving = make(map[consumer]bool)
		sessions  = make(map[string]int) // ended with messages in hand, by queue
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
			if receiving[who] { // further ones tell of tries to begin again
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
	bounds := make(map[string]int)
	for queue, prefetch := range a.rules.Prefetch {
		// A session that replaces one of another prefetch may begin before that one has settled its
		// last message.
		bounds[queue] = sessions[queue]*(prefetch+1) + resends + min(a.report.Faults*a.rules.DeadLetters, waited[queue])
	}
	return bounds
}
