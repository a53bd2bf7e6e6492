package store

import "testing"

// A sweep continues correctly when its next message is removed.
func TestSweepOutlivesItsMessage(t *testing.T) {
	g := newSegment("old", header{Number: 1})
	newer := newSegment("new", header{Number: 2})
	l := &messageIndex{segments: []*segment{g, newer}}
	messages := make([]Message, 4)
	for i := range messages {
		messages[i].hold(holder{queue: 1})
		l.admit(&messages[i], uint64(i+1), g, int64(i))
	}
	l.sweep = &messages[1]
	l.settle(&messages[1], 1)
	if l.sweep != &messages[2] {
		t.Errorf("after a settlement: got message %d next, want 3", l.sweep.Seq())
	}
	l.move(&messages[2], newer, 0)
	if l.sweep != &messages[3] {
		t.Errorf("after a copy: got message %d next, want 4", l.sweep.Seq())
	}
	l.settle(&messages[3], 1)
	if l.sweep != nil || l.messages != 2 || g.first != g.last || newer.first != &messages[2] {
		t.Errorf("got %d messages and one to look at, want 2 messages and none", l.messages)
	}
}
