package ordering

import (
	"fmt"
	"testing"
	"time"
)

// tryOut makes the Owner own the queues after three others have crashed, with what the last one has left.
func (s *script) tryOut(left ...*Message) {
	s.Helper()
	s.fromMain(&Message{Kind: Probe, Session: "me"})
	s.back(Hello)
	s.fromHeld(&Message{Kind: Mark, Epoch: 4, Number: 2, Crashes: 2, Session: "earlier", Redelivered: true})
	for _, m := range left {
		m.Epoch, m.Session, m.Redelivered = 4, "earlier", true
		s.fromHeld(m)
	}
	s.back(Mark)
	s.back(Mark)
	if !s.owner.Owns() {
		s.Fatal("it is not the owner after its claim has come back")
	}
}

// try takes a message in a trial, in which a note is written before.
func (s *script) try() *Message {
	s.Helper()
	if m, ok := s.owner.Take(s.now); ok {
		s.Fatalf("took %v before its note was confirmed", m)
	}
	s.confirm()
	s.back(Trial)
	m, ok := s.owner.Take(s.now)
	if !ok {
		s.Fatal("took nothing after the note was confirmed")
	}
	return m
}

// TestTrialEnds: several messages run at once only when it is confirmed that the trial is over. Otherwise the last
// message of the trial would be blamed for a crash.
func TestTrialEnds(t *testing.T) {
	s := newScript(t, false)
	s.tryOut()
	for i := range s.owner.opt.Window {
		s.fromMain(&Message{ID: fmt.Sprint(i), Key: fmt.Sprint("k", i)})
		s.owner.Done(s.try(), Finished, time.Time{}, s.now)
		s.carryOut()
	}
	s.fromMain(&Message{ID: "next", Key: "next"})
	s.fromMain(&Message{ID: "other", Key: "other"})
	if m, ok := s.owner.Take(s.now); ok || s.owner.Runnable() > 0 {
		t.Fatalf("took %v before it was confirmed that the trial is over", m)
	}
	s.last(Calm)
	s.confirm()
	for range 2 {
		if _, ok := s.owner.Take(s.now); !ok {
			t.Error("took nothing after it was confirmed that the trial is over")
		}
	}
}

// TestTrialHadEnded: the process has died after its trial, so none of the messages that it had tried is to blame.
func TestTrialHadEnded(t *testing.T) {
	for _, ended := range []bool{false, true} {
		s := newScript(t, false)
		s.owner.opt.CrashLimit = suspectAfter + 1
		left := []*Message{{Kind: Copy, ID: "1", Print: "1", Key: "k", Seq: 1}, {Kind: Trial, Print: "1", Number: 9, Crashes: 1}}
		if ended {
			left = append(left, &Message{Kind: Calm})
		}
		s.tryOut(left...)
		m, ok := s.owner.Take(s.now)
		if crashed := ok && s.owner.Crashed(m); crashed == ended {
			t.Errorf("the trial had ended: %t, the message has failed for crashes: %t", ended, crashed)
		}
	}
}

// TestTrialOfMany: messages that are postponed again and again do not end a trial before all others were tried.
func TestTrialOfMany(t *testing.T) {
	s := newScript(t, false)
	s.owner.opt.MaxHeld = 100
	var left []*Message
	for i := range 30 {
		left = append(left, &Message{Kind: Copy, ID: fmt.Sprint(i), Print: fmt.Sprint(i), Key: fmt.Sprintf("k%02d", i), Seq: uint64(i + 1)})
	}
	s.tryOut(left...)
	for i := range left {
		m := s.try()
		if m.ID != fmt.Sprint(i) {
			t.Fatalf("tried %v, want message %d", m, i)
		}
		s.owner.Done(m, Postpone, s.now, s.now)
		s.confirm()
		s.back(Copy)
	}
}
