package outbox

import (
	"cmp"
	"slices"
	"time"

	"github.com/rehop/rehop/internal/sqltext"
)

// The kinds of lanes that a shard has.
const (
	laneReady   = iota
	laneOrdered // in an order, of keys of which none is held back
	laneDelayed
	laneHeld // in an order, to be tried again when they are due; others of their keys wait for them
	laneKinds
)

// lane is the messages of a shard that are of one kind. The dispatcher alone uses it.
//
// No cursor decides what was published: a row is there until it is deleted, so one whose transaction commits late is found late, and
// never skipped. But scanning from the beginning each time would pass over all rows that were deleted and that the database has not yet
// cleared away, which on PostgreSQL one old snapshot prevents. So a lane begins where nothing can come any more, and looks from the very
// beginning every few seconds.
//
// On PostgreSQL nothing can come when all transactions have ended that were under way when the lane was cleared up to there. Elsewhere a
// lane without an order takes two seconds for enough, and one with an order always looks from the beginning: a row that came late into
// a place that is not looked at would be overtaken by the next of its key. For the same reason a lane with an order begins anew when a batch
// has left something in it or has held a key back, and learns nothing from a look at a shard in which a key is held back: the rows of that
// key are passed over. Together these suffice, because all of a key that can be passed over come after the one that is held back.
type lane struct {
	shard int
	kind  int

	lease *holding // under which all that follows was learned
	busy  bool     // a batch has messages of it
	marks []mark
	low   int64     // nothing is expected before it
	last  time.Time // when it was looked at
	ended int64     // on PostgreSQL: all transactions with a lower number had ended by then
	sweep time.Time // when to look from the beginning again
	swept bool      // the last look was one from the beginning
	whole bool      // all that the last look could find was found, and is in batches
	epoch int       // how often what was learned has been forgotten

	holds   time.Time // until when some of its keys are held back
	apart   time.Time // until when to look at it by itself, because that takes long
	notTill time.Time // when to look again, where that costs much or is of no use

	undone []undone  // outcomes that are not in the table, because a row was locked
	tidy   time.Time // when to try again to write them
}

// mark is a place before which nothing was left, and when that was.
type mark struct {
	place int64
	at    time.Time
	next  int64 // on PostgreSQL: all transactions that were under way when the rows were read have lower numbers; elsewhere 0
}

const (
	lateness    = 2 * time.Second        // how late a transaction may commit and still be seen at once
	markEvery   = 100 * time.Millisecond // so that there are few marks
	sweepEvery  = 5 * time.Second
	sweepEffort = 20 // a sweep takes at most one part in so many of the time
	tidyEvery   = time.Second
	maxUndone   = 1000 // outcomes; a lane with more waits
	maxMarks    = 1000
)

// under begins anew with a lease: another relay may have had it meanwhile. It returns the outcomes that are not in the table yet. A batch of
// the lease before may still be under way: until it has ended nobody knows what it has sent.
func (l *lane) under(lease *holding) (left []undone) {
	if l.lease != lease {
		left = l.undone
		*l = lane{shard: l.shard, kind: l.kind, lease: lease, busy: l.busy}
	}
	return left
}

// state is that of its rows.
func (l *lane) state() int {
	if l.kind == laneHeld {
		return stateOrdered
	}
	return l.kind // the others have the same numbers
}

// byDue reports whether the lane is ordered by when its messages are due.
func (l *lane) byDue() bool { return l.kind == laneDelayed || l.kind == laneHeld }

// place is where a row is in its lane.
func (l *lane) place(r *row) int64 {
	if l.byDue() {
		return r.due
	}
	return r.id
}

// first is the place before all others.
func (l *lane) first() int64 {
	if l.kind == laneHeld {
		return 1 // those that are not held have 0
	}
	return 0
}

// from is the place after which to look now, when all transactions with a lower number than ended have ended. It passes a mark only when
// the lane was looked at from before it late enough.
func (l *lane) from(now time.Time, ended int64) int64 {
	for len(l.marks) > 0 && l.passes(l.marks[0]) {
		l.low = max(l.low, l.marks[0].place)
		l.marks = l.marks[1:]
	}
	l.last, l.ended, l.whole = now, ended, false
	l.swept = !now.Before(l.sweep)
	if l.swept {
		return l.first()
	}
	return max(l.low, l.first())
}

// passes reports whether the last look has found all that can come before a mark: it was late enough, and nothing was left behind.
func (l *lane) passes(m mark) bool {
	if !l.whole {
		return false
	}
	if m.next > 0 && l.kind != laneHeld {
		return l.ended >= m.next
	}
	return l.last.Sub(m.at) >= lateness
}

// forget begins from the beginning: what was learned may not hold any more, and neither may what batches are about to report.
func (l *lane) forget() {
	l.marks, l.low, l.sweep, l.whole = nil, 0, time.Time{}, false
	l.epoch++
}

// looked takes in what a look has found, how many rows it might have found, and how long it took.
func (l *lane) looked(now time.Time, found []row, limit int, took time.Duration) {
	if !l.swept {
		return
	}
	if l.ended > 0 && len(found) > 0 && l.place(&found[0]) < l.low && l.kind != laneHeld {
		l.forget() // on PostgreSQL nothing can come there, unless somebody has set the sequence of the numbers back
		return
	}
	if len(found) == limit && l.place(&found[len(found)-1]) < l.low {
		return // there is more: go on with it
	}
	l.sweep = now.Add(max(sweepEvery, sweepEffort*took))
}

// cleared notes that nothing is left of what was found up to a place, which was read when all transactions had lower numbers than next.
func (l *lane) cleared(now time.Time, last, next int64) {
	if n := len(l.marks); l.kind == laneOrdered && next == 0 || n > 0 && now.Sub(l.marks[n-1].at) < markEvery {
		return
	}
	l.marks = append(l.marks, mark{last - 1, now, next}) // others may have the same place
	if len(l.marks) > maxMarks {                         // a transaction is open for long; with fewer marks the lane moves in larger steps when it has ended
		for i := range l.marks[:maxMarks/2] {
			l.marks[i] = l.marks[2*i+1]
		}
		l.marks = l.marks[:maxMarks/2]
	}
}

// limit is how many rows to read so that there are n to publish.
func (l *lane) limit(n int) int { return n + len(l.undone) }

// news takes out rows whose outcome is known, and those that have to wait for one whose next try is not in the table yet.
func (l *lane) news(rows []row) []row {
	if len(l.undone) == 0 {
		return rows
	}
	known, waits := make(map[sqltext.Row]bool), make(map[string]bool)
	for _, u := range l.undone {
		known[u.row] = true
		if u.kind.verdict == postponed && u.orderKey != "" {
			waits[u.orderKey] = true
		}
	}
	return slices.DeleteFunc(rows, func(r row) bool { return known[r.identity()] || waits[r.orderKey] })
}

// inOrder sorts rows as they are in the lane.
func (l *lane) inOrder(rows []row) {
	slices.SortFunc(rows, func(a, b row) int {
		return cmp.Or(cmp.Compare(l.place(&a), l.place(&b)), cmp.Compare(a.id, b.id))
	})
}
