package ordering

import (
	"fmt"
	"testing"
	"time"
)

// script reports to an Owner what happens, step by step.
type script struct {
	*testing.T
	owner *Owner
	now   time.Time
	acked map[*Message]bool
	wrote []Message
	moves []*Move // not confirmed
	end   string
}

func newScript(t *testing.T, halt bool) *script {
	s := &script{T: t, now: time.Unix(1e9, 0), acked: make(map[*Message]bool)}
	s.owner = New(Options{Session: "me", Window: 10, Workers: 2, MaxHeld: 10, Halt: halt, CrashLimit: 10, Probe: 5 * time.Second, Lease: 20 * time.Second,
		Print: func(m *Message) string { return m.ID }}, s.now)
	s.carryOut()
	return s
}

// carryOut does what the Owner wants.
func (s *script) carryOut() {
	for _, a := range s.owner.Actions() {
		switch a.Do {
		case Ack:
			s.acked[a.Of] = true
		case Publish:
			s.wrote = append(s.wrote, a.Write)
			if a.Move != nil {
				s.moves = append(s.moves, a.Move)
			}
		case Close:
			s.end = a.Reason
		}
	}
}

func (s *script) fromMain(m *Message) *Message {
	s.owner.FromMain(m, s.now)
	s.carryOut()
	return m
}

func (s *script) fromHeld(m *Message) *Message {
	s.owner.FromHeld(m, s.now)
	s.carryOut()
	return m
}

// confirm confirms all moves.
func (s *script) confirm() {
	s.carryOut()
	moves := s.moves
	s.moves = nil
	for _, mv := range moves {
		s.owner.Published(mv, s.now)
	}
	s.carryOut()
}

// last is what the Owner has written last.
func (s *script) last(kind Kind) Message {
	s.Helper()
	for i := len(s.wrote) - 1; i >= 0; i-- {
		if s.wrote[i].Kind == kind {
			return s.wrote[i]
		}
	}
	s.Fatalf("nothing of kind %d was written: %v", kind, s.wrote)
	return Message{}
}

// back has what the Owner has written last come back from the held queue.
func (s *script) back(kind Kind) *Message {
	s.Helper()
	m := s.last(kind)
	return s.fromHeld(&m)
}

// become makes the Owner own the queues.
func (s *script) become() {
	s.Helper()
	s.fromMain(&Message{Kind: Probe, Session: "me"})
	s.back(Hello)
	s.back(Mark)
	s.back(Mark)
	if !s.owner.Owns() {
		s.Fatal("it is not the owner after its claim has come back")
	}
}

// TestLastStaysUnacked: without a message that comes back, a session could not see that it was replaced.
func TestLastStaysUnacked(t *testing.T) {
	s := newScript(t, false)
	s.become()
	one := s.fromMain(&Message{ID: "1", Key: "k"})
	m, ok := s.owner.Take(s.now)
	if !ok || m != one {
		t.Fatalf("took %v, want the message", m)
	}
	s.owner.Done(m, Finished, time.Time{}, s.now)
	s.carryOut()
	if s.acked[one] {
		t.Error("the last message was acked")
	}
	s.fromMain(&Message{Kind: Probe, Session: "me"})
	if !s.acked[one] {
		t.Error("the message was not acked when another one had come")
	}
	if s.acked[s.owner.claim] {
		t.Error("the claim was acked")
	}
}

// TestRedeliveredWaitsForMark: others may have been the owner in between, and then a claim comes before the mark.
func TestRedeliveredWaitsForMark(t *testing.T) {
	for _, replaced := range []bool{false, true} {
		s := newScript(t, false)
		s.become()
		s.fromMain(&Message{ID: "1", Key: "k", Redelivered: true})
		s.fromMain(&Message{ID: "2", Key: "other"})
		if m, ok := s.owner.Take(s.now); ok {
			t.Fatalf("took %v before the mark has come back", m)
		}
		if replaced {
			s.fromHeld(&Message{Kind: Mark, Epoch: 7, Session: "another"})
			if s.end == "" {
				t.Error("it continues although another session has become the owner")
			}
			continue
		}
		s.back(Mark)
		if m, ok := s.owner.Take(s.now); !ok || m.ID != "1" {
			t.Errorf("took %v after the mark has come back, want the first message", m)
		}
	}
}

// TestCopyOfEarlierSession: a copy that an earlier owner has written too late is a duplicate.
func TestCopyOfEarlierSession(t *testing.T) {
	s := newScript(t, false)
	s.fromMain(&Message{Kind: Probe, Session: "me"})
	s.back(Hello)
	before := s.fromHeld(&Message{Kind: Copy, ID: "1", Key: "k", Seq: 1, Epoch: 4, Session: "earlier", Redelivered: true})
	s.fromHeld(&Message{Kind: Mark, Epoch: 4, Number: 2, Session: "earlier", Redelivered: true})
	s.back(Mark)
	s.back(Mark)
	if e := s.owner.epoch; e != 5 {
		t.Errorf("the epoch is %d, want 5", e)
	}
	late := s.fromHeld(&Message{Kind: Copy, ID: "2", Key: "k", Seq: 2, Epoch: 4, Session: "earlier"})
	if !s.acked[late] || s.acked[before] {
		t.Errorf("late one acked: %t, want true; inherited one acked: %t, want false", s.acked[late], s.acked[before])
	}
	if m, ok := s.owner.Take(s.now); !ok || m != before {
		t.Errorf("took %v, want the inherited one", m)
	}
}

// TestOriginalAfterItsCopy: the ack of a message that was moved did not reach the broker, and the next owner handles the copy before
// the original comes. A message with the same id that was published later is another one.
func TestOriginalAfterItsCopy(t *testing.T) {
	for _, fresh := range []bool{false, true} {
		s := newScript(t, false)
		s.fromMain(&Message{Kind: Probe, Session: "earlier", Redelivered: true})
		s.back(Hello)
		s.fromHeld(&Message{Kind: Copy, ID: "1", Key: "k", Seq: 1, Epoch: 4, Session: "earlier", Redelivered: true})
		s.back(Mark)
		s.back(Mark)
		m, ok := s.owner.Take(s.now)
		if !ok {
			t.Fatal("took nothing")
		}
		s.owner.Done(m, Finished, time.Time{}, s.now)
		s.back(Mark)
		if fresh {
			s.fromMain(&Message{ID: "2", Key: "other"})
			s.back(Mark)
			s.owner.Take(s.now)
		}
		original := s.fromMain(&Message{ID: "1", Key: "k", Redelivered: true})
		s.back(Mark)
		if m, ok := s.owner.Take(s.now); ok != fresh {
			t.Errorf("after a newer message: %t; took %v", fresh, m)
		}
		s.fromMain(&Message{Kind: Probe, Session: "me"})
		if s.acked[original] == fresh {
			t.Errorf("after a newer message: %t; the original is acked: %t", fresh, s.acked[original])
		}
	}
}

// TestHello: an owner that another session greets is not the active consumer any more.
func TestHello(t *testing.T) {
	s := newScript(t, false)
	s.become()
	s.fromHeld(&Message{Kind: Hello, Session: "another"})
	if s.end == "" {
		t.Error("it continues")
	}
}

// TestTakenAway: what the held queue delivers again to an owner, it had taken away.
func TestTakenAway(t *testing.T) {
	s := newScript(t, false)
	s.become()
	again := *s.owner.claim
	again.Redelivered = true
	s.fromHeld(&again)
	if s.end == "" {
		t.Error("it continues")
	}
}

// TestClaimTakenAway: a claim that comes back redelivered was delivered before, and others may have become the owner
// since, although their claims come later.
func TestClaimTakenAway(t *testing.T) {
	for marks := range 2 {
		s := newScript(t, false)
		s.fromMain(&Message{Kind: Probe, Session: "me"})
		s.back(Hello)
		for range marks {
			s.back(Mark)
		}
		m := s.last(Mark)
		m.Redelivered = true
		s.fromHeld(&m)
		if s.end == "" {
			t.Errorf("it continues after mark %d was redelivered", marks+1)
		}
	}
}

// TestSilence: an owner whose probes do not come back has lost its queue.
func TestSilence(t *testing.T) {
	s := newScript(t, false)
	s.become()
	for range 40 {
		s.now = s.now.Add(time.Second)
		s.owner.Tick(s.now)
		s.carryOut()
		s.owner.Noted(Probe, s.now)
		s.owner.Noted(Mark, s.now)
	}
	if s.end == "" {
		t.Error("it continues after 40 s without any delivery")
	}
}

// BenchmarkRedelivered is a message that is delivered again while many others wait in the held queue.
func BenchmarkRedelivered(b *testing.B) {
	for _, held := range []int{100, 10_000} {
		b.Run(fmt.Sprint(held), func(b *testing.B) {
			o := New(Options{Session: "me", Window: 10, MaxHeld: held, Print: func(m *Message) string { return m.ID }}, time.Unix(1e9, 0))
			for i := range held {
				o.insert(o.key(fmt.Sprint("k", i)), &Message{Kind: Copy, ID: fmt.Sprint(i), from: Held})
			}
			m := &Message{ID: "1", Redelivered: true, done: true}
			for b.Loop() {
				o.enter(m)
			}
		})
	}
}

// TestOriginalOfCopy: a message that was moved, and whose original was not acked any more, is handled once.
func TestOriginalOfCopy(t *testing.T) {
	s := newScript(t, false)
	original := s.fromMain(&Message{ID: "1", Print: "1", Key: "k", Redelivered: true})
	s.back(Hello)
	copied := s.fromHeld(&Message{Kind: Copy, ID: "1", Print: "1", Key: "k", Seq: 1, Attempt: 1, Epoch: 4, Session: "earlier", Redelivered: true})
	s.back(Mark)
	s.back(Mark)
	s.back(Mark) // for the redelivered message
	s.fromMain(&Message{Kind: Probe, Session: "me"})
	if !s.acked[original] {
		t.Error("the original was not acked")
	}
	if m, ok := s.owner.Take(s.now); !ok || m != copied {
		t.Errorf("took %v, want the copy", m)
	}
}

// fails takes a message, and has it fail and come back from the held queue. False: there was none to take.
func (s *script) fails(due time.Time) bool {
	s.Helper()
	m, ok := s.owner.Take(s.now)
	if !ok {
		return false
	}
	s.owner.Done(m, Retry, due, s.now)
	s.confirm()
	s.back(Copy)
	return true
}

// TestFailedBeyondMaxHeld: a message that has failed is moved to the held queue also if that is full, so that its attempts
// are not forgotten. When Window more are there, no other message begins.
func TestFailedBeyondMaxHeld(t *testing.T) {
	for _, halt := range []bool{false, true} {
		s := newScript(t, halt)
		s.become()
		due, moved := s.now.Add(time.Hour), 0
		for i := range 30 {
			s.fromMain(&Message{ID: fmt.Sprint(i), Key: fmt.Sprint("k", i)})
			if s.fails(due) {
				moved++
			}
		}
		if want := s.owner.opt.MaxHeld + s.owner.opt.Window; moved != want || s.owner.held != want {
			t.Errorf("%d have run, and %d are in the held queue, want %d", moved, s.owner.held, want)
		}
		if !s.owner.State().Stalled || s.owner.Runnable() > 0 {
			t.Errorf("%d can run in state %+v, want a stall", s.owner.Runnable(), s.owner.State())
		}
		s.now = due
		s.owner.Tick(s.now)
		m, ok := s.owner.Take(s.now)
		if !ok || m.from != Held {
			t.Fatalf("took %v, want one that has waited", m)
		}
		s.owner.Done(m, Finished, time.Time{}, s.now)
		if m, ok = s.owner.Take(s.now); !ok || m.ID != "20" {
			t.Errorf("took %v, want the first one that waited for room", m)
		}
	}
}

// TestDueLater: a message in the main queue that is due later leaves its place in the window to others, if it can be moved.
func TestDueLater(t *testing.T) {
	for _, refused := range []bool{false, true} {
		s := newScript(t, false)
		s.become()
		due := s.now.Add(time.Hour)
		later := s.fromMain(&Message{ID: "1", Key: "k", Attempt: 2, Due: due})
		s.fromMain(&Message{ID: "2", Key: "k"})
		if c := s.last(Copy); c.ID != "1" || c.Attempt != 2 || !c.Due.Equal(due) {
			t.Fatalf("the copy is %+v, want that of the message", c)
		}
		if refused {
			s.owner.Refused(s.moves[0], s.now)
			s.carryOut()
		} else {
			s.confirm()
			s.back(Copy)
		}
		if s.acked[later] == refused {
			t.Errorf("refused: %t, acked: %t", refused, s.acked[later])
		}
		if m, ok := s.owner.Take(s.now); ok {
			t.Errorf("took %v before it is due", m)
		}
		s.now = due
		s.owner.Tick(s.now)
		if m, ok := s.owner.Take(s.now); !ok || m.ID != "1" {
			t.Errorf("took %v when it is due, want the first message", m)
		}
	}
}

// hot returns a script in which the window is full of messages of one key, the first of which runs for long.
func hot(t *testing.T) (s *script, first *Message) {
	t.Helper()
	s = newScript(t, false)
	s.become()
	for i := range s.owner.opt.Window {
		s.fromMain(&Message{ID: fmt.Sprint(i), Key: "hot"})
	}
	first, ok := s.owner.Take(s.now)
	if !ok || first.ID != "0" {
		t.Fatalf("took %v, want the first message", first)
	}
	s.wrote = nil
	s.now = s.now.Add(slowAfter / 2)
	s.owner.Tick(s.now)
	s.carryOut()
	if len(s.wrote) > 0 {
		t.Fatalf("%v was written before the handler had run for long", s.wrote)
	}
	s.now = s.now.Add(slowAfter)
	s.owner.Tick(s.now)
	s.carryOut()
	if c := s.last(Copy); c.ID != "0" {
		t.Fatalf("%v was written, want a copy of the message that runs", c)
	}
	return s, first
}

// TestSlowHandler: messages behind one whose handler runs for long leave the window to other keys, and are handled after
// it, whatever becomes of it.
func TestSlowHandler(t *testing.T) {
	for _, verdict := range []Verdict{Finished, Retry, Postpone, Unfinished, Unavailable, FailForGood} {
		s, first := hot(t)
		s.settleMoves()
		if s.owner.crowded() || s.owner.held < s.owner.opt.Window/2 {
			t.Errorf("%d are unacked, and %d in the held queue, want half of the window in each", s.owner.unacked, s.owner.held)
		}
		other := s.fromMain(&Message{ID: "other", Key: "other"})
		if m, ok := s.owner.Take(s.now); !ok || m != other {
			t.Fatalf("took %v while the handler runs, want that of the other key", m)
		}
		s.owner.Done(first, verdict, s.now, s.now)
		s.owner.Done(other, Finished, time.Time{}, s.now)
		s.moveUntilOver(t, verdict)
	}
}

// TestSlowHandlerReturns: the handler returns while the copy of its message is under way.
func TestSlowHandlerReturns(t *testing.T) {
	for _, verdict := range []Verdict{Finished, Retry, Postpone, Unfinished, Unavailable, FailForGood} {
		for _, refused := range []bool{false, true} {
			s, first := hot(t)
			s.owner.Done(first, verdict, s.now, s.now)
			s.carryOut()
			if m, ok := s.owner.Take(s.now); ok {
				t.Errorf("took %v while a copy of the message before is under way", m)
			}
			if refused {
				mv := s.moves[0]
				s.moves = nil
				s.owner.Refused(mv, s.now)
			}
			s.moveUntilOver(t, verdict)
		}
	}
}

// moveUntilOver takes all messages of the hot key that are left.
func (s *script) moveUntilOver(t *testing.T, verdict Verdict) {
	t.Helper()
	next := 1
	if verdict == Retry || verdict == Postpone || verdict == Unfinished || verdict == Unavailable {
		next = 0
	}
	for ; next < s.owner.opt.Window; next++ {
		s.settleMoves()
		m, ok := s.owner.Take(s.now)
		if !ok || m.ID != fmt.Sprint(next) {
			t.Fatalf("verdict %d: took %v, want message %d", verdict, m, next)
		}
		if next == 0 && (m.Attempt == 1) != (verdict == Retry) {
			t.Errorf("verdict %d: the first message has %d attempts", verdict, m.Attempt)
		}
		s.owner.Done(m, Finished, time.Time{}, s.now)
	}
	s.settleMoves()
	s.fromMain(&Message{Kind: Probe, Session: "me"})
	if s.owner.held != 0 || s.owner.coming != 0 || s.owner.reserved != 0 || s.owner.unacked != 1 || len(s.owner.keys) > 0 {
		t.Errorf("verdict %d: in the end held %d, coming %d, reserved %d, unacked %d, keys %v", verdict, s.owner.held, s.owner.coming,
			s.owner.reserved, s.owner.unacked, s.owner.keys)
	}
}

// TestManySlowHandlers: many messages of a key that take some time each leave the window to others, too; those that take
// little time are not moved.
func TestManySlowHandlers(t *testing.T) {
	for took, want := range map[time.Duration]bool{slowEach / 2: false, 300 * time.Millisecond: true} {
		s := newScript(t, false)
		s.become()
		for i := range s.owner.opt.Window {
			s.fromMain(&Message{ID: fmt.Sprint(i), Key: "hot"})
		}
		s.wrote = nil
		for i := range 2 {
			m, ok := s.owner.Take(s.now)
			if !ok {
				t.Fatal("took nothing")
			}
			if i == 0 {
				s.now = s.now.Add(took)
				s.owner.Done(m, Finished, time.Time{}, s.now)
				s.carryOut()
				s.fromMain(&Message{ID: "last", Key: "hot"})
			}
		}
		s.owner.Tick(s.now)
		s.carryOut()
		if got := len(s.wrote) > 0; got != want {
			t.Errorf("handlers take %v: written %v, want some: %t", took, s.wrote, want)
		}
	}
}

// settleMoves confirms what is moved, and has what goes to the held queue come back.
func (s *script) settleMoves() {
	for s.carryOut(); len(s.moves) > 0; {
		moves := s.moves
		s.confirm()
		for _, mv := range moves {
			if mv.to == Held {
				back := mv.copy
				s.fromHeld(&back)
			}
		}
	}
}
