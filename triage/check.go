package triage

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/rehop/rehop/dialect"
)

// ErrInconsistent means that counters of the index disagree with what they count.
var ErrInconsistent = errors.New("the index is not consistent")

// Check counts everything again and compares it with the counters. It takes long on a large index, and other transactions cannot write
// meanwhile. It returns ErrInconsistent with all that is wrong; deleting the tables and rebuilding the index repairs it.
func (s *Store) Check(ctx context.Context) error {
	var faults []error
	err := s.write(ctx, func(w *writer) error {
		faults = nil
		for _, count := range []func(context.Context, *writer) ([]error, error){checkGroups, checkQueues, checkParts, checkRuns} {
			found, err := count(ctx, w)
			if err != nil {
				return err
			}
			faults = append(faults, found...)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("triage: check: %w", err)
	}
	if len(faults) > 0 {
		return fmt.Errorf("triage: %w: %w", ErrInconsistent, errors.Join(faults...))
	}
	return nil
}

// checkGroups counts the messages of each group.
func checkGroups(ctx context.Context, w *writer) (faults []error, err error) {
	type counted struct {
		group int64
		state int
		n     int64
	}
	rows, err := readAll(ctx, w, "SELECT group_number, state, COUNT(*) FROM "+w.store.table("message")+" GROUP BY group_number, state", nil,
		func(rows *sql.Rows) (c counted, err error) { return c, rows.Scan(&c.group, &c.state, &c.n) })
	if err != nil {
		return nil, err
	}
	want := make(map[int64]*[len(states)]int64)
	for _, c := range rows {
		if want[c.group] == nil {
			want[c.group] = new([len(states)]int64)
		}
		want[c.group][c.state] = c.n
	}
	groups, err := readAll(ctx, w, "SELECT "+groupColumns+" FROM "+w.store.table("group"), nil, scanGroup)
	if err != nil {
		return nil, err
	}
	for _, g := range groups {
		counts := want[g.number]
		if counts == nil {
			counts = new([len(states)]int64)
		}
		delete(want, g.number)
		for n, state := range states {
			if got := int64(g.Counts.Of(state)); got != counts[n] {
				faults = append(faults, fmt.Errorf("group %s: it counts %d messages in state %s, and has %d", g.ID, got, state, counts[n]))
			}
		}
		var total int64
		if err := w.QueryRowContext(ctx, w.store.sql.Bind("SELECT total FROM "+w.store.table("group")+" WHERE number = ?"), g.number).Scan(&total); err != nil {
			return nil, err
		}
		if total != int64(g.Counts.Total()) {
			faults = append(faults, fmt.Errorf("group %s: its total is %d, and its counts are %+v", g.ID, total, g.Counts))
		}
	}
	for number := range want {
		faults = append(faults, fmt.Errorf("group number %d has messages and does not exist", number))
	}
	return faults, nil
}

// checkQueues counts the failed messages of each failed queue.
func checkQueues(ctx context.Context, w *writer) (faults []error, err error) {
	query := "SELECT q.name, q.failed, (SELECT COUNT(*) FROM " + w.store.table("message") + " m WHERE m.queue_number = q.number AND m.state = ?) FROM " + w.store.table("queue") + " q"
	_, err = readAll(ctx, w, w.store.sql.Bind(query), []any{Failed.number()}, func(rows *sql.Rows) (struct{}, error) {
		var name []byte
		var got, want int64
		err := rows.Scan(&name, &got, &want)
		if got != want {
			faults = append(faults, fmt.Errorf("queue %q: it counts %d failed messages, and has %d", name, got, want))
		}
		return struct{}{}, err
	})
	return faults, err
}

// checkParts finds messages without contents or terms, and the reverse.
func checkParts(ctx context.Context, w *writer) (faults []error, err error) {
	message := w.store.table("message")
	for _, part := range []struct{ name, key string }{{"content", "id"}, {"terms", w.store.termsKey()}} {
		table := w.store.table(part.name)
		for what, query := range map[string]string{
			"messages without " + part.name:      "SELECT COUNT(*) FROM " + message + " WHERE id NOT IN (SELECT " + part.key + " FROM " + table + ")",
			"rows of " + part.name + " too many": "SELECT COUNT(*) FROM " + table + " WHERE " + part.key + " NOT IN (SELECT id FROM " + message + ")",
		} {
			var n int64
			if err := w.QueryRowContext(ctx, query).Scan(&n); err != nil {
				return nil, err
			}
			if n != 0 {
				faults = append(faults, fmt.Errorf("there are %d %s", n, what))
			}
		}
	}
	if w.store.sql.Dialect == dialect.MySQL {
		var got, want int64
		query := "SELECT (SELECT COUNT(*) FROM " + w.store.table("posting") + "), (SELECT COALESCE(SUM(LENGTH(terms) DIV 8), 0) FROM " + w.store.table("terms") + ")"
		if err := w.QueryRowContext(ctx, query).Scan(&got, &want); err != nil {
			return nil, err
		}
		if got != want {
			faults = append(faults, fmt.Errorf("there are %d pairs of a term and a message, and messages have %d terms", got, want))
		}
	}
	return faults, nil
}

// checkRuns counts the messages of each run, and finds kept messages that the store does not have.
func checkRuns(ctx context.Context, w *writer) (faults []error, err error) {
	runs, err := readAll(ctx, w, "SELECT "+runColumns+" FROM "+w.store.table("run"), nil, scanRun)
	if err != nil {
		return nil, err
	}
	for _, r := range runs {
		var want [len(itemColumns)]int
		_, err := readAll(ctx, w, w.store.sql.Bind("SELECT state, COUNT(*) FROM "+w.store.table("run_item")+" WHERE run_number = ? GROUP BY state"), []any{r.number}, func(rows *sql.Rows) (struct{}, error) {
			var state, n int
			err := rows.Scan(&state, &n)
			want[state] = n
			return struct{}{}, err
		})
		if err != nil {
			return nil, err
		}
		c := r.Counts
		if got := [len(itemColumns)]int{c.Planned, c.Sending, c.Sent, c.Succeeded, c.Failed, c.Gone, c.Refused}; got != want {
			faults = append(faults, fmt.Errorf("run %s: it counts %v messages in its states, and has %v", r.ID, got, want))
		}
	}
	var lost int
	query := "SELECT COUNT(*) FROM " + w.store.table("message") + " m WHERE m.state = ? AND NOT EXISTS (SELECT 1 FROM " + w.store.table("kept") + " k WHERE k.lineage = m.lineage AND k.ordinal = m.ordinal)"
	if err := w.QueryRowContext(ctx, w.store.sql.Bind(query), Kept.number()).Scan(&lost); err != nil {
		return nil, err
	}
	if lost > 0 {
		faults = append(faults, fmt.Errorf("there are %d kept messages without their contents", lost))
	}
	return faults, nil
}
