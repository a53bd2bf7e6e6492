package queue

import (
	"slices"
	"testing"
)

func exclusive(c *Consumer) { c.Exclusive = true }
func noAck(c *Consumer)     { c.NoAck = true }

func withPriority(p int) func(*Consumer) { return func(c *Consumer) { c.Priority = p } }

func TestRoundRobin(t *testing.T) {
	s := newStage(t, plan{})
	one, two := s.join("one", 2, nil), s.join("two", 1, nil)
	s.join("three", 9, nil)
	s.push("a", "b", "c", "d", "e", "f")
	s.wantMade("one:a two:b three:c one:d three:e three:f")
	two.resume(1)
	one.resume(1)
	s.push("g", "h", "i") // those without room come after the one with room
	s.wantMade("three:g two:h one:i")
}

func TestConsumerPriorities(t *testing.T) {
	s := newStage(t, plan{})
	s.join("low", 9, withPriority(-1))
	high := s.join("high", 1, withPriority(10))
	s.join("mid", 1, nil)
	s.push("a", "b", "c")
	s.wantMade("high:a mid:b low:c")
	high.resume(1)
	s.push("d", "e")
	s.wantMade("high:d low:e")
}

// TestBacklogGoesInTurns: a backlog is distributed like messages that arrive one by one.
func TestBacklogGoesInTurns(t *testing.T) {
	s := newStage(t, plan{})
	one, two := s.join("one", 0, nil), s.join("two", 0, nil)
	s.push("a", "b", "c")
	one.room, two.room = 2, 2
	s.after(s.q.Resume(&one.Consumer))
	s.after(s.q.Resume(&two.Consumer))
	s.wantMade("one:a one:b two:c")
}

func TestExclusive(t *testing.T) {
	for _, c := range []struct {
		name         string
		plan         plan
		first, other func(*Consumer)
		want         bool
	}{
		{"somebody has it", plan{}, exclusive, nil, false},
		{"somebody is there", plan{}, nil, exclusive, false},
		{"nobody asks", plan{}, nil, nil, true},
		{"single active", plan{singleActive: true}, nil, exclusive, false},
		{"quorum", plan{kind: Quorum}, exclusive, exclusive, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStage(t, c.plan)
			first := s.join("one", 1, c.first)
			other := &taker{stage: s}
			other.Consumer = Consumer{Sink: other, Tag: "two"}
			if c.other != nil {
				c.other(&other.Consumer)
			}
			if got := s.q.Subscribe(&other.Consumer); got != c.want {
				t.Errorf("subscribe: got %t, want %t", got, c.want)
			}
			if c.want {
				return
			}
			if _, left, ok := s.q.Unsubscribe(&other.Consumer); ok || left != 1 {
				t.Errorf("unsubscribe who was refused: got %t with %d left, want false with 1", ok, left)
			}
			s.q.Unsubscribe(&first.Consumer)
			if got := s.q.Subscribe(&other.Consumer); got != !c.plan.singleActive {
				t.Errorf("subscribe when the first is gone: got %t, want %t", got, !c.plan.singleActive)
			}
		})
	}
}

// TestSingleActive: the active consumer stays active, full or not, even if a new one has a higher priority.
func TestSingleActive(t *testing.T) {
	for _, kind := range []Type{Classic, Quorum} {
		s := newStage(t, plan{kind: kind, singleActive: true})
		one := s.join("one", 2, nil)
		s.join("two", 9, withPriority(10))
		s.push("a", "b", "c")
		s.wantMade("one:a one:b")
		s.wantReady("c")
		one.resume(1)
		s.wantMade("one:c")
		one.giveBack("c")
		s.wantMade("")
		fx, _, _ := s.q.Unsubscribe(&one.Consumer)
		s.after(fx)
		s.wantMade("two:c")
	}
}

// TestNoSuccessorBeforeReturns: while the unacked messages of the active consumer that has left are not back, neither a consumer that
// subscribes nor the end of another one lets newer messages out.
func TestNoSuccessorBeforeReturns(t *testing.T) {
	for _, kind := range []Type{Classic, Quorum} {
		for _, waits := range []bool{false, true} {
			s := newStage(t, plan{kind: kind, singleActive: true, rules: Rules{ReturnsFirst: true}})
			one := s.join("one", 9, nil)
			var two *taker
			if waits {
				two = s.join("two", 9, nil)
			}
			s.push("a", "b")
			s.wantMade("one:a one:b")
			s.q.Leave(&one.Consumer)
			s.push("c")
			s.join("three", 9, nil)
			if waits {
				fx, _, _ := s.q.Unsubscribe(&two.Consumer)
				s.after(fx)
			}
			s.wantMade("")
			one.giveBack("a", "b")
			s.wantMade("")
			s.after(s.q.Activate(&one.Consumer))
			s.wantMade("three:a three:b three:c")
		}
	}
}

// TestSuccession checks which consumer becomes active next.
func TestSuccession(t *testing.T) {
	for _, c := range []struct {
		kind Type
		want []string
	}{{Classic, []string{"one", "three", "four", "two"}}, {Quorum, []string{"one", "two", "three", "four"}}} {
		s := newStage(t, plan{kind: c.kind, singleActive: true})
		all := []*taker{s.join("one", 9, nil), s.join("two", 9, withPriority(1)), s.join("three", 9, withPriority(2)), s.join("four", 9, withPriority(2))}
		var got []string
		for range all {
			active := s.q.Status().Active
			got = append(got, active.Tag)
			s.push(active.Tag)
			s.wantMade(active.Tag + ":" + active.Tag)
			fx, _, _ := s.q.Unsubscribe(active)
			s.after(fx)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s queue: got %q, want %q", c.kind, got, c.want)
		}
		if active := s.q.Status().Active; active != nil {
			t.Errorf("%s queue: %s is active when all are gone", c.kind, active.Tag)
		}
	}
}

func TestNoAck(t *testing.T) {
	s := newStage(t, plan{})
	s.push("a")
	s.join("one", 2, noAck)
	s.push("b")
	s.wantMade("one:a one:b")
	s.wantBooks(0, 0, 0, 0)
	if want := []string{"a", "b"}; !slices.Equal(s.settled, want) {
		t.Errorf("settled: got %q, want %q", s.settled, want)
	}
	if used := s.budget.Used(); used != 0 {
		t.Errorf("bytes in memory: got %d, want 0", used)
	}
}

// TestServedAfterResume: a consumer gets no message before its client has received basic.consume-ok.
func TestServedAfterResume(t *testing.T) {
	s := newStage(t, plan{})
	s.push("a")
	k := &taker{stage: s, room: 1}
	k.Consumer = Consumer{Sink: k, Tag: "one"}
	s.q.Subscribe(&k.Consumer)
	s.push("b")
	s.wantMade("")
	s.after(s.q.Resume(&k.Consumer))
	s.wantMade("one:a")
}

func TestBooks(t *testing.T) {
	s := newStage(t, plan{})
	s.send(parcel{name: "a", size: 10, ttl: -1})
	s.send(parcel{name: "b", size: 20, ttl: -1})
	s.send(parcel{name: "c", size: 30, ttl: -1})
	s.wantBooks(3, 0, 60, 0)
	k := s.join("one", 2, nil)
	s.wantBooks(1, 2, 30, 30)
	k.giveBack("b")
	s.wantBooks(2, 1, 50, 10)
	s.q.Settle(k.take("a"))
	s.wantBooks(2, 0, 50, 0)
	if items := s.q.Purge().Next(); len(items) != 2 {
		t.Errorf("purge: got %d, want 2", len(items))
	}
	s.wantBooks(0, 0, 0, 0)
	want := Totals{Published: 3, Delivered: 2, Acked: 1}
	if got := s.q.Status().Totals; got != want {
		t.Errorf("totals: got %+v, want %+v", got, want)
	}
}
