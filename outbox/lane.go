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
	laneOrdered // with an order key that is not held back
	laneDelayed
	laneHeld // with an order key, to be tried again when they are due; other messages of their keys wait for them
	laneKinds
)

// lane is the messages of one kind in a shard. Only the dispatcher uses it.
//
// No cursor decides what was published: a row is in the table until it is deleted. A row whose transaction commits late is found late, but
// never skipped. However, scanning from the beginning each time would pass over all deleted rows that the database has not yet removed,
// and on PostgreSQL one old snapshot prevents that removal. So a lane starts at a place before which no row can appear any more, and
// scans from the very beginning every few seconds.
//
// On PostgreSQL no row can appear there when all transactions have ended that were open when the lane was cleared up to that place. On the
// other databases a lane without an order waits two seconds, and a lane with an order always starts at the beginning: the next message of
// a key would overtake a row that appears late in a place that is not read. For the same reason a lane with an order starts again when a
// batch has left a row in it or has held a key back, and learns nothing from a read of a shard in which a key is held back: the rows of
// that key are passed over. This is enough, because all rows of a key that can be passed over come after the one that is held back.
type lane struct {
	shard int
	kind  int

	lease *holding // under which all that follows was learned
	busy  bool     // a batch has messages of it
	marks []mark
	low   int64     // nothing is expected before it
	last  time.Time // when it was read
	ended int64     // on PostgreSQL: all transactions with a lower number had ended by then
	sweep time.Time // when to read from the beginning again
	swept bool      // the last read was from the beginning
	whole bool      // everything that the last read could find is in batches
	epoch int       // how often what was learned was discarded

	holds   time.Time // until when some of its keys are held back
	apart   time.Time // until when to read it separately, because that takes long
	notTill time.Time // when to read again, where that is slow or useless

	undone []undone  // outcomes that are not in the table, because a row was locked
	tidy   time.Time // when to try again to write them
}

// mark is a place before which no row was left, and the time of that.
type mark struct {
	place int64
	at    time.Time
	next  int64 // on PostgreSQL: all transactions that were open when the rows were read have lower numbers; elsewhere 0
}

const (
	lateness    = 2 * time.Second        // how late a transaction may commit and still be seen at once
	markEvery   = 100 * time.Millisecond // so that there are few marks
	sweepEvery  = 5 * time.Second
	sweepEffort = 20 // sweeps take at most 1/20 of the time
	tidyEvery   = time.Second
	maxUndone   = 1000 // outcomes; a lane with more waits
	maxMarks    = 1000
)

// under resets the lane for a new lease: another relay may have had it in the meantime. It returns the outcomes that are not in the table
// yet. A batch of the previous lease may still be running; what it has sent is unknown until it ends.
func (l *lane) under(lease *holding) (left []undone) {
	if l.lease != lease {
		left = l.undone
		*l = lane{shard: l.shard, kind: l.kind, lease: lease, busy: l.busy}
	}
	return left
}

func (l *lane) state() int {
	if l.kind == laneHeld {
		return stateOrdered
	}
	return l.kind // the others have the same numbers
}

// byDue reports whether the lane is ordered by when its messages are due.
func (l *lane) byDue() bool { return l.kind == laneDelayed || l.kind == laneHeld }

// place is the position of a row in its lane.
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

// from returns the place after which to read now. All transactions with a lower number than ended have ended. It passes a mark only if
// the lane was read from before that mark late enough.
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

// passes reports whether the last read has found all rows that can appear before a mark: it was late enough, and no row was left.
func (l *lane) passes(m mark) bool {
	if !l.whole {
		return false
	}
	if m.next > 0 && l.kind != laneHeld {
		return l.ended >= m.next
	}
	return l.last.Sub(m.at) >= lateness
}

// forget discards what was learned, and what running batches will report: it may not be true any more.
func (l *lane) forget() {
	l.marks, l.low, l.sweep, l.whole = nil, 0, time.Time{}, false
	l.epoch++
}

// noteRead processes the result of a read, with its limit of rows and how long it took.
func (l *lane) noteRead(now time.Time, found []row, limit int, took time.Duration) {
	if !l.swept {
		return
	}
	if l.ended > 0 && len(found) > 0 && l.place(&found[0]) < l.low && l.kind != laneHeld {
		l.forget() // on PostgreSQL no row can appear there, unless the sequence of numbers was set back
		return
	}
	if len(found) == limit && l.place(&found[len(found)-1]) < l.low {
		return // there is more
	}
	l.sweep = now.Add(max(sweepEvery, sweepEffort*took))
}

// cleared notes that no row is left up to a place. When it was read, all transactions had lower numbers than next.
func (l *lane) cleared(now time.Time, last, next int64) {
	if n := len(l.marks); l.kind == laneOrdered && next == 0 || n > 0 && now.Sub(l.marks[n-1].at) < markEvery {
		return
	}
	l.marks = append(l.marks, mark{last - 1, now, next}) // others may have the same place
	if len(l.marks) > maxMarks {                         // a transaction has been open for long; with fewer marks the lane moves in larger steps when it ends
		for i := range l.marks[:maxMarks/2] {
			l.marks[i] = l.marks[2*i+1]
		}
		l.marks = l.marks[:maxMarks/2]
	}
}

// limit returns how many rows to read so that there are n to publish.
func (l *lane) limit(n int) int { return n + len(l.undone) }

// news removes rows whose outcome is known, and those that wait for a row whose next attempt is not in the table yet.
func (l *lane) news(rows []row) []row {
	if len(l.undone) == 0 {
		return rows
	}
	known, waits := make(map[sqltext.Row]bool), make(map[string]bool)
	for _, u := range l.undone {
		known[u.row] = true
		if u.kind.verdict == retry && u.orderKey != "" {
			waits[u.orderKey] = true
		}
	}
	return slices.DeleteFunc(rows, func(r row) bool { return known[r.identity()] || waits[r.orderKey] })
}

// inOrder sorts rows by their place in the lane.
func (l *lane) inOrder(rows []row) {
	slices.SortFunc(rows, func(a, b row) int {
		return cmp.Or(cmp.Compare(l.place(&a), l.place(&b)), cmp.Compare(a.id, b.id))
	})
}
