package session

import (
	"sort"
	"time"

	"github.com/rehop/rehop/broker/internal/node"
	"github.com/rehop/rehop/broker/internal/queue"
)

// delivery is a message that was delivered and is unacked.
type delivery struct {
	tag      uint64
	item     queue.Item
	queue    *node.Queue
	consumer *consumer // nil: taken by basic.get
	since    time.Duration
	due      time.Duration // when it will have been unacked for too long; 0: never
	settled  bool
	released bool // it is back in its queue, and the client has not answered it yet
}

// unackedList has the deliveries of a channel by their tags.
type unackedList struct {
	entries []delivery // by tag; settled ones remain until they are many
	first   int        // the first that is not settled
	open    int
}

func (l *unackedList) add(d delivery) {
	l.entries = append(l.entries, d)
	l.open++
}

// find returns the index of a tag, or false if it is not unacked.
func (l *unackedList) find(tag uint64) (int, bool) {
	if l.first == len(l.entries) {
		return 0, false
	}
	// Mostly no tag is missing.
	at := l.first + int(tag-l.entries[l.first].tag)
	if tag < l.entries[l.first].tag {
		return 0, false
	}
	if at < l.first || at >= len(l.entries) || l.entries[at].tag != tag {
		rest := l.entries[l.first:]
		at = l.first + sort.Search(len(rest), func(i int) bool { return rest[i].tag >= tag })
		if at == len(l.entries) || l.entries[at].tag != tag {
			return 0, false
		}
	}
	return at, !l.entries[at].settled
}

// take removes a delivery, or with multiple all up to it (tag 0: all), and appends them to into in the order of their tags.
func (l *unackedList) take(tag uint64, multiple bool, into []delivery) ([]delivery, bool) {
	from, to := l.first, len(l.entries)
	if tag != 0 || !multiple {
		at, ok := l.find(tag)
		if !ok {
			return into, false
		}
		if to = at + 1; !multiple {
			from = at
		}
	}
	for i := from; i < to; i++ {
		if !l.entries[i].settled {
			into = append(into, l.entries[i])
			l.entries[i] = delivery{tag: l.entries[i].tag, settled: true}
			l.open--
		}
	}
	l.removeSettled()
	return into, true
}

// reassign moves the unacked deliveries of one consumer to another, and returns their number.
func (l *unackedList) reassign(from, to *consumer) (n int) {
	for i := l.first; i < len(l.entries); i++ {
		if d := &l.entries[i]; !d.settled && d.consumer == from {
			d.consumer = to
			n++
		}
	}
	return n
}

// removeSettled removes settled entries when they are at the front or many.
func (l *unackedList) removeSettled() {
	for l.first < len(l.entries) && l.entries[l.first].settled {
		l.first++
	}
	switch {
	case l.open == 0:
		l.entries, l.first = l.entries[:0], 0
	case len(l.entries) > 64 && len(l.entries) > 2*l.open:
		kept := l.entries[:0]
		for _, d := range l.entries[l.first:] {
			if !d.settled {
				kept = append(kept, d)
			}
		}
		clear(l.entries[len(kept):])
		l.entries, l.first = kept, 0
	}
}

// firstDue returns the unacked delivery that is due first.
func (l *unackedList) firstDue() (first delivery, held bool) {
	for _, d := range l.entries[l.first:] {
		if d.mayExpire() && (!held || d.due < first.due) {
			first, held = d, true
		}
	}
	return first, held
}

func (d *delivery) mayExpire() bool { return !d.settled && !d.released && d.due != 0 }

// release marks the deliveries that were unacked for too long, and returns them as they were before.
func (l *unackedList) release(now time.Duration) (taken []delivery) {
	for i := l.first; i < len(l.entries); i++ {
		if d := &l.entries[i]; d.mayExpire() && d.due <= now {
			taken = append(taken, *d)
			d.released, d.item = true, queue.Item{}
		}
	}
	return taken
}

// putBack restores deliveries that were taken, for a rollback.
func (l *unackedList) putBack(deliveries []delivery) {
	for _, d := range l.entries[l.first:] {
		if !d.settled {
			deliveries = append(deliveries, d)
		}
	}
	sortByTag(deliveries)
	l.entries, l.first, l.open = deliveries, 0, len(deliveries)
}
