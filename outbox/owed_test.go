package outbox

import (
	"testing"

	"github.com/rehop/rehop/internal/sqltext"
)

// A message that the broker has confirmed is not read again before its row is deleted: not while its batch is under way, whatever becomes of the
// lease, and not if somebody has locked the row.
func TestConfirmedIsNotReadAgain(t *testing.T) {
	var o owed
	identity := func(id int64) sqltext.Row { return (&row{id: id}).identity() }
	var outcomes []undone
	for id := range int64(3) {
		o.begin(identity(id))
		outcomes = append(outcomes, undone{row: identity(id), kind: alike{verdict: published}})
	}
	visible := func() (ids []int64) {
		for _, r := range o.without([]row{{id: 0}, {id: 1}, {id: 2}, {id: 3}}) {
			ids = append(ids, r.id)
		}
		return ids
	}
	for _, step := range []struct {
		what string
		do   func()
		want int // rows that are read
	}{
		{"confirmed", func() {}, 1},
		{"written but for one that is locked", func() { o.end(outcomes, outcomes[1:2]) }, 3},
		{"the lease has ended", func() { o.keep(outcomes[1:2]) }, 3},
		{"written at last", func() { o.end(o.take(), nil) }, 4},
	} {
		step.do()
		if got := visible(); len(got) != step.want {
			t.Errorf("%s: got rows %v, want %d", step.what, got, step.want)
		}
	}
}
