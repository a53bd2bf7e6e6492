package triage

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/rehop/rehop/dialect"
)

// keepLine stores a message that is taken out of its failed queue, as a line of an export.
func (w *writer) keepLine(ctx context.Context, i *item, line []byte) error {
	otherwise := " ON CONFLICT (lineage, ordinal) DO UPDATE SET line = excluded.line"
	if w.store.sql.Dialect == dialect.MySQL {
		otherwise = " ON DUPLICATE KEY UPDATE line = VALUES(line)"
	}
	return w.insertOr(ctx, w.store.table("kept"), "lineage, ordinal, line", "(?, ?, ?)", otherwise, [][]any{{i.lineage[:], i.ordinal, line}})
}

// keptLine is a message that can be returned to its failed queue.
type keptLine struct {
	item *item
	line []byte
}

// keptLines reads some of the messages of a run that are in the store and are to be returned to their failed queue.
func (s *Store) keptLines(ctx context.Context, run runRow, from []State, most int) ([]keptLine, error) {
	args := []any{run.number, int(planned), int(sending)}
	for _, state := range from {
		args = append(args, state.number())
	}
	fields := "i.lineage, i.ordinal, i.queue_number, i.state, i.attempts, i.replays, i.failure, i.digest, i.sent_id"
	query := "SELECT " + fields + ", k.line FROM " + s.table("run_item") + " i JOIN " + s.table("message") + " m ON m.lineage = i.lineage AND m.ordinal = i.ordinal" +
		" JOIN " + s.table("kept") + " k ON k.lineage = i.lineage AND k.ordinal = i.ordinal" +
		" WHERE i.run_number = ? AND i.state IN (?, ?) AND m.state IN (" + marks(len(from)) + ") ORDER BY m.id LIMIT ?"
	lines, err := readAll(ctx, s.db, s.sql.Bind(query), append(args, most), func(rows *sql.Rows) (k keptLine, err error) {
		var i item
		var key, id []byte
		var at int64
		err = rows.Scan(&key, &i.ordinal, &i.queue, &i.state, &i.failure.attempts, &i.failure.replays, &at, &i.failure.digest, &id, &k.line)
		copy(i.lineage[:], key)
		i.failure.at, i.sentID = at/1000, string(id)
		k.item = &i
		return k, err
	})
	if err != nil {
		return nil, fmt.Errorf("read messages of run %s in the store: %w", run.ID, err)
	}
	return lines, nil
}

// Kept returns a message that was discarded or kept as a line of an export, which admin.Import reads.
func (s *Store) Kept(ctx context.Context, ref string) ([]byte, error) {
	l, ordinal, err := parseRef(ref)
	if err != nil {
		return nil, fmt.Errorf("triage: %w: %w", ErrNotFound, err)
	}
	found, err := readAll(ctx, s.db, s.sql.Bind("SELECT line FROM "+s.table("kept")+" WHERE lineage = ? AND ordinal = ?"), []any{l[:], ordinal}, func(rows *sql.Rows) (line []byte, err error) {
		return line, rows.Scan(&line)
	})
	switch {
	case err != nil:
		return nil, fmt.Errorf("triage: message %s: %w", ref, err)
	case len(found) == 0:
		return nil, fmt.Errorf("triage: message %s: %w", ref, ErrNotFound)
	}
	return found[0], nil
}

// markSending records that messages are about to be returned to their failed queues.
func (s *Store) markSending(ctx context.Context, run runRow, some []keptLine) error {
	return s.write(ctx, func(w *writer) error {
		counts := make(itemCounts)
		for _, one := range some {
			i := *one.item // the transaction may be repeated
			if err := w.setItem(ctx, counts, run.number, &i, sending, ""); err != nil {
				return err
			}
		}
		return counts.flush(ctx, w)
	})
}

// unkeep records that messages have left the store, or changes what they are in it for. A discarded one stays there so that it can be restored.
func (s *Store) unkeep(ctx context.Context, run runRow, some []keptLine, to itemState, state State) error {
	return s.write(ctx, func(w *writer) error {
		counts, items := make(itemCounts), make([]*item, len(some))
		for n, one := range some {
			i := *one.item
			if run.Action != ActionDiscard {
				i.state = sending
			}
			items[n] = &i
			if err := w.setItem(ctx, counts, run.number, &i, to, ""); err != nil {
				return err
			}
			if state == Discarded {
				continue
			}
			if _, err := w.ExecContext(ctx, s.sql.Bind("DELETE FROM "+s.table("kept")+" WHERE lineage = ? AND ordinal = ?"), i.lineage[:], i.ordinal); err != nil {
				return err
			}
		}
		if err := w.moveMessages(ctx, run, items, []State{Kept, Discarded}, state); err != nil {
			return err
		}
		return counts.flush(ctx, w)
	})
}

// haveLines returns an error if the store does not have the contents of a message.
func (w *writer) haveLines(ctx context.Context, rows []*row) error {
	for _, r := range rows {
		var n int
		if err := w.QueryRowContext(ctx, w.store.sql.Bind("SELECT COUNT(*) FROM "+w.store.table("kept")+" WHERE lineage = ? AND ordinal = ?"), r.lineage[:], r.ordinal).Scan(&n); err != nil {
			return err
		}
		if n == 0 {
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
