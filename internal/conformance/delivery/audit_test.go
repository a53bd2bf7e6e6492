package delivery

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// The messages of the sample history, by their fate in the first queue.
const (
	fine    = "a.1"
	once    = "a.2"
	later   = "a.3"
	always  = "a.4"
	nowhere = "a.5"
	second  = "a.6" // fails once in the second queue
	notSent = "a.7"
	doubt   = "a.8" // the outcome was unknown, and it was sent again
	orphan1 = "doomed.1"
	after   = "a.9" // published after the fault
)

func sampleFate(queue, id string) Fate {
	switch {
	case queue == "doomed":
		return Orphaned
	case id == nowhere:
		return Unbound
	case id == once && queue == "one", id == second && queue == "two":
		return FailsOnce
	case id == later && queue == "one":
		return FailsLater
	case id == always && queue == "one":
		return FailsAlways
	}
	return Fine
}

func sampleRules() Rules {
	return Rules{
		Queues: []string{"one", "two"}, Fate: sampleFate, Attempts: 3,
		Prefetch: map[string]int{"one": 4, "two": 4, "doomed": 4},
		Windows:  map[string]int{"pub": 8},
		Witness:  Sees(Lost),
		Confirms: 5, Recovery: 30 * time.Second, Late: time.Minute,
	}
}

const ms = int64(time.Millisecond)

// book is a history in the making. Its clock is in milliseconds.
type book struct{ events []Event }

func (b *book) add(at int64, e Event) {
	e.At = at * ms
	b.events = append(b.events, e)
}

func (b *book) publish(at int64, id, direct string, outcome Kind) {
	b.add(at, Event{Kind: Attempt, ID: id, Queue: direct, Client: "pub", Body: 1, Meta: 2})
	b.add(at+1, Event{Kind: outcome, ID: id, Client: "pub"})
}

func (b *book) run(at int64, queue, id string, n int, delay int64, end Kind) {
	b.add(at, Event{Kind: Start, Queue: queue, ID: id, Number: n, Body: 1, Meta: 2})
	b.add(at+1, Event{Kind: end, Queue: queue, ID: id, Number: n, Delay: time.Duration(delay * ms)})
}

func (b *book) found(place Place, queue, id string, n int) {
	b.add(9000, Event{Kind: Found, Place: place, Queue: queue, ID: id, Number: n, Body: 1, Meta: 2})
}

// sample is a history in which all promises are kept, under a fault that begins at 100 ms and ends
// at 600 ms.
func sample() *book {
	b := &book{}
	b.add(0, Event{Kind: Receiving, Queue: "one", Client: "sub"})
	b.add(0, Event{Kind: Receiving, Queue: "two", Client: "sub"})
	for i, id := range []string{fine, once, later, always, second} {
		b.publish(int64(10+i), id, "", Confirmed)
	}
	b.publish(20, nowhere, "", Unroutable)
	b.publish(21, notSent, "", NotSent)
	b.publish(22, doubt, "", Unknown)
	b.publish(24, doubt, "", Confirmed)
	b.publish(26, orphan1, "doomed", Confirmed)
	for _, id := range []string{fine, once, later, always, doubt} {
		b.run(30, "two", id, 1, 0, Handled)
	}
	b.run(40, "two", second, 1, 300, Failed)
	b.run(342, "two", second, 2, 0, Handled)
	b.run(50, "one", fine, 1, 0, Handled)
	b.run(51, "one", second, 1, 0, Handled)
	b.run(52, "one", doubt, 1, 0, Handled)
	b.run(53, "one", once, 1, 300, Failed)
	b.run(54, "one", later, 1, 700, Failed)
	b.run(55, "one", always, 1, 300, Failed)
	b.run(56, "doomed", orphan1, 1, 700, Failed)
	b.add(100, Event{Kind: FaultBegins, Fault: "trouble"})
	b.add(110, Event{Kind: Lost, Client: "pub", Link: "publish"})
	b.add(120, Event{Kind: Ceased, Queue: "one", Client: "sub"})
	b.add(130, Event{Kind: Receiving, Queue: "one", Client: "sub"})
	b.run(400, "one", once, 2, 0, Handled)
	b.run(400, "one", always, 2, 500, Failed)
	b.add(600, Event{Kind: FaultEnds, Fault: "trouble"})
	b.publish(700, after, "", Confirmed)
	b.run(710, "one", after, 1, 0, Handled)
	b.run(710, "two", after, 1, 0, Handled)
	b.run(800, "one", later, 2, 0, Handled)
	b.run(950, "one", always, 3, 0, Failed)
	b.found(InFailed, "one", always, 3)
	b.found(InOrphans, "doomed", orphan1, 1)
	b.add(9001, Event{Kind: Drained})
	return b
}

// without removes the events of a kind for a message in a queue ("": any).
func (b *book) without(kind Kind, queue, id string) {
	b.events = slices.DeleteFunc(b.events, func(e Event) bool {
		return e.Kind == kind && e.ID == id && (queue == "" || e.Queue == queue)
	})
}

// change edits the first event that fits.
func (b *book) change(kind Kind, queue, id string, n int, edit func(*Event)) {
	for i := range b.events {
		e := &b.events[i]
		if e.Kind == kind && e.Queue == queue && e.ID == id && (n == 0 || e.Number == n) {
			edit(e)
			return
		}
	}
	panic("the sample has no such event")
}

func TestAuditPassesWhatIsWell(t *testing.T) {
	r := Audit(sample().events, sampleRules())
	if !r.OK() {
		t.Fatalf("the sample is well, and the auditor says:\n%s", r.Faulty())
	}
	r.Seed = 7
	want := "confirmed=8 handled=6 failed=1 orphaned=1 duplicates=0 lost=0 early=0 stray=0 faults=1 seed=7"
	if got := r.Line(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestAuditCatches feeds the auditor one violation of each kind: a checker that cannot fail is worthless.
func TestAuditCatches(t *testing.T) {
	for _, c := range []struct {
		name string
		want Breach
		spot func(*book)
	}{
		{"confirmed and never delivered", BreachLost, func(b *book) {
			b.without(Start, "two", fine)
			b.without(Handled, "two", fine)
		}},
		{"lost while it waited", BreachLost, func(b *book) {
			b.events = slices.DeleteFunc(b.events, func(e Event) bool { return e.ID == later && e.Queue == "one" && e.Number == 2 })
		}},
		{"begun, never finished, gone", BreachLost, func(b *book) { b.without(Handled, "two", fine) }},
		{"lost after the last attempt", BreachLost, func(b *book) { b.without(Found, "one", always) }},
		{"always fails and is not in the failed queue", BreachNotFailed, func(b *book) { b.without(Found, "one", always) }},
		{"lost from the orphans", BreachLost, func(b *book) { b.without(Found, "doomed", orphan1) }},
		{"handled and never published", BreachInvented, func(b *book) { b.run(500, "one", "z.1", 1, 0, Handled) }},
		{"found and never published", BreachInvented, func(b *book) { b.found(InFailed, "one", "z.1", 3) }},
		{"another body handled", BreachBody, func(b *book) { b.change(Start, "one", fine, 1, func(e *Event) { e.Body = 9 }) }},
		{"another body in the failed queue", BreachBody, func(b *book) { b.change(Found, "one", always, 3, func(e *Event) { e.Body = 9 }) }},
		{"other headers after a retry", BreachMeta, func(b *book) { b.change(Start, "one", later, 2, func(e *Event) { e.Meta = 9 }) }},
		{"other headers in the failed queue", BreachMeta, func(b *book) { b.change(Found, "one", always, 3, func(e *Event) { e.Meta = 9 }) }},
		{"a retry reaches another queue", BreachStray, func(b *book) { b.run(400, "two", once, 2, 0, Handled) }},
		{"handled in a queue that it was not sent to", BreachStray, func(b *book) { b.run(400, "one", orphan1, 1, 0, Handled) }},
		{"parked in another queue's failed queue", BreachStray, func(b *book) { b.found(InFailed, "doomed", always, 3) }},
		{"handled and failed", BreachFate, func(b *book) { b.run(1500, "one", always, 3, 0, Handled) }},
		{"an innocent in the failed queue", BreachFate, func(b *book) { b.found(InFailed, "two", fine, 1) }},
		{"more copies than the fault explains", BreachDuplicates, func(b *book) {
			for i := range int64(3) { // one publish was sent again, and no session of this queue ended
				b.run(500+i, "two", fine, 1, 0, Handled)
			}
		}},
		{"copies in the failed queue beyond the bound", BreachDuplicates, func(b *book) {
			for range 10 {
				b.found(InFailed, "one", always, 3)
			}
		}},
		{"a retry too early by more than the tolerance", BreachEarly, func(b *book) {
			b.change(Start, "one", later, 2, func(e *Event) { e.At = (55 + 700 - 11) * ms })
		}},
		{"a retry long after its time", BreachLate, func(b *book) {
			b.change(Start, "one", later, 2, func(e *Event) { e.At = (55 + 700 + 60_001) * ms })
		}},
		{"one attempt too many", BreachAttempts, func(b *book) { b.run(2000, "one", always, 4, 0, Failed) }},
		{"parked before its last attempt", BreachAttempts, func(b *book) {
			b.change(Found, "one", always, 3, func(e *Event) { e.Number = 2 })
		}},
		{"parked without having been tried", BreachAttempts, func(b *book) {
			b.events = slices.DeleteFunc(b.events, func(e Event) bool { return e.ID == always && e.Queue == "one" && e.Number == 3 && e.Kind != Found })
		}},
		{"confirmed without a route", BreachOutcome, func(b *book) { b.change(Unroutable, "", nowhere, 0, func(e *Event) { e.Kind = Confirmed }) }},
		{"unroutable with a route", BreachOutcome, func(b *book) { b.change(Confirmed, "", fine, 0, func(e *Event) { e.Kind = Unroutable }) }},
		{"returned and stored", BreachOutcome, func(b *book) { b.run(200, "two", nowhere, 1, 0, Handled) }},
		{"not sent and delivered", BreachOutcome, func(b *book) { b.run(200, "two", notSent, 1, 0, Handled) }},
		{"not sent and found", BreachOutcome, func(b *book) { b.found(InQueue, "two", notSent, 0) }},
		{"an outcome that nobody promised", BreachOutcome, func(b *book) { b.change(NotSent, "", notSent, 0, func(e *Event) { e.Kind = Unclassified }) }},
		{"work resumed too late", BreachRecovery, func(b *book) {
			b.change(FaultEnds, "", "", 0, func(e *Event) { e.At -= int64(time.Minute) })
		}},
		{"never came to rest", BreachNotDrained, func(b *book) { b.without(Drained, "", "") }},
		{"a message still waits", BreachNotDrained, func(b *book) {
			b.without(Start, "two", fine)
			b.without(Handled, "two", fine)
			b.found(InWait, "two", fine, 1)
		}},
		{"among the unrouted", BreachMisparked, func(b *book) { b.found(InUnrouted, "", fine, 0) }},
		{"among the orphans although its queue exists", BreachMisparked, func(b *book) { b.found(InOrphans, "one", fine, 1) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := sample()
			c.spot(b)
			r := Audit(b.events, sampleRules())
			if r.Breaches[c.want] == 0 || r.OK() {
				t.Errorf("the auditor did not see %q; it says:\n%s", c.want, r.Faulty())
			}
		})
	}
}

func TestAuditIsInconclusive(t *testing.T) {
	for _, c := range []struct {
		name, want string
		spot       func(*book, *Rules)
	}{
		{"no fault", "faults, want", func(b *book, _ *Rules) { b.without(FaultBegins, "", "") }},
		{"too few faults", "faults, want", func(_ *book, r *Rules) { r.Faults = 2 }},
		{"a fault that nobody noticed", "nothing shows", func(b *book, _ *Rules) { b.without(Lost, "", "") }},
		{"hardly any work before the fault", "confirms before the first fault", func(_ *book, r *Rules) { r.Confirms = 1000 }},
		{"no work after the fault", "nothing was confirmed", func(b *book, _ *Rules) {
			b.without(Attempt, "", after)
			b.without(Confirmed, "", after)
			b.without(Start, "", after)
			b.without(Handled, "", after)
		}},
		{"nothing waited for a retry", "waited for a retry", func(b *book, _ *Rules) {
			b.change(FaultBegins, "", "", 0, func(e *Event) { e.At = 8000 * ms }) // when all have returned
		}},
		{"a fault that never ended", "no fault has ended", func(b *book, _ *Rules) { b.without(FaultEnds, "", "") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, rules := sample(), sampleRules()
			c.spot(b, &rules)
			r := Audit(b.events, rules)
			if r.OK() || !strings.Contains(strings.Join(r.Inconclusive, "\n"), c.want) {
				t.Errorf("the auditor said %q, want %q", r.Inconclusive, c.want)
			}
		})
	}
}

func TestAuditAllows(t *testing.T) {
	for _, c := range []struct {
		name string
		spot func(*book)
	}{
		{"redeliveries after a lost session", func(b *book) {
			for i := range int64(4) {
				b.run(500+i, "one", fine, 1, 0, Handled)
			}
		}},
		{"the second copy of a message whose fate was unknown", func(b *book) {
			b.run(500, "one", doubt, 1, 0, Handled)
			b.run(500, "two", doubt, 1, 0, Handled)
		}},
		{"an unknown outcome that was stored", func(b *book) {
			b.publish(30, "a.20", "", Unknown)
			b.run(500, "one", "a.20", 1, 0, Handled)
			b.run(500, "two", "a.20", 1, 0, Handled)
		}},
		{"an unknown outcome that was not stored", func(b *book) { b.publish(30, "a.20", "", Unknown) }},
		{"a refused message that one of two queues has", func(b *book) {
			b.publish(30, "a.20", "", Refused)
			b.run(500, "one", "a.20", 1, 0, Handled)
		}},
		{"a retry early by less than the tolerance", func(b *book) {
			b.change(Start, "one", later, 2, func(e *Event) { e.At = (55 + 700 - 9) * ms })
		}},
		{"a retry long after its time, with a fault since that took that long", func(b *book) {
			b.change(FaultEnds, "", "", 0, func(e *Event) { e.At += 100_000 * ms })
			for i := range b.events { // what came after it comes later by that, with the retry that began before the fault
				if e := &b.events[i]; e.At >= 700*ms && e.At < 9000*ms {
					e.At += 100_000 * ms
				}
			}
		}},
		{"a retry long after its time, from a queue that was helped", func(b *book) {
			b.change(Start, "one", later, 2, func(e *Event) { e.At = (55 + 700 + 60_001) * ms })
			b.add(5000, Event{Kind: Cured, Queue: "waiting"})
		}},
		{"handlers that were canceled and ran again", func(b *book) {
			for i := range int64(5) {
				b.run(500+i, "two", fine, 1, 0, Canceled)
			}
		}},
		{"a retry recorded before its failure", func(b *book) { slices.Reverse(b.events[30:40]) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := sample()
			c.spot(b)
			if r := Audit(b.events, sampleRules()); !r.OK() {
				t.Errorf("this is allowed, and the auditor says:\n%s", r.Faulty())
			}
		})
	}
}

func TestAuditTellsWhereMessagesWereLost(t *testing.T) {
	for _, c := range []struct {
		part string
		lost []int
	}{{"prefix", []int{1, 2}}, {"middle", []int{4, 6}}, {"postfix", []int{9, 10}}} {
		b := sample()
		for n := 1; n <= 10; n++ {
			b.publish(30, id("p", n), "", Confirmed)
			if !slices.Contains(c.lost, n) {
				b.run(40, "one", id("p", n), 1, 0, Handled)
				b.run(40, "two", id("p", n), 1, 0, Handled)
			}
		}
		r := Audit(b.events, sampleRules())
		if r.Lost != len(c.lost) || !strings.Contains(r.Faulty(), c.part) {
			t.Errorf("lost %v: got %d lost, and\n%s\nwant %q", c.lost, r.Lost, r.Faulty(), c.part)
		}
	}
}

func TestRefusedIsNeverConfirmed(t *testing.T) {
	b := sample()
	b.publish(30, "a.20", "", Refused)
	b.publish(31, "a.21", "", Unknown)
	if r := Audit(b.events, sampleRules()); r.Confirmed != 8 || r.Refused != 1 || r.Unknown != 2 {
		t.Errorf("confirmed %d, refused %d, unknown %d, want 8, 1, 2", r.Confirmed, r.Refused, r.Unknown)
	}
}
