package triage

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// Cleaned is what Clean deleted.
type Cleaned struct {
	Messages int
	Groups   int
	Runs     int
}

// cleanSome is how many messages are deleted in one transaction, so that others do not wait for long.
const cleanSome = 500

// clockSlack is how much the clock of a host that reports failures may be ahead of the database's, in milliseconds.
const clockSlack = 24 * 3600 * 1000

// clockTick is how much a turn can be ahead of the database's clock, which has milliseconds in SQLite, if that is never set back. In microseconds.
const clockTick = 1000

// Clean deletes messages that are Replayed, Succeeded, Discarded or Gone since longer than keep, in small transactions, except those that an unfinished
// run has still to take: a restore needs their contents. Then it deletes groups without messages in which nothing has happened for that time,
// hours of the history that are older, and runs that have ended. It does not delete the audit.
func (s *Store) Clean(ctx context.Context, keep time.Duration) (Cleaned, error) {
	var done Cleaned
	if keep < 0 {
		return done, fmt.Errorf("triage: clean: %v must not be negative", keep)
	}
	for _, state := range states {
		if !state.isOver() {
			continue
		}
		n, err := s.cleanMessages(ctx, state, keep.Microseconds())
		if done.Messages += n; err != nil {
			return done, fmt.Errorf("triage: clean: %w", err)
		}
	}
	var err error
	if done.Groups, err = s.cleanGroups(ctx, keep.Microseconds()); err != nil {
		return done, fmt.Errorf("triage: clean: %w", err)
	}
	if done.Runs, err = s.cleanRuns(ctx, keep.Microseconds()); err != nil {
		return done, fmt.Errorf("triage: clean: %w", err)
	}
	return done, nil
}

// cleanRuns deletes runs that have ended, each with its items, in small transactions.
func (s *Store) cleanRuns(ctx context.Context, keep int64) (deleted int, err error) {
	var ended []int64
	err = s.write(ctx, func(w *writer) error {
		query := "SELECT number FROM " + s.table("run") + " WHERE state IN (?, ?) AND changed <= ? ORDER BY number"
		ended, err = readAll(ctx, w, s.sql.Bind(query), []any{slices.Index(runStates[:], Stopped), slices.Index(runStates[:], Done), w.now - keep}, scanNumber)
		return err
	})
	for _, run := range ended {
		for more := true; more && err == nil; {
			err = s.write(ctx, func(w *writer) error {
				more, err = w.removeItems(ctx, run)
				return err
			})
		}
		if err != nil {
			return deleted, err
		}
		deleted++
	}
	return deleted, err
}

// removeItems deletes some items of a run, and the run if there are no more.
func (w *writer) removeItems(ctx context.Context, run int64) (more bool, err error) {
	some, err := readAll(ctx, w, w.store.sql.Bind("SELECT "+itemFields+" FROM "+w.store.table("run_item")+" WHERE run_number = ? ORDER BY lineage, ordinal LIMIT ?"), []any{run, finishSome}, scanOneItem)
	if err != nil {
		return false, err
	}
	if len(some) == 0 {
		_, err = w.ExecContext(ctx, w.store.sql.Bind("DELETE FROM "+w.store.table("run")+" WHERE number = ?"), run)
		return false, err
	}
	_, err = w.ExecContext(ctx, w.store.sql.Bind("DELETE FROM "+w.store.table("run_item")+" WHERE run_number = ? AND lineage <= ?"), run, some[len(some)-1].lineage[:])
	return true, err
}

func (s *Store) cleanMessages(ctx context.Context, state State, keep int64) (deleted int, err error) {
	query := s.sql.Bind("SELECT " + rowColumns + " FROM " + s.table("message") + " WHERE state = ? AND id > ? AND id < ? AND changed <= ? ORDER BY id LIMIT ?")
	for last := int64(0); ; {
		var rows []*row
		removed := 0
		err := s.write(ctx, func(w *writer) error {
			oldest := w.now + clockTick - keep
			// What failed later than that has also changed later, but clocks differ.
			rows, err = readAll(ctx, w, query, []any{state.number(), last, firstNumber(max(oldest/1000+clockSlack, 0)), oldest, cleanSome}, scanRow)
			if err != nil {
				return err
			}
			c := newCounters()
			if state == Gone { // the only contents of a message are not deleted because nobody knew where it was
				if err := w.leaveQueue(ctx, c, rows); err != nil {
					return err
				}
			}
			awaited, err := w.awaited(ctx, rows)
			if err != nil {
				return err
			}
			var old []*row
			var ids []int64
			for _, r := range rows {
				if states[r.state] == state && !awaited[r] {
					old, ids = append(old, r), append(ids, r.id)
					c.count(r.group, r.queue, r.state, -1)
				}
			}
			if err := w.remove(ctx, ids); err != nil {
				return err
			}
			if err := w.removeLines(ctx, old); err != nil {
				return err
			}
			removed = len(old)
			return c.flush(ctx, w)
		})
		if err != nil {
			return deleted, err
		}
		if deleted += removed; len(rows) < cleanSome {
			return deleted, nil
		}
		last = rows[len(rows)-1].id
	}
}

// awaited are the rows of messages that an unfinished run has still to take, or is taking. What the store has of them may be all that there is.
func (w *writer) awaited(ctx context.Context, rows []*row) (map[*row]bool, error) {
	s := w.store
	runs, err := readAll(ctx, w, s.sql.Bind("SELECT number FROM "+s.table("run")+" WHERE state IN (?, ?) OR sending > 0"), unfinished(), scanNumber)
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	lineages := make([]lineage, len(rows))
	for i, r := range rows {
		lineages[i] = r.lineage
	}
	found := make(map[*row]bool)
	for _, run := range runs {
		items, err := s.items(ctx, w, run, lineages)
		if err != nil {
			return nil, err
		}
		for _, r := range rows {
			if slices.ContainsFunc(items[r.lineage], func(i *item) bool { return i.ordinal == r.ordinal && (i.state == planned || i.state == sending) }) {
				found[r] = true
			}
		}
	}
	return found, nil
}

func (s *Store) cleanGroups(ctx context.Context, keep int64) (deleted int, err error) {
	err = s.write(ctx, func(w *writer) error {
		oldest := w.now - keep
		numbers, err := readAll(ctx, w, s.sql.Bind("SELECT number FROM "+s.table("group")+" WHERE total = 0 AND last_seen <= ? AND decided <= ?"), []any{oldest, oldest}, scanNumber)
		if err != nil {
			return err
		}
		deleted = len(numbers)
		if err := w.deleteRows(ctx, "group", "number", numbers); err != nil {
			return err
		}
		if err := w.deleteRows(ctx, "hour", "group_number", numbers); err != nil {
			return err
		}
		_, err = w.ExecContext(ctx, s.sql.Bind("DELETE FROM "+s.table("hour")+" WHERE hour <= ?"), oldest-hourMicros)
		return err
	})
	return deleted, err
}
