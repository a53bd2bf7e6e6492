package delivery

import (
	"slices"
	"strings"
	"testing"
)

// layoutRules are for a layout that keeps what has no route, counts redeliveries as failures and writes a record
// that others read. No layout has all of that.
func layoutRules() Rules {
	r := sampleRules()
	r.KeepsUnrouted, r.RedeliveryFails, r.Watched = true, true, true
	return r
}

func (b *book) returned(at int64, queue, id string, n int, flaw string) {
	b.add(at, Event{Kind: Returned, Queue: queue, ID: id, Number: n, Flaw: flaw, Body: 1, Meta: 2})
}

// skip has a message come to a queue again and count as failed, and be handled at once in the other.
func (b *book) skip(queue, other, id string) {
	b.publish(30, id, "", Confirmed)
	b.run(40, other, id, 1, 0, Handled)
	b.run(500, queue, id, 2, 0, Handled)
	b.change(Start, queue, id, 2, func(e *Event) { e.Again = true })
}

// layoutSample is the sample in such a layout.
func layoutSample() *book {
	b := sample()
	b.change(Unroutable, "", nowhere, 0, func(e *Event) { e.Kind = Confirmed })
	b.found(InUnrouted, noQueue, nowhere, 0)
	b.returned(400, "one", once, 1, "")
	b.returned(400, "one", always, 1, "")
	b.returned(950, "one", always, 2, "")
	return b
}

func TestAuditOfLayoutsPassesWhatIsWell(t *testing.T) {
	r := Audit(layoutSample().events, layoutRules())
	if !r.OK() {
		t.Fatalf("the sample is well, and the auditor says:\n%s", r.Faulty())
	}
	want := "confirmed=9 handled=6 failed=1 orphaned=1 unrouted=1 duplicates=0 lost=0 early=0 stray=0 faults=1 seed=0"
	if got := r.Line(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if r.Returned != 3 || r.Skipped != 0 {
		t.Errorf("got %d returned, %d skipped, want 3 and 0", r.Returned, r.Skipped)
	}
}

func TestAuditOfLayoutsCatches(t *testing.T) {
	for _, c := range []struct {
		name string
		want Breach
		spot func(*book)
	}{
		{"kept without a route, and gone", BreachLost, func(b *book) { b.without(Found, noQueue, nowhere) }},
		{"kept, and said to be unroutable", BreachOutcome, func(b *book) {
			b.change(Confirmed, "", nowhere, 0, func(e *Event) { e.Kind = Unroutable })
		}},
		{"kept, and handled", BreachOutcome, func(b *book) { b.run(200, "two", nowhere, 1, 0, Handled) }},
		{"not sent, and kept", BreachOutcome, func(b *book) {
			b.change(Confirmed, "", nowhere, 0, func(e *Event) { e.Kind = NotSent })
		}},
		{"a message with a route among the unrouted", BreachMisparked, func(b *book) { b.found(InUnrouted, noQueue, fine, 0) }},
		{"more copies among the unrouted than were sent again", BreachDuplicates, func(b *book) {
			for range 9 {
				b.found(InUnrouted, noQueue, nowhere, 0)
			}
		}},
		{"more attempts skipped than messages were in hand", BreachEarly, func(b *book) {
			for n := range 6 {
				b.skip("one", "two", id("s", n))
			}
		}},
		{"a first attempt skipped where no session ended", BreachEarly, func(b *book) { b.skip("two", "one", "s.1") }},
		{"a first attempt skipped by a message that was not delivered again", BreachStray, func(b *book) {
			b.skip("one", "two", "s.1")
			b.change(Start, "one", "s.1", 2, func(e *Event) { e.Again = false })
		}},
		{"a second attempt too early, not delivered again", BreachEarly, func(b *book) {
			b.change(Start, "one", later, 2, func(e *Event) { e.At = 200 * ms })
		}},
		{"a third attempt too early", BreachEarly, func(b *book) {
			b.change(Start, "one", always, 3, func(e *Event) { e.At = 500 * ms })
		}},
		{"others would count wrongly", BreachRecord, func(b *book) { b.returned(400, "one", later, 1, "it says 2") }},
		{"others would misread why it rests", BreachRecord, func(b *book) {
			b.change(Found, "one", always, 3, func(e *Event) { e.Flaw = "no reason" })
		}},
		{"it returned with another body", BreachBody, func(b *book) { b.change(Returned, "one", once, 1, func(e *Event) { e.Body = 9 }) }},
		{"it returned and was never published", BreachInvented, func(b *book) { b.returned(400, "one", "z.1", 1, "") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := layoutSample()
			c.spot(b)
			r := Audit(b.events, layoutRules())
			if r.Breaches[c.want] == 0 || r.OK() {
				t.Errorf("the auditor did not see %q; it says:\n%s", c.want, r.Faulty())
			}
		})
	}
}

// TestAuditCatchesWrongReturns is about layouts that do not count a redelivery as a failure.
func TestAuditCatchesWrongReturns(t *testing.T) {
	rules := layoutRules()
	rules.RedeliveryFails = false
	if r := Audit(layoutSample().events, rules); !r.OK() {
		t.Fatalf("the sample is well, and the auditor says:\n%s", r.Faulty())
	}
	for _, c := range []struct {
		name, queue, id string
		number          int
	}{
		{"it had not failed", "one", fine, 1},
		{"to another queue", "two", once, 1},
		{"with a higher count", "one", once, 2},
	} {
		b := layoutSample()
		b.returned(400, c.queue, c.id, c.number, "")
		if r := Audit(b.events, rules); r.Breaches[BreachStray] != 1 {
			t.Errorf("%s: the auditor did not see that it is a stray; it says:\n%s", c.name, r.Faulty())
		}
	}
}

func TestAuditOfLayoutsAllows(t *testing.T) {
	for _, c := range []struct {
		name string
		spot func(*book, *Rules)
	}{
		{"first attempts that a lost session has skipped", func(b *book, _ *Rules) {
			for n := range 5 {
				b.skip("one", "two", id("s", n))
			}
		}},
		{"a second attempt that a lost session has made early", func(b *book, _ *Rules) {
			b.change(Start, "one", later, 2, func(e *Event) { e.At, e.Again = 200*ms, true })
		}},
		{"a message sent round before it has failed", func(b *book, _ *Rules) { b.returned(400, "one", fine, 0, "") }},
		{"a second copy of what was sent again without a route", func(b *book, _ *Rules) { b.found(InUnrouted, noQueue, nowhere, 0) }},
		{"attempts skipped by what was in the queue of a broker that crashed", func(b *book, r *Rules) {
			r.Crashes = true
			for n := range 6 { // one more than was unacked
				b.skip("one", "two", id("s", n))
			}
			// As it happens: what was published after the crash is not in the queue then.
			slices.SortStableFunc(b.events, func(x, y Event) int { return int(x.At - y.At) })
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, rules := layoutSample(), layoutRules()
			c.spot(b, &rules)
			if r := Audit(b.events, rules); !r.OK() {
				t.Errorf("this is allowed, and the auditor says:\n%s", r.Faulty())
			}
		})
	}
}

// TestCrashExplainsNoLaterSkip: only what a queue had when the broker crashed is marked.
func TestCrashExplainsNoLaterSkip(t *testing.T) {
	b, rules := layoutSample(), layoutRules()
	rules.Crashes = true
	for n := range 40 {
		b.skip("one", "two", id("s", n)) // recorded after the crash
	}
	if r := Audit(b.events, rules); r.Breaches[BreachEarly] == 0 {
		t.Errorf("the auditor did not see that messages skip an attempt without cause; it says:\n%s", r.Faulty())
	}
}

func TestAuditOfLayoutsIsInconclusive(t *testing.T) {
	b := sample()
	b.change(Unroutable, "", nowhere, 0, func(e *Event) { e.Kind = Confirmed })
	b.found(InUnrouted, noQueue, nowhere, 0)
	r := Audit(b.events, layoutRules())
	if want := "no copy of a message that returned"; !strings.Contains(strings.Join(r.Inconclusive, "\n"), want) {
		t.Errorf("nobody has watched what returned: the auditor said %q, want %q", r.Inconclusive, want)
	}
}
