package triage

import (
	"context"
	"fmt"
)

// leftovers are the items of a failed queue that were being sent when a sweep of it began: a process was killed, or could not record what became of them. A message
// that is equal to one of them may be that message, which was not taken out of the queue, or another one. To take another one would lose it: the store has one place for
// each item. So a sweep only counts the equal messages, and the next one takes those that are certain. What is not certain counts as sent: at worst it is there twice.
type leftovers struct {
	items []*item
	found map[sighting]int // equal messages in the queue
}

// leftovers reads them.
func (s *Store) leftovers(ctx context.Context, run runRow, queue int64) (leftovers, error) {
	l := leftovers{found: make(map[sighting]int)}
	query := "SELECT " + itemFields + " FROM " + s.table("run_item") + " WHERE run_number = ? AND state = ? AND queue_number = ?"
	var err error
	l.items, err = readAll(ctx, s.db, s.sql.Bind(query), []any{run.number, int(sending), queue}, scanOneItem)
	if err != nil {
		return l, fmt.Errorf("read what run %s was sending: %w", run.ID, err)
	}
	for _, i := range l.items {
		l.found[i.sighting()] = 0
	}
	return l, nil
}

// see counts a message of the queue.
func (l leftovers) see(s sighting) {
	if n, ok := l.found[s]; ok {
		l.found[s] = n + 1
	}
}

// certain are the items whose messages are in the queue, after a complete sweep: it has found one message that is equal, and the index knows of no other one.
func (s *Store) certain(ctx context.Context, l leftovers) (map[string]*item, error) {
	once := make(map[string]*item)
	var some []*item
	for _, i := range l.items {
		if l.found[i.sighting()] == 1 {
			some = append(some, i)
		}
	}
	rows, err := s.rowsOf(ctx, s.db, lineagesOf(some))
	if err != nil {
		return nil, err
	}
	for _, i := range some {
		equal := 0
		for _, r := range rows[i.lineage] {
			if r.failure == i.failure {
				equal++
			}
		}
		if equal == 1 {
			once[i.key()] = i
		}
	}
	return once, nil
}

// unclaim records that messages which were being sent are in their failed queue.
func (s *Store) unclaim(ctx context.Context, run runRow, some map[string]*item) error {
	if len(some) == 0 {
		return nil
	}
	return s.write(ctx, func(w *writer) error {
		counts := make(itemCounts)
		for _, one := range some {
			i, err := w.itemOf(ctx, run.number, one)
			if err != nil {
				return err
			}
			if i == nil || i.state != sending {
				continue
			}
			if err := w.setItem(ctx, counts, run.number, i, planned, ""); err != nil {
				return err
			}
			if err := w.forgetLine(ctx, i); err != nil {
				return err
			}
		}
		return counts.flush(ctx, w)
	})
}
