package inorder_test

import (
	"fmt"
	"testing"

	"github.com/rehop/rehop/internal/conformance/inorder"
)

// The fates in the sample history are those of the keys.
func sampleFate(key string, _ int) inorder.Fate {
	switch key {
	case "hopeless":
		return inorder.Hopeless
	case "stubborn":
		return inorder.Stubborn
	}
	return inorder.Good
}

func sampleRules() inorder.Rules {
	return inorder.Rules{Window: 2, Held: 2, Concurrency: 1, Others: 2, Fate: sampleFate}
}

// book is a history in the making.
type book struct{ events []inorder.Event }

func (b *book) add(e inorder.Event) { b.events = append(b.events, e) }

func (b *book) publish(key string, n int) {
	b.add(inorder.Event{Kind: inorder.Confirmed, Key: key, Number: n})
}

func (b *book) begin(process, key string, n int) {
	b.add(inorder.Event{Kind: inorder.Begin, Process: process, Queue: "q", Key: key, Number: n})
}

func (b *book) end(process, key string, n int, over bool) {
	b.add(inorder.Event{Kind: inorder.End, Process: process, Queue: "q", Key: key, Number: n, Over: over})
}

func (b *book) run(process, key string, n int, over bool) {
	b.begin(process, key, n)
	b.end(process, key, n, over)
}

func (b *book) up(process string) {
	b.add(inorder.Event{Kind: inorder.Up, Process: process, Queue: "q"})
}

func (b *book) down(process string) {
	b.add(inorder.Event{Kind: inorder.Down, Process: process, Queue: "q"})
}

// repeatAfterFault has b handle the only messages of some keys, and then once more.
func repeatAfterFault(b *book, keys int) {
	for i := range keys {
		b.publish(fmt.Sprint("y", i), 1)
		b.run("b", fmt.Sprint("y", i), 1, true)
	}
	b.fault(inorder.FaultBegins, "b")
	for i := range keys {
		b.run("b", fmt.Sprint("y", i), 1, true)
	}
	b.fault(inorder.FaultEnds, "b")
}

func (b *book) fault(kind inorder.Kind, process string) {
	b.add(inorder.Event{Kind: kind, Process: process})
}

func (b *book) found(key string, n int, place inorder.Place) {
	b.add(inorder.Event{Kind: inorder.Found, Queue: "q", Place: place, Key: key, Number: n})
}

// sample is a history in which all promises are kept, up to the end of publishing: a has a fault, after which b takes over.
func sample() *book {
	b := &book{}
	b.up("a")
	b.up("b")
	for n := range 3 {
		b.publish("k", n+1)
	}
	b.publish("hopeless", 1)
	b.publish("stubborn", 1)
	b.run("a", "k", 1, true)
	b.run("a", "stubborn", 1, false)
	for n := range 2 {
		b.publish("other", n+1)
		b.run("a", "other", n+1, true)
	}
	b.run("a", "stubborn", 1, true)
	b.run("a", "hopeless", 1, true)
	b.begin("a", "k", 2)
	b.fault(inorder.FaultBegins, "a")
	b.run("b", "k", 1, true) // its ack was lost
	b.begin("b", "k", 2)
	b.end("b", "k", 2, true)
	b.end("a", "k", 2, true)
	b.up("a")
	b.fault(inorder.FaultEnds, "a")
	b.run("b", "k", 3, true)
	return b
}

func (b *book) finish() []inorder.Event {
	b.add(inorder.Event{Kind: inorder.Stopped})
	b.found("hopeless", 1, inorder.InFailed)
	return b.events
}

func TestAuditPassesWhatIsWell(t *testing.T) {
	r := inorder.Audit(sample().finish(), sampleRules())
	if !r.OK() {
		t.Errorf("the sample is well, and the audit says:\n%s", r.Faulty())
	}
	if r.Confirmed != 7 || r.Repeats != 1 || r.Late != 0 || r.Overlaps != 2 || r.Takeovers != 1 || r.Stubborn != 1 || r.Faults != 1 {
		t.Errorf("got %s, stubborn=%d", r.Line(), r.Stubborn)
	}
}

// TestAuditCatches: each breach is found, and no other one with it.
func TestAuditCatches(t *testing.T) {
	// takeOver has c take over from b, which has handled messages of keys x0, x1 and so on: each has two.
	takeOver := func(b *book, keys int, fault bool) {
		for i := range keys {
			for n := range 2 {
				b.publish(fmt.Sprint("x", i), n+1)
				b.run("b", fmt.Sprint("x", i), n+1, true)
			}
		}
		if fault {
			b.fault(inorder.FaultBegins, "b")
			b.fault(inorder.FaultEnds, "b")
		}
		b.up("c")
	}
	for name, c := range map[string]struct {
		want   inorder.Breach
		change func(b *book)
	}{
		"Overtaken": {inorder.OutOfOrder, func(b *book) {
			b.publish("k", 4)
			b.publish("k", 5)
			b.run("b", "k", 5, true)
			b.run("b", "k", 4, true)
		}},
		"OvertakenWhileItWaits": {inorder.OutOfOrder, func(b *book) {
			b.publish("k", 4)
			b.publish("k", 5)
			b.run("b", "k", 4, false)
			b.run("b", "k", 5, true)
			b.run("b", "k", 4, true)
		}},
		"OvertakenWhileItRuns": {inorder.OutOfOrder, func(b *book) { // in another process
			b.publish("k", 4)
			b.publish("k", 5)
			b.fault(inorder.FaultBegins, "b")
			b.begin("b", "k", 4)
			b.run("a", "k", 5, true)
			b.end("b", "k", 4, true)
		}},
		"TwiceAtOnceInAProcess": {inorder.TwoAtOnce, func(b *book) {
			b.publish("k", 4)
			b.begin("b", "k", 4)
			b.begin("b", "k", 4)
			b.end("b", "k", 4, true)
		}},
		"TwiceAtOnceWithoutAFault": {inorder.TwoAtOnce, func(b *book) {
			b.publish("k", 4)
			b.begin("b", "k", 4)
			b.up("c")
			b.begin("c", "k", 4)
			b.end("b", "k", 4, true)
			b.end("c", "k", 4, true)
		}},
		"TwiceAtOnceAfterAnOlderFault": {inorder.TwoAtOnce, func(b *book) { // that b has survived with a new session
			b.fault(inorder.FaultBegins, "b")
			b.fault(inorder.FaultEnds, "b")
			b.up("b")
			b.publish("k", 4)
			b.begin("b", "k", 4)
			b.up("c")
			b.begin("c", "k", 4)
			b.end("b", "k", 4, true)
			b.end("c", "k", 4, true)
		}},
		"TwiceAtOnceAfterAFaultOfAnother": {inorder.TwoAtOnce, func(b *book) {
			b.fault(inorder.FaultBegins, "c")
			b.publish("k", 4)
			b.begin("b", "k", 4)
			b.up("c")
			b.begin("c", "k", 4)
			b.end("b", "k", 4, true)
			b.end("c", "k", 4, true)
		}},
		"RepeatedWithoutATakeover": {inorder.Repeated, func(b *book) { b.run("b", "k", 3, true) }},
		"RepeatedMoreOftenThanPublished": {inorder.Repeated, func(b *book) {
			b.add(inorder.Event{Kind: inorder.Unknown, Key: "k", Number: 4})
			b.publish("k", 4)
			for range 3 {
				b.run("b", "k", 4, true)
			}
		}},
		"RepeatedAfterAnOrderlyEnd": {inorder.Repeated, func(b *book) {
			takeOver(b, 2, false)
			b.run("c", "x0", 2, true)
			b.run("c", "x1", 2, true)
		}},
		"RepeatedTooOften": {inorder.Repeated, func(b *book) { // each key's first message is a late one
			takeOver(b, 4, true)
			for i := range 4 {
				b.run("c", fmt.Sprint("x", i), 1, true)
			}
		}},
		"RepeatedWithoutBound": {inorder.Repeated, func(b *book) { // none of them is late
			repeatAfterFault(b, 12)
		}},
		"RepeatedAfterAnOrderlyRecycle": {inorder.Repeated, func(b *book) { // of the same process
			takeOver(b, 2, false)
			b.down("b")
			b.run("b", "x0", 2, true)
			b.run("b", "x1", 2, true)
		}},
		"RepeatedInASessionAfterARecycle": {inorder.Repeated, func(b *book) {
			b.down("b")
			b.publish("k", 4)
			b.run("b", "k", 4, true)
			b.run("b", "k", 4, true)
		}},
		"OthersHeldUp": {inorder.HeldUp, func(b *book) {
			b.publish("stubborn", 2)
			b.publish("other", 3)
			b.run("b", "stubborn", 2, false)
			b.run("b", "other", 3, true) // was published before
			b.run("b", "stubborn", 2, true)
		}},
		"Lost": {inorder.Lost, func(b *book) { b.publish("k", 4) }},
		"LostWhileItWaits": {inorder.Lost, func(b *book) {
			b.publish("k", 4)
			b.run("b", "k", 4, false)
		}},
		"LostOnItsWayToTheFailedQueue": {inorder.Lost, func(b *book) {
			b.publish("hopeless", 2)
			b.run("b", "hopeless", 2, true)
		}},
		"LeftInTheHeldQueue": {inorder.Left, func(b *book) { b.found("k", 3, inorder.InHeld) }},
	} {
		t.Run(name, func(t *testing.T) {
			b := sample()
			c.change(b)
			r := inorder.Audit(b.finish(), sampleRules())
			if r.Breaches[c.want] == 0 || len(r.Breaches) != 1 {
				t.Errorf("got %v, want %q alone:\n%s", r.Breaches, c.want, r.Faulty())
			}
			if (c.want == inorder.Lost) != (r.Lost > 0) {
				t.Errorf("got %d lost", r.Lost)
			}
		})
	}
}

// TestAuditAllows: what a fault explains is no breach.
func TestAuditAllows(t *testing.T) {
	for name, change := range map[string]func(b *book){
		"PublishedTwice": func(b *book) {
			b.add(inorder.Event{Kind: inorder.Unknown, Key: "k", Number: 4})
			b.publish("k", 4)
			b.run("b", "k", 4, true)
			b.run("b", "k", 4, true)
		},
		"Killed": func(b *book) {
			b.publish("k", 4)
			b.begin("b", "k", 4)
			b.fault(inorder.Killed, "b")
			b.up("c")
			b.run("c", "k", 4, true)
		},
		"RepeatedBySessionsThatWereStruck": func(b *book) {
			b.fault(inorder.FaultBegins, "")
			b.run("b", "k", 3, true)
			b.fault(inorder.FaultEnds, "")
		},
		"OneAfterAnOrderlyEnd": func(b *book) {
			b.up("c")
			b.run("c", "k", 3, true)
		},
		"OneAfterAnOrderlyRecycle": func(b *book) {
			b.down("b")
			b.run("b", "k", 3, true)
		},
		"RepeatedWithinTheBound": func(b *book) { repeatAfterFault(b, 11) }, // and there is one in the sample
		"NoOthersWhenPublishingHasStopped": func(b *book) {
			b.publish("stubborn", 2)
			b.run("b", "stubborn", 2, false)
			b.add(inorder.Event{Kind: inorder.Stopped})
			b.run("b", "stubborn", 2, true)
		},
		"NotConfirmed": func(b *book) { b.run("b", "k", 4, true) },
	} {
		t.Run(name, func(t *testing.T) {
			b := sample()
			change(b)
			if r := inorder.Audit(b.finish(), sampleRules()); !r.OK() {
				t.Errorf("got %v:\n%s", r.Breaches, r.Faulty())
			}
		})
	}
}

// TestAuditOfHalt: a message that halts its key is over when it was handled or skipped, and is in the failed queue if it was skipped.
func TestAuditOfHalt(t *testing.T) {
	rules := sampleRules()
	rules.Halts = true
	for _, c := range []struct {
		name                  string
		skipped, ended, found bool
		want                  inorder.Breach
	}{
		{"Skipped", true, false, true, ""},
		{"SkippedAndGone", true, false, false, inorder.Lost},
		{"Replayed", false, true, false, ""},
		{"Passed", false, false, true, inorder.OutOfOrder},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := &book{}
			b.up("a")
			b.publish("hopeless", 1)
			b.publish("hopeless", 2)
			b.run("a", "hopeless", 1, false)
			switch {
			case c.skipped:
				b.add(inorder.Event{Kind: inorder.Skipped, Key: "hopeless", Number: 1})
			case c.ended:
				b.run("a", "hopeless", 1, true)
			}
			b.run("a", "hopeless", 2, true)
			b.add(inorder.Event{Kind: inorder.Stopped})
			if c.found {
				b.found("hopeless", 1, inorder.InFailed)
			}
			r := inorder.Audit(b.events, rules)
			if c.want == "" && !r.OK() || c.want != "" && r.Breaches[c.want] == 0 {
				t.Errorf("got %v, want %q:\n%s", r.Breaches, c.want, r.Faulty())
			}
		})
	}
}
