package triage

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rehop/rehop/dialect"
)

// The table of kept messages has the contents of messages that are taken out of their failed queue. Contents are stored before the message is removed from
// the queue, and deleted after it is back in it, so that every message is in one of them. While both have it, its state is Failed.

// keepLine stores a message that is to be taken out of its failed queue, as a line of an export. state is the one that it has then.
func (w *writer) keepLine(ctx context.Context, i *item, line []byte, state State) error {
	otherwise := " ON CONFLICT (lineage, ordinal) DO UPDATE SET state = excluded.state, run = excluded.run, line = excluded.line"
	if w.store.sql.Dialect == dialect.MySQL {
		otherwise = " ON DUPLICATE KEY UPDATE state = VALUES(state), run = VALUES(run), line = VALUES(line)"
	}
	return w.insertOr(ctx, w.store.table("kept"), "lineage, ordinal, state, run, line", "(?, ?, ?, ?, ?)", otherwise, [][]any{{i.lineage[:], i.ordinal, state.number(), 0, line}})
}

// keptLine is a message that can be returned to its failed queue.
type keptLine struct {
	item *item
	line []byte
}

// Bounds of what is taken out of the store together. After a kill these messages can be twice in their failed queue.
const (
	linesSome  = 256
	linesBytes = 8 << 20
)

// errOthersReturn: another run is returning the messages.
var errOthersReturn = errors.New("another run is returning the rest of its messages, and is not finished: continue or stop that one")

// takeLines reads some of the messages of a run that are in the store, of items in some states, and records that they are being returned to their failed
// queues. No other run takes them until they are.
func (s *Store) takeLines(ctx context.Context, allowed guard, run runRow, from []itemState, most int) (lines []keptLine, err error) {
	err = s.write(ctx, func(w *writer) error {
		lines = nil
		if err := allowed(ctx, w); err != nil {
			return err
		}
		if now, err := s.run(ctx, w, run.ID); err != nil || now.State != Running {
			return errors.Join(err, errHalted)
		}
		items, err := w.itemsInStore(ctx, run, run.Action.fromStore(), from, most)
		if err != nil {
			return err
		}
		counts := make(itemCounts)
		for _, i := range items {
			if _, err := w.ExecContext(ctx, s.sql.Bind("UPDATE "+s.table("kept")+" SET run = ? WHERE lineage = ? AND ordinal = ?"), run.number, i.lineage[:], i.ordinal); err != nil {
				return err
			}
			if i.state == planned {
				if err := w.setItem(ctx, counts, run.number, i, sending, ""); err != nil {
					return err
				}
			}
			line, err := s.line(ctx, w, i.lineage, i.ordinal)
			if err != nil {
				return err
			}
			lines = append(lines, keptLine{i, line})
		}
		return counts.flush(ctx, w)
	})
	if err != nil {
		return nil, fmt.Errorf("take messages of run %s out of the store: %w", run.ID, err)
	}
	return lines, nil
}

// itemsInStore are items of a run whose messages are in the store, the first few. It returns errOthersReturn if there are only such that another run is
// returning.
func (w *writer) itemsInStore(ctx context.Context, run runRow, from []State, in []itemState, most int) (items []*item, err error) {
	args := []any{run.number}
	for _, state := range in {
		args = append(args, int(state))
	}
	for _, state := range from {
		args = append(args, state.number())
	}
	s := w.store
	tables := s.table("run_item") + " i JOIN " + s.table("message") + " m ON m.lineage = i.lineage AND m.ordinal = i.ordinal JOIN " + s.table("kept") + " k ON k.lineage = i.lineage AND k.ordinal = i.ordinal"
	where := "i.run_number = ? AND i.state IN (" + marks(len(in)) + ") AND m.state IN (" + marks(len(from)) + ")"
	// A run holds messages until it has ended and nothing of it is being sent.
	free := "(k.run = 0 OR k.run = ? OR NOT EXISTS (SELECT 1 FROM " + s.table("run") + " o WHERE o.number = k.run AND (o.state IN (?, ?) OR o.sending > 0)))"
	holding := append([]any{run.number}, unfinished()...)
	query := "SELECT i." + strings.ReplaceAll(itemFields, ", ", ", i.") + ", LENGTH(k.line) FROM " + tables + " WHERE " + where + " AND " + free + " ORDER BY m.id LIMIT ?"
	sizes := make(map[*item]int)
	items, err = readAll(ctx, w, s.sql.Bind(query), append(append(slices.Clone(args), holding...), most), func(rows *sql.Rows) (*item, error) {
		var size int
		i, err := scanItem(rows, &size)
		sizes[i] = size
		return i, err
	})
	if err != nil {
		return nil, err
	}
	if len(items) == 0 {
		var others int
		if err := w.QueryRowContext(ctx, s.sql.Bind("SELECT COUNT(*) FROM "+tables+" WHERE "+where), args...).Scan(&others); err != nil {
			return nil, err
		}
		if others > 0 {
			return nil, errOthersReturn
		}
	}
	size := 0
	for n, i := range items {
		if size += sizes[i]; size > linesBytes && n > 0 {
			return items[:n], nil
		}
	}
	return items, nil
}

// unfinished are the states of runs that have still something to do, for a statement.
func unfinished() []any {
	return []any{slices.Index(runStates[:], Running), slices.Index(runStates[:], Paused)}
}

// line reads the contents of a message.
func (s *Store) line(ctx context.Context, db querier, l lineage, ordinal int) ([]byte, error) {
	found, err := readAll(ctx, db, s.sql.Bind("SELECT line FROM "+s.table("kept")+" WHERE lineage = ? AND ordinal = ?"), []any{l[:], ordinal}, func(rows *sql.Rows) (line []byte, err error) {
		return line, rows.Scan(&line)
	})
	if err == nil && len(found) == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("message %s: %w", l.ref(ordinal), err)
	}
	return found[0], nil
}

// Kept returns a message that was discarded or kept as a line of an export, which admin.Import reads.
func (s *Store) Kept(ctx context.Context, ref string) ([]byte, error) {
	l, ordinal, err := parseRef(ref)
	if err != nil {
		return nil, fmt.Errorf("triage: %w: %w", ErrNotFound, err)
	}
	line, err := s.line(ctx, s.db, l, ordinal)
	if err != nil {
		return nil, fmt.Errorf("triage: %w", err)
	}
	return line, nil
}

// returned records that messages are back in their failed queues. It does so even if another process works on the run now, so that that one does not
// return them as well.
func (s *Store) returned(ctx context.Context, run runRow, some []keptLine, to itemState) error {
	return s.leaveStore(ctx, run, some, to, Failed, "DELETE FROM "+s.table("kept")+" WHERE lineage = ? AND ordinal = ?")
}

// discardKept records that messages in the store are discarded. They stay there, so that they can be restored.
func (s *Store) discardKept(ctx context.Context, run runRow, some []keptLine) error {
	return s.leaveStore(ctx, run, some, sent, Discarded, fmt.Sprintf("UPDATE %s SET state = %d, run = 0 WHERE lineage = ? AND ordinal = ?", s.table("kept"), Discarded.number()))
}

// leaveStore changes the states of messages that were taken out of the store. Items that are not being sent any more are left alone: another process has
// decided about them.
func (s *Store) leaveStore(ctx context.Context, run runRow, some []keptLine, to itemState, state State, change string) error {
	return s.write(ctx, func(w *writer) error {
		counts, items := make(itemCounts), make([]*item, 0, len(some))
		for _, one := range some {
			i, err := w.itemOf(ctx, run.number, one.item)
			if err != nil {
				return err
			}
			if i == nil || i.state != sending {
				continue
			}
			items = append(items, i)
			if err := w.setItem(ctx, counts, run.number, i, to, ""); err != nil {
				return err
			}
			if _, err := w.ExecContext(ctx, s.sql.Bind(change), i.lineage[:], i.ordinal); err != nil {
				return err
			}
		}
		if err := w.moveMessages(ctx, run, items, []State{Kept, Discarded}, state); err != nil {
			return err
		}
		return counts.flush(ctx, w)
	})
}

// itemOf reads an item again.
func (w *writer) itemOf(ctx context.Context, run int64, i *item) (*item, error) {
	found, err := readAll(ctx, w, w.store.sql.Bind("SELECT "+itemFields+" FROM "+w.store.table("run_item")+" WHERE run_number = ? AND lineage = ? AND ordinal = ?"), []any{run, i.lineage[:], i.ordinal}, scanOneItem)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return found[0], nil
}

// fromStore are the states of messages that an action takes out of the store.
func (a Action) fromStore() []State {
	switch a {
	case ActionRestore:
		return a.from()
	case ActionReplay, ActionDiscard:
		return []State{Kept}
	}
	return nil
}

// stayInStore records that messages that were being taken out of the store stay there, because the run was stopped.
func (s *Store) stayInStore(ctx context.Context, run runRow) error {
	from := run.Action.fromStore()
	for len(from) > 0 {
		var some []*item
		err := s.write(ctx, func(w *writer) (err error) {
			if some, err = w.itemsInStore(ctx, run, from, []itemState{sending}, finishSome); err != nil {
				return err
			}
			counts := make(itemCounts)
			for _, i := range some {
				if err := w.setItem(ctx, counts, run.number, i, planned, ""); err != nil {
					return err
				}
				if err := w.releaseLine(ctx, run, i); err != nil {
					return err
				}
			}
			return counts.flush(ctx, w)
		})
		if err != nil || len(some) == 0 {
			return err
		}
	}
	return nil
}

// releaseLine lets other runs take a message out of the store.
func (w *writer) releaseLine(ctx context.Context, run runRow, i *item) error {
	_, err := w.ExecContext(ctx, w.store.sql.Bind("UPDATE "+w.store.table("kept")+" SET run = 0 WHERE lineage = ? AND ordinal = ? AND run = ?"), i.lineage[:], i.ordinal, run.number)
	return err
}

// forgetLine deletes the contents of a message that is in its failed queue, and was not taken out of it.
func (w *writer) forgetLine(ctx context.Context, i *item) error {
	s := w.store
	_, err := w.ExecContext(ctx, s.sql.Bind("DELETE FROM "+s.table("kept")+" WHERE lineage = ? AND ordinal = ? AND EXISTS (SELECT 1 FROM "+s.table("message")+" m WHERE m.lineage = ? AND m.ordinal = ? AND m.state = ?)"),
		i.lineage[:], i.ordinal, i.lineage[:], i.ordinal, Failed.number())
	return err
}

// linesOf are the rows whose contents are in the store, each with the state of the message when it is not in its failed queue.
func (w *writer) linesOf(ctx context.Context, rows []*row) (map[*row]State, error) {
	type line struct {
		lineage lineage
		ordinal int
	}
	byName := make(map[line]*row, len(rows))
	var lineages []lineage
	for _, r := range rows {
		byName[line{r.lineage, r.ordinal}] = r
		lineages = append(lineages, r.lineage)
	}
	found := make(map[*row]State)
	err := inChunks(lineages, func(some []lineage) error {
		args := make([]any, len(some))
		for i := range some {
			args[i] = some[i][:]
		}
		_, err := readAll(ctx, w, w.store.sql.Bind("SELECT lineage, ordinal, state FROM "+w.store.table("kept")+" WHERE lineage IN ("+marks(len(some))+")"), args, func(rows *sql.Rows) (l line, err error) {
			var key []byte
			var state int
			err = rows.Scan(&key, &l.ordinal, &state)
			copy(l.lineage[:], key)
			if r := byName[l]; r != nil && state >= 0 && state < len(states) {
				found[r] = states[state]
			}
			return l, err
		})
		return err
	})
	return found, err
}

// markLines marks the rows of messages that are in the store, and others with contents in it that are asked for.
func (w *writer) markLines(ctx context.Context, all map[lineage][]*row, others func(*row) bool) error {
	isStored := func(r *row) bool { return states[r.state] == Kept || states[r.state] == Discarded }
	var rows []*row
	for _, of := range all {
		for _, r := range of {
			if isStored(r) || others(r) {
				rows = append(rows, r)
			}
		}
	}
	lines, err := w.linesOf(ctx, rows)
	for r := range lines {
		r.lined, r.stored = true, isStored(r)
	}
	return err
}

// dropCopies deletes what the store has of messages that a replay has taken out of their failed queue and sent: a run that was to keep or discard them has
// stored it, and was interrupted before it took them out. It would be taken for the message when that has failed again and left the queue.
//
// It may be all that there is of a message only if that run took one of several that are equal in every respect, and the replay another one. So nothing is
// deleted if there are several.
func (w *writer) dropCopies(ctx context.Context, items []*item) error {
	found, err := w.rowsOf(ctx, lineagesOf(items))
	if err != nil {
		return err
	}
	var rows []*row
	for _, i := range items {
		equal := slices.DeleteFunc(slices.Clone(found[i.lineage]), func(r *row) bool { return r.failure != i.failure })
		if len(equal) == 1 && equal[0].ordinal == i.ordinal {
			rows = append(rows, equal[0])
		}
	}
	return w.removeLines(ctx, rows)
}

// leaveToStore is for messages that a replay was sending, and that are not in their failed queue any more. Those with contents in the store are Kept or
// Discarded: nobody knows whether the replay has sent them, or the run that stored them has taken them out, and then the store has all that there is. It
// returns the items of the others.
func (w *writer) leaveToStore(ctx context.Context, items []*item) (others []*item, err error) {
	found, err := w.rowsOf(ctx, lineagesOf(items))
	if err != nil {
		return nil, err
	}
	of := make(map[string]*row)
	var rows []*row
	for _, i := range items {
		for _, r := range found[i.lineage] {
			if r.ordinal == i.ordinal && r.failure == i.failure {
				of[i.key()], rows = r, append(rows, r)
			}
		}
	}
	lines, err := w.linesOf(ctx, rows)
	if err != nil {
		return nil, err
	}
	var left []*row
	for _, i := range items {
		r := of[i.key()]
		if _, ok := lines[r]; !ok {
			others = append(others, i)
		} else if states[r.state] == Failed || states[r.state] == Gone {
			left = append(left, r)
		}
	}
	c := newCounters()
	if err := w.leaveQueue(ctx, c, left); err != nil {
		return nil, err
	}
	return others, c.flush(ctx, w)
}

// haveLines returns an error if the store does not have the contents of a message.
func (w *writer) haveLines(ctx context.Context, rows []*row) error {
	lines, err := w.linesOf(ctx, rows)
	if err != nil {
		return err
	}
	for _, r := range rows {
		if _, ok := lines[r]; !ok {
			return fmt.Errorf("message %s is not in the store: start a run with ActionKeep to keep it", r.lineage.ref(r.ordinal))
		}
	}
	return nil
}

// removeLines deletes what the store has of messages that are deleted from the index.
func (w *writer) removeLines(ctx context.Context, rows []*row) error {
	return inChunks(rows, func(some []*row) error {
		var args []any
		for _, r := range some {
			args = append(args, r.lineage[:], r.ordinal)
		}
		_, err := w.ExecContext(ctx, w.store.sql.Bind("DELETE FROM "+w.store.table("kept")+" WHERE "+strings.Repeat("lineage = ? AND ordinal = ? OR ", len(some)-1)+"lineage = ? AND ordinal = ?"), args...)
		return err
	})
}
