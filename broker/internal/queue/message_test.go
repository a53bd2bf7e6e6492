package queue

import (
	"testing"

	"github.com/rehop/rehop/broker/internal/store"
)

func (s *stage) inMemory(m *Message, want bool) {
	s.t.Helper()
	if got := m.Content() != nil; got != want {
		s.t.Errorf("%s is in memory: got %t, want %t", s.names[m], got, want)
	}
}

// TestEviction: if too much is in memory, stored messages leave it when they arrive, and are read again
// before delivery.
func TestEviction(t *testing.T) {
	s := newStage(t, plan{})
	s.openLog()
	kept, plain := s.message(parcel{name: "kept", size: 10, stored: true}), s.message(parcel{name: "plain", size: 10})
	s.after(s.q.Push(kept, -1))
	s.after(s.q.Push(plain, -1))
	s.inMemory(kept, false)
	s.inMemory(plain, true)
	k := s.join("one", 2, nil)
	s.wantMade("one:kept one:plain")
	s.inMemory(kept, false) // while it is unacked
	k.giveBack("kept")
	if it, _, _ := s.get(true); it.Message != kept {
		t.Errorf("get: got %s, want kept", s.names[it.Message])
	}
	s.q.Settle(k.take("plain"))
	if used := s.budget.Used(); used != 0 {
		t.Errorf("bytes in memory: got %d, want 0", used)
	}
}

func TestNoEvictionWithRoom(t *testing.T) {
	s := newStage(t, plan{budget: 1000})
	s.openLog()
	for _, c := range []struct {
		name string
		want bool
	}{{"first", true}, {"second", false}} {
		m := s.message(parcel{name: c.name, size: 500, stored: true})
		s.after(s.q.Push(m, -1))
		s.inMemory(m, c.want)
	}
}

// TestPinned: a message that a queue holds only in memory stays there, because it cannot be read after the
// queues on disk have settled it.
func TestPinned(t *testing.T) {
	s := newStage(t, plan{})
	s.openLog()
	m := s.message(parcel{name: "pinned", stored: true})
	m.Pinned = true
	s.after(s.q.Push(m, -1))
	s.inMemory(m, true)
	s.join("one", 1, nil)
	s.inMemory(m, true)
}

// TestUnreadable: a message that cannot be read does not block the others.
func TestUnreadable(t *testing.T) {
	s := newStage(t, plan{})
	s.openLog()
	for _, name := range []string{"a", "b", "c", "d"} {
		s.torn[name] = name == "a" || name == "c"
		s.send(parcel{name: name, ttl: -1, stored: true})
	}
	s.join("one", 9, nil)
	s.wantMade("one:b one:d")
	s.wantBooks(0, 2, 0, 0)
	for m, name := range s.names {
		if want := name == "b" || name == "d"; (m.refs.Load() > 0) != want {
			t.Errorf("a queue holds %s: got %t, want %t", name, !want, want)
		}
	}
}

// TestMissingIsBounded: the number and size of messages to read is limited, but it is at least one message.
func TestMissingIsBounded(t *testing.T) {
	for _, c := range []struct {
		name             string
		size, sent, want int
	}{{"many", 1, 200, loadAtOnce}, {"large", loadBytes, 3, 1}, {"middling", loadBytes / 4, 10, 4}, {"few", 1, 2, 2}} {
		s := newStage(t, plan{})
		for range c.sent {
			s.q.Restore(Recovered(store.Found{Body: c.size}), -1, 0, Returns{}, false)
		}
		if got := len(s.q.Missing()); got != c.want {
			t.Errorf("%s: got %d, want %d", c.name, got, c.want)
		}
	}
	if got := newStage(t, plan{}).q.Missing(); got != nil {
		t.Errorf("of an empty queue: got %d, want none", len(got))
	}
}

// TestOneLoads: while one caller reads contents, no other has to.
func TestOneLoads(t *testing.T) {
	s := newStage(t, plan{})
	s.openLog()
	k := s.join("one", 0, nil)
	s.send(parcel{name: "a", ttl: -1, stored: true})
	k.room = 1
	if fx := s.q.Resume(&k.Consumer); !fx.Load {
		t.Error("nobody is asked to read")
	}
	if fx := s.q.Push(s.message(parcel{name: "b"}), -1); fx.Load {
		t.Error("a second one is asked to read")
	}
	s.wantMade("")
	s.after(s.q.Loaded(s.load()))
	s.wantMade("one:a")
}

func TestBudget(t *testing.T) {
	content := &store.Content{Properties: make([]byte, 3), Body: make([]byte, 7)}
	var b Budget
	shared := NewMessage(content, 2)
	b.Admit(shared)
	if got, want := b.Used(), int64(overhead+2*placeOverhead+contentOverhead+10); got != want {
		t.Errorf("used: got %d, want %d", got, want)
	}
	b.release(shared)
	if shared.Content() == nil {
		t.Error("a message that a queue still holds has left memory")
	}
	b.release(shared)
	if shared.Content() != nil || b.Used() != 0 {
		t.Errorf("a message that no queue holds: %d bytes used, want 0", b.Used())
	}

	// It was read in the meantime, too late.
	b.Load(shared, content)
	if shared.Content() != nil || b.Used() != 0 {
		t.Errorf("a message that was read too late: %d bytes used, want 0", b.Used())
	}

	found := Recovered(store.Found{Body: 7})
	b.Recover(found)
	b.Recover(found)
	b.Load(found, content)
	b.Load(found, content)
	if got, want := b.Used(), int64(overhead+2*placeOverhead+contentOverhead+10); got != want {
		t.Errorf("used after a message was read twice: got %d, want %d", got, want)
	}
	b.release(found)
	b.release(found)
	if b.Used() != 0 {
		t.Errorf("used: got %d, want 0", b.Used())
	}
}
