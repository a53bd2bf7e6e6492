package delivery

import "testing"

// A consumer that was killed may have parked a message without reporting it; no other consumer may leave that out.
func TestUnreportedParking(t *testing.T) {
	events := []Event{
		{Kind: Attempt, ID: "m"}, {Kind: Confirmed, ID: "m"},
		{Kind: Start, ID: "m", Queue: "one", Number: 3}, {Kind: Failed, ID: "m", Queue: "one", Number: 3},
	}
	for _, c := range []struct {
		name    string
		more    []Event
		settled bool
	}{
		{"not killed", nil, false},
		{"killed", []Event{{Kind: Killed, Queue: "one"}}, true},
		{"another consumer killed", []Event{{Kind: Killed, Queue: "two"}}, false},
		{"delivered again", []Event{{Kind: Killed, Queue: "one"}, {Kind: Start, ID: "m", Queue: "one", Number: 3}}, false},
		{"reported", []Event{{Kind: Parked, ID: "m", Queue: "one"}}, true},
	} {
		l := newLedger([]string{"one"}, func(string) bool { return true })
		for _, e := range append(events[:len(events):len(events)], c.more...) {
			l.take(e)
		}
		if got := l.settled(); got != c.settled {
			t.Errorf("%s: settled is %v, want %v (%s)", c.name, got, c.settled, l)
		}
	}
}
