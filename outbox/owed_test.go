package outbox

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// readRows is what a look into the table finds to publish. committed is called while it reads.
func (o *owed) readRows(rows []row, safe bool, committed func()) (ids []int64) {
	o.beginRead()
	committed()
	for _, r := range o.without(slices.Clone(rows)) {
		ids = append(ids, r.id)
	}
	o.endRead(safe)
	return ids
}

func nothing() {}

// confirmed are rows whose messages the broker has confirmed, and their outcomes.
func (o *owed) confirmed(ids ...int64) (outcomes []undone) {
	for _, id := range ids {
		identity := (&row{id: id}).identity()
		o.begin(identity)
		outcomes = append(outcomes, undone{row: identity, kind: alike{verdict: published}})
	}
	return outcomes
}

// A message that the broker has confirmed is not read again before its row is deleted: not while its batch is under way, whatever becomes of the
// lease, and not if somebody has locked the row.
func TestConfirmedIsNotReadAgain(t *testing.T) {
	var o owed
	table := []row{{id: 1}, {id: 2}, {id: 3}, {id: 4}}
	outcomes := o.confirmed(1, 2, 3)
	want := func(what string, got []int64, ids ...int64) {
		t.Helper()
		if !slices.Equal(got, ids) {
			t.Errorf("%s: got rows %v, want %v", what, got, ids)
		}
	}
	want("confirmed", o.readRows(table, true, nothing), 4)
	o.end(outcomes, outcomes[1:2])
	table = []row{{id: 2}, {id: 4}}
	want("written, but for one that is locked", o.readRows(table, true, nothing), 4)
	o.keep(outcomes[1:2])
	want("the lease has ended", o.readRows(table, true, nothing), 4)
	o.end(o.take(), nil)
	want("written at last", o.readRows([]row{{id: 4}}, true, nothing), 4)
	if len(o.rows)+len(o.written) > 0 {
		t.Errorf("got %v and %v, want nothing to remember", o.rows, o.written)
	}
}

// A look may have begun before a row was deleted, and find it.
func TestDeletedDuringRead(t *testing.T) {
	var o owed
	outcomes := o.confirmed(1)
	if got := o.readRows([]row{{id: 1}, {id: 2}}, true, func() { o.end(outcomes, nil) }); !slices.Equal(got, []int64{2}) {
		t.Errorf("got rows %v, want only the one that was not published", got)
	}
	if o.count() > 0 {
		t.Error("the row is to be deleted twice")
	}
}

// A crash may undo a deletion that was visible, unless a barrier was committed afterwards. The row is not published again, and deleted again.
func TestDeletionUndone(t *testing.T) {
	for _, c := range []struct {
		name    string
		safe    bool // a barrier was committed between deletion and crash
		kept    bool
		again   bool // the row is published
		deleted int  // again
	}{
		{name: "before a barrier", deleted: 1},
		{name: "after a barrier", safe: true, again: true}, // a restore or failover: it is not remembered that long
		{name: "kept rows", kept: true, again: true},       // which Inspector.Republish may have asked for
	} {
		t.Run(c.name, func(t *testing.T) {
			var o owed
			outcomes := o.confirmed(1)
			outcomes[0].kept = c.kept
			o.end(outcomes, nil)
			o.readRows(nil, c.safe, nothing)
			for range 2 {
				if got := o.readRows([]row{{id: 1}}, true, nothing); (len(got) > 0) != c.again {
					t.Errorf("got rows %v, want it %v", got, c.again)
				}
			}
			if got := len(o.take()); got != c.deleted {
				t.Errorf("got %d rows to delete, want %d", got, c.deleted)
			}
		})
	}
}

// While nothing is published, a barrier is written for outcomes alone.
func TestOutcomesWaitForBarrier(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o owed
		o.end(o.confirmed(1), nil)
		if o.waitsForBarrier() {
			t.Error("at once: a barrier is wanted")
		}
		time.Sleep(2 * barrierWait)
		if !o.waitsForBarrier() {
			t.Error("after a while: no barrier is wanted")
		}
		o.readRows(nil, true, nothing)
		if o.waitsForBarrier() {
			t.Error("after a barrier: another one is wanted")
		}
	})
}
