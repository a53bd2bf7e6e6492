package outbox

import (
	"slices"
	"testing"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/internal/sqltext"
)

// A lane looks from behind a mark only when it has looked from before it late enough to see what commits late.
func TestLaneLow(t *testing.T) {
	began := time.Unix(1000, 0)
	at := func(d time.Duration) time.Time { return began.Add(d) }
	l := &lane{kind: laneReady}
	if got := l.from(at(0), 0); got != 0 {
		t.Errorf("first look: got from %d, want 0", got)
	}
	l.noteRead(at(0), []row{{id: 7}}, 10, 0)
	l.cleared(at(0), 7, 0)
	for _, c := range []struct {
		after time.Duration
		want  int64
	}{
		{time.Second, 0},
		{4 * time.Second, 0}, // the mark is old enough, and no look since has shown that nothing came late
		{4100 * time.Millisecond, 6},
	} {
		if got := l.from(at(c.after), 0); got != c.want {
			t.Errorf("after %v: got from %d, want %d", c.after, got, c.want)
		}
		l.noteRead(at(c.after), nil, 10, 0)
		l.whole = true
	}
	l.cleared(at(4200*time.Millisecond), 9, 0)
	l.from(at(4500*time.Millisecond), 0)
	l.sweep = at(time.Hour)
	if got := l.from(at(7*time.Second), 0); got != 6 {
		t.Errorf("after a look that has left something behind: got from %d, want 6", got)
	}
}

// It sweeps every few seconds, and less often if that takes long, and continues to sweep while there is more.
func TestLaneSweep(t *testing.T) {
	began := time.Unix(1000, 0)
	l := &lane{kind: laneReady, low: 100}
	sweeps := func(after time.Duration) bool { return l.from(began.Add(after), 0) == 0 }
	if !sweeps(0) {
		t.Error("a new lane does not sweep")
	}
	l.noteRead(began, []row{{id: 5}, {id: 9}}, 2, time.Second)
	if !sweeps(time.Millisecond) {
		t.Error("it does not go on although there may be more behind what was found")
	}
	l.noteRead(began.Add(time.Millisecond), []row{{id: 50}}, 2, time.Second)
	if sweeps(19 * time.Second) {
		t.Error("it sweeps again after 19 s although a sweep takes 1 s")
	}
	if !sweeps(21 * time.Second) {
		t.Error("it does not sweep after 21 s")
	}
}

// A lane with an order begins later only when all transactions have ended that could still put a row before that place, and from the
// beginning if something is left in it.
func TestLaneOrdered(t *testing.T) {
	began := time.Unix(1000, 0)
	l := &lane{kind: laneOrdered}
	from := func(after time.Duration, ended int64) int64 {
		now := began.Add(after)
		from := l.from(now, ended)
		l.noteRead(now, nil, 10, 0)
		l.whole = true
		return from
	}
	for _, c := range []struct {
		name        string
		after       time.Duration
		next, ended int64 // of what was cleared before, 0 for nothing; of the look
		want        int64
	}{
		{"at first", 0, 0, 0, 0},
		{"where numbers of transactions are not known", 3 * time.Second, -1, 0, 0},
		{"a transaction is under way that was then", 3500 * time.Millisecond, 7, 6, 0},
		{"all have ended", 4 * time.Second, 0, 7, 0}, // this look may find what they have left
		{"after a look at that", 4500 * time.Millisecond, 0, 7, 49},
	} {
		if c.next != 0 {
			l.cleared(began.Add(c.after), 50, max(c.next, 0))
		}
		if got := from(c.after, c.ended); got != c.want {
			t.Errorf("%s: got from %d, want %d", c.name, got, c.want)
		}
	}
	l.forget()
	if got := from(4600*time.Millisecond, 9); got != 0 {
		t.Errorf("after something was left: got from %d, want 0", got)
	}
}

// What was learned under one lease does not count under another.
func TestLaneUnderAnotherLease(t *testing.T) {
	first := &holding{}
	l := &lane{shard: 3, kind: laneOrdered, lease: first, low: 9}
	l.under(first)
	if l.low != 9 {
		t.Error("it has forgotten something under the same lease")
	}
	l.under(&holding{})
	if l.low != 0 || l.shard != 3 || l.kind != laneOrdered {
		t.Errorf("under another lease: got %+v, want a lane that knows nothing", l)
	}
}

// A lane that was lost and gained again waits for its old batch, and learns nothing from it.
func TestLaneWaitsForOldBatch(t *testing.T) {
	r := newRun(Relay{Client: &scripted{state: rehop.StateOpen}}.withDefaults())
	d := &dispatcher{run: r}
	l := &lane{lease: &holding{}, busy: true}
	old := newBatch(r, newTerm(time.Now()))
	old.add(l, []row{{id: 1}}, 1, 0)
	old.parts[0].cleared = true
	l.under(&holding{})
	if !l.busy {
		t.Error("the lane can be read although its old batch is under way")
	}
	d.finish(old)
	if l.busy || len(l.marks) > 0 {
		t.Errorf("after the old batch: got %+v, want an idle lane that knows nothing", l)
	}
}

// What a batch has learned from a server does not count for the next one, to which a failover has led the relay meanwhile.
func TestLaneForgetsWhatOldBatchReports(t *testing.T) {
	began := time.Unix(1000, 0)
	l := &lane{kind: laneOrdered, lease: &holding{}}
	l.from(began, 10)
	old := &part{lane: l, lease: l.lease, last: 900, next: 20, epoch: l.epoch, cleared: true, end: 1}
	l.forget()
	old.finish(began)
	for i, ended := range []int64{30, 40} {
		l.sweep = began.Add(time.Hour)
		if got := l.from(began.Add(time.Duration(i)*time.Minute), ended); got != 0 {
			t.Errorf("look %d at the new server: got from %d, want 0", i, got)
		}
		l.whole = true
	}
	// A batch of the new server does count.
	now := &part{lane: l, lease: l.lease, last: 7, next: 50, epoch: l.epoch, cleared: true, end: 1}
	now.finish(began.Add(time.Hour))
	l.from(began.Add(time.Hour), 60)
	l.sweep, l.whole = began.Add(2*time.Hour), true
	if got := l.from(began.Add(time.Hour), 60); got != 6 {
		t.Errorf("after a batch of the new server: got from %d, want 6", got)
	}
}

// What has an outcome that is not in the table yet is not published again, nor what has to wait for it.
func TestLaneNews(t *testing.T) {
	l := &lane{kind: laneOrdered, undone: []undone{
		{row: sqltext.Row{Number: 1}, orderKey: "confirmed", kind: alike{verdict: published}},
		{row: sqltext.Row{Number: 2}, orderKey: "postponed", kind: alike{verdict: retry}},
	}}
	var got []int64
	for _, r := range l.news([]row{{id: 1, orderKey: "confirmed"}, {id: 2, orderKey: "postponed"}, {id: 3, orderKey: "confirmed"}, {id: 4, orderKey: "postponed"}, {id: 5}}) {
		got = append(got, r.id)
	}
	if !slices.Equal(got, []int64{3, 5}) {
		t.Errorf("got rows %v, want 3 and 5", got)
	}
	if got := l.limit(10); got != 12 {
		t.Errorf("limit: got %d, want 12, so that there is room for 10 others", got)
	}
}

func TestLaneOrder(t *testing.T) {
	rows := []row{{id: 3, due: 1}, {id: 1, due: 5}, {id: 2, due: 5}}
	(&lane{kind: laneReady}).inOrder(rows)
	if rows[0].id != 1 || rows[2].id != 3 {
		t.Errorf("by id: got %v", rows)
	}
	(&lane{kind: laneDelayed}).inOrder(rows)
	if rows[0].id != 3 || rows[1].id != 1 {
		t.Errorf("by due: got %v", rows)
	}
}

// Rows whose deletion is owed, because somebody has locked one of them for instance, do not hide those behind them.
func TestOwedRowsHideNothing(t *testing.T) {
	r := newRun(Relay{Client: &scripted{state: rehop.StateOpen}}.withDefaults())
	l := newLanes()[0]
	before := l.limit(r.BatchSize) + r.owed.count()
	var c change
	for i := range r.BatchSize {
		c = append(c, undone{row: sqltext.Row{Number: int64(i + 1)}, kind: alike{verdict: published}})
	}
	for _, u := range c {
		r.owed.begin(u.row)
	}
	r.owed.leave([]change{c})
	if got := l.limit(r.BatchSize) + r.owed.count(); got != before+len(c) {
		t.Errorf("rows that a look reads: got %d, want %d more than %d", got, len(c), before)
	}
	rest := r.owed.without([]row{{id: 1}, {id: int64(r.BatchSize) + 1}})
	if len(rest) != 1 || rest[0].id != int64(r.BatchSize)+1 {
		t.Errorf("rows to publish: got %v, want the one that is not owed", rest)
	}
	r.owed.pause(time.Hour)
	if got := r.owed.take(); got != nil {
		t.Errorf("during a pause: got %d owed, want none", len(got))
	}
}

// A transaction that has written something stays open for a day on PostgreSQL, while the relay works.
func TestMarksAreBounded(t *testing.T) {
	l := &lane{kind: laneReady, lease: &holding{}}
	began := time.Unix(1000, 0)
	const batches = 24 * 36000 // ten in a second
	for i := range int64(batches) {
		now := began.Add(time.Duration(i) * 100 * time.Millisecond)
		l.from(now, 5) // transaction 5 is still under way
		l.noteRead(now, []row{{id: i + 1}}, 200, time.Millisecond)
		l.whole = true
		l.cleared(now, i+1, 10+i)
	}
	if len(l.marks) > maxMarks {
		t.Errorf("marks: got %d, want at most %d", len(l.marks), maxMarks)
	}
	end := began.Add(batches * 100 * time.Millisecond)
	l.from(end, batches+100) // it has ended
	l.whole = true
	l.from(end, batches+100)
	if l.low != batches-1 {
		t.Errorf("after the transaction: nothing is expected before %d, want %d", l.low, batches-1)
	}
}
