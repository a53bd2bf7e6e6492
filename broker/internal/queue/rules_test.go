package queue

import (
	"testing"

	"github.com/rehop/rehop/broker/internal/store"
)

// With both kinds of levels, returned messages come first, in the order of their return.
func TestLevels(t *testing.T) {
	sent := []parcel{{name: "1a", priority: 1}, {name: "9a", priority: 9}, {name: "4a", priority: 4}, {name: "9b", priority: 9}, {name: "200", priority: 200}, {name: "9c", priority: 9}}
	for _, c := range []struct {
		name       string
		priorities Priorities
		want       string
	}{
		{"none", ByMaximum, "1a 9a 4a 9b 200 9c"},
		{"two", TwoLevels, "9a 9b 1a 200 9c 4a"},
		{"strict", Strict, "200 9a 9b 9c 4a 1a"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStage(t, plan{kind: Quorum, rules: Rules{Priorities: c.priorities, ReturnsFirst: true}})
			for _, p := range sent {
				p.ttl = -1
				s.send(p)
			}
			s.wantTaken(c.want)
		})
	}
	s := newStage(t, plan{kind: Quorum, rules: Rules{Priorities: Strict, ReturnsFirst: true}})
	k := s.join("one", 2, nil)
	s.push("a", "b")
	s.send(parcel{name: "high", priority: 9, ttl: -1})
	k.giveBack("b")
	k.giveBack("a")
	s.wantTaken("b a high")
}

// wantTaken takes all ready messages, in order.
func (s *stage) wantTaken(want string) {
	s.t.Helper()
	got := ""
	for {
		it, found, _ := s.get(true)
		if !found {
			break
		}
		if got != "" {
			got += " "
		}
		got += s.names[it.Message]
	}
	if got != want {
		s.t.Errorf("taken: got %q, want %q", got, want)
	}
}

// No priority means the middle one, not 0.
func TestNoPriority(t *testing.T) {
	s := newStage(t, plan{kind: Quorum, rules: Rules{Priorities: Strict}})
	for _, m := range []struct {
		name string
		has  bool
		p    uint8
	}{{"zero", true, 0}, {"none", false, 0}, {"three", true, 3}, {"five", true, 5}} {
		message := s.message(parcel{name: m.name, priority: m.p})
		message.HasPriority = m.has
		s.after(s.q.Push(message, -1))
	}
	s.wantTaken("five none three zero")
}

// The next queue gets the failures of a dead letter. They mark the message as redelivered only in releases
// that do so.
func TestCarriedFailures(t *testing.T) {
	for _, shows := range []bool{false, true} {
		s := newStage(t, plan{kind: Quorum, rules: Rules{CountsFailures: true, ShowsFailures: shows}})
		m := s.message(parcel{name: "a"})
		m.Failures = 3
		s.after(s.q.Push(m, -1))
		it, _, _ := s.get(false)
		if it.Failures != 3 || it.Count != 0 || it.Redelivered != shows {
			t.Errorf("got %d failures, count %d, redelivered %t, want 3, 0, %t", it.Failures, it.Count, it.Redelivered, shows)
		}
		s.after(s.q.Kill([]Item{it}, true))
		if dead := s.q.TakeDead(false); len(dead) != 1 || dead[0].Item.Failures != 4 {
			t.Errorf("got the dead %+v, want one with 4 failures", dead)
		}
	}
}

func TestBytesWithProperties(t *testing.T) {
	s := newStage(t, plan{kind: Quorum, rules: Rules{WeighsProperties: true}, settings: func(s *Settings) { s.MaxBytes = 12 }})
	for _, name := range []string{"a", "b", "c"} {
		m := NewMessage(&store.Content{Properties: make([]byte, 2), Body: make([]byte, 3)}, 1)
		s.budget.Admit(m)
		s.names[m] = name
		s.after(s.q.Push(m, -1))
	}
	s.wantReady("b c")
	s.wantDead("a maxlen")
}
