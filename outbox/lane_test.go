package outbox

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// A lane looks from behind a mark only when it has looked from before it late enough to see what commits late.
func TestLaneLow(t *testing.T) {
	began := time.Unix(1000, 0)
	at := func(d time.Duration) time.Time { return began.Add(d) }
	l := &lane{state: stateReady}
	if got := l.from(at(0)); got != 0 {
		t.Errorf("first look: got from %d, want 0", got)
	}
	l.looked(at(0), []row{{id: 7}}, 10, 0)
	l.cleared(at(0), 7)
	for _, c := range []struct {
		after time.Duration
		want  int64
	}{
		{time.Second, 0},
		{4 * time.Second, 0}, // the mark is old enough, and no look since has shown that nothing came late
		{4100 * time.Millisecond, 6},
	} {
		if got := l.from(at(c.after)); got != c.want {
			t.Errorf("after %v: got from %d, want %d", c.after, got, c.want)
		}
		l.looked(at(c.after), nil, 10, 0)
	}
}

// It sweeps every few seconds, and less often if that takes long; and goes on sweeping while there is more.
func TestLaneSweep(t *testing.T) {
	began := time.Unix(1000, 0)
	l := &lane{state: stateReady, low: 100}
	sweeps := func(after time.Duration) bool { return l.from(began.Add(after)) == 0 }
	if !sweeps(0) {
		t.Error("a new lane does not sweep")
	}
	l.looked(began, []row{{id: 5}, {id: 9}}, 2, time.Second)
	if !sweeps(time.Millisecond) {
		t.Error("it does not go on although there may be more behind what was found")
	}
	l.looked(began.Add(time.Millisecond), []row{{id: 50}}, 2, time.Second)
	if sweeps(19 * time.Second) {
		t.Error("it sweeps again after 19 s although a sweep takes 1 s")
	}
	if !sweeps(21 * time.Second) {
		t.Error("it does not sweep after 21 s")
	}
	ordered := &lane{state: stateOrdered, low: 100}
	for i := range 3 {
		if got := ordered.from(began.Add(time.Duration(i) * time.Millisecond)); got != 0 {
			t.Errorf("lane with an order: got from %d, want always 0", got)
		}
		ordered.looked(began, nil, 1, 0)
		ordered.cleared(began, 50)
	}
}

// What was learned under one lease does not count under another.
func TestLaneUnderAnotherLease(t *testing.T) {
	first := &holding{}
	l := &lane{shard: 3, state: stateOrdered, lease: first, low: 9}
	l.hold("k", time.Now().Add(time.Hour))
	l.under(first)
	if len(l.holds(time.Now())) != 1 || l.low != 9 {
		t.Error("it has forgotten something under the same lease")
	}
	l.under(&holding{})
	if len(l.holds(time.Now())) != 0 || l.low != 0 || l.shard != 3 || l.state != stateOrdered {
		t.Errorf("under another lease: got %+v, want a lane that knows nothing", l)
	}
}

func TestLaneHolds(t *testing.T) {
	now := time.Unix(1000, 0)
	l := &lane{state: stateOrdered}
	l.hold("b", now.Add(2*time.Second))
	l.hold("a", now.Add(time.Second))
	if got := l.holds(now); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("got %v, want [a b]", got)
	}
	if got := l.holds(now.Add(time.Second)); !slices.Equal(got, []string{"b"}) {
		t.Errorf("after a second: got %v, want [b]", got)
	}
	if !l.notTill.IsZero() {
		t.Error("the whole lane waits although there is room")
	}
	for i := range 2 * maxHeld {
		l.hold(fmt.Sprint(i), now.Add(time.Minute))
	}
	if len(l.held) > maxHeld || !l.notTill.Equal(now.Add(time.Minute)) {
		t.Errorf("too many keys: got %d held and a pause till %v, want %d and all of the lane waiting for a minute", len(l.held), l.notTill, maxHeld)
	}
}

func TestLaneOrder(t *testing.T) {
	rows := []row{{id: 3, due: 1}, {id: 1, due: 5}, {id: 2, due: 5}}
	(&lane{state: stateReady}).inOrder(rows)
	if rows[0].id != 1 || rows[2].id != 3 {
		t.Errorf("by id: got %v", rows)
	}
	(&lane{state: stateDelayed}).inOrder(rows)
	if rows[0].id != 3 || rows[1].id != 1 {
		t.Errorf("by due: got %v", rows)
	}
}
