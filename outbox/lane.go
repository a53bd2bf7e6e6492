package outbox

import (
	"cmp"
	"slices"
	"time"
)

// lane is the messages of a shard in one state. The dispatcher alone uses it.
//
// No cursor decides what was published: a row is there until it is deleted, so one whose transaction commits late is found late, and
// never passed over. But scanning from the beginning each time would wade through all rows that were deleted and that the database
// has not yet cleared away. So a lane without an order begins where nothing was left two seconds ago, and looks from the very
// beginning every few seconds. A lane with an order always looks from the beginning: a row that came late into a place that is
// not looked at would be overtaken by the next of its key.
type lane struct {
	shard int
	state int

	lease *holding // under which all that follows was learned
	busy  bool     // a batch has messages of it
	marks []mark
	low   int64     // nothing is expected before it
	last  time.Time // when it was looked at
	sweep time.Time // when to look from the beginning again
	swept bool      // the last look was one from the beginning

	held    map[string]time.Time // keys that wait for the next try of a message, until when
	notTill time.Time            // when to look again, where that costs much or is of no use
}

// mark is a place before which nothing was left, and when that was.
type mark struct {
	place int64
	at    time.Time
}

const (
	lateness    = 2 * time.Second        // how late a transaction may commit and still be seen at once
	markEvery   = 100 * time.Millisecond // so that there are few marks
	sweepEvery  = 5 * time.Second
	sweepEffort = 20  // a sweep takes at most one part in so many of the time
	maxHeld     = 100 // keys
)

// under begins anew with a lease: another relay may have had it meanwhile.
func (l *lane) under(lease *holding) {
	if l.lease != lease {
		*l = lane{shard: l.shard, state: l.state, lease: lease}
	}
}

// place is where a row is in its lane.
func (l *lane) place(r *row) int64 {
	if l.state == stateDelayed {
		return r.due
	}
	return r.id
}

// from is the place after which to look now. It passes a mark only when the lane was looked at from before it late enough.
func (l *lane) from(now time.Time) int64 {
	for len(l.marks) > 0 && l.last.Sub(l.marks[0].at) >= lateness {
		l.low = max(l.low, l.marks[0].place)
		l.marks = l.marks[1:]
	}
	l.last = now
	l.swept = l.state == stateOrdered || !now.Before(l.sweep)
	if l.swept {
		return 0
	}
	return l.low
}

// looked takes in what a look has found, how many rows it might have found, and how long it took.
func (l *lane) looked(now time.Time, found []row, limit int, took time.Duration) {
	if !l.swept || l.state == stateOrdered {
		return
	}
	if len(found) == limit && l.place(&found[len(found)-1]) < l.low {
		return // there is more: go on with it
	}
	l.sweep = now.Add(max(sweepEvery, sweepEffort*took))
}

// cleared notes that nothing is left of what was found up to a place.
func (l *lane) cleared(now time.Time, last int64) {
	if n := len(l.marks); l.state == stateOrdered || n > 0 && now.Sub(l.marks[n-1].at) < markEvery {
		return
	}
	l.marks = append(l.marks, mark{last - 1, now}) // others may have the same place
}

// hold keeps the messages of a key back for a while; if too many are held back, all of the lane wait.
func (l *lane) hold(key string, until time.Time) {
	if l.held == nil {
		l.held = make(map[string]time.Time)
	}
	if len(l.held) < maxHeld {
		l.held[key] = until
		return
	}
	if l.notTill.Before(until) {
		l.notTill = until
	}
}

// holds are the keys that are held back now.
func (l *lane) holds(now time.Time) []string {
	keys := make([]string, 0, len(l.held))
	for key, until := range l.held {
		if now.Before(until) {
			keys = append(keys, key)
		} else {
			delete(l.held, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// inOrder sorts rows as they are in the lane.
func (l *lane) inOrder(rows []row) {
	slices.SortFunc(rows, func(a, b row) int {
		return cmp.Or(cmp.Compare(l.place(&a), l.place(&b)), cmp.Compare(a.id, b.id))
	})
}
