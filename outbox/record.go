package outbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/rehop/rehop/internal/sqltext"
)

// record writes the outcomes of some rows to the table. It tries until it succeeds or the term is over. Outcomes whose rows are locked are
// left for later, and so are published messages that could not be deleted in time.
func (b *batch) record(ctx context.Context, some []int) bool {
	changes := b.changes(some)
	recorded := true
	for tries := 1; len(changes) > 0; {
		if changes[0][0].kind.verdict != published && b.term.over() { // the term ended while another change was written
			changes, recorded = changes[1:], false
			continue
		}
		rest, err := b.relay.write(ctx, changes[0])
		if err == nil {
			b.relay.faults.resolve("record outcomes")
			b.undone = append(b.undone, rest...)
			b.relay.owed.end(changes[0], rest)
			changes = changes[1:]
			continue
		}
		b.relay.faults.report("record outcomes", err)
		within, done := b.term.within(ctx, databaseBackoff.Delay(tries))
		<-within.Done()
		done()
		if b.term.over() || ctx.Err() != nil {
			b.relay.owed.leave(changes)
			return false
		}
		tries++
	}
	return recorded
}

// alike is what rows that one statement changes have in common.
type alike struct {
	verdict  verdict
	ordered  bool
	attempts int
	wait     time.Duration
	err      string
}

// undone is an outcome that is still to be written to a row.
type undone struct {
	row      sqltext.Row
	orderKey string
	kind     alike
	kept     bool // the row stays
}

// change is a list of outcomes of one kind. It can be written twice.
type change []undone

func (c change) rows() []sqltext.Row {
	ids := make([]sqltext.Row, len(c))
	for i, u := range c {
		ids[i] = u.row
	}
	return ids
}

// changes returns the outcomes of some rows, by kind.
func (b *batch) changes(some []int) []change {
	var outcomes []undone
	for _, i := range some {
		f, r := b.fates[i], &b.rows[i]
		kind := alike{verdict: f.verdict}
		switch f.verdict {
		case left, vanished:
			continue
		case retry, aside:
			if b.term.over() {
				continue // another relay decides about it now
			}
			kind = alike{f.verdict, r.orderKey != "", r.attempts + 1, f.wait, errorText(f.err)}
			if f.untried {
				kind.attempts = r.attempts
			}
		}
		outcomes = append(outcomes, undone{r.identity(), r.orderKey, kind, b.relay.Keep > 0})
	}
	return byKind(outcomes)
}

func byKind(outcomes []undone) []change {
	groups := make(map[alike]change)
	for _, u := range outcomes {
		groups[u.kind] = append(groups[u.kind], u)
	}
	return slices.Collect(maps.Values(groups))
}

// notKept are the states of a row whose message is confirmed but not yet recorded as published. Another relay may have set it aside in the
// meantime, because it tried too and got no confirm.
const notKept = "(0, 1, 2, 3)"

// statement returns the statement that writes outcomes of a kind.
func (r *run) statement(kind alike, rows []sqltext.Row) (query string, args []any) {
	if set, values, states := r.assign(kind); set != "" {
		return r.sql.UpdateRows(rows, set, values, "state IN "+states)
	}
	return r.sql.DeleteRows(rows, "state IN "+notKept)
}

// lockWait is how long a relay waits for rows that are locked, for example by Cancel, before it continues without them.
const lockWait = time.Second

// write writes outcomes. rest are those whose rows are locked.
func (r *run) write(ctx context.Context, c change) (rest []undone, err error) {
	query, args := r.statement(c[0].kind, c.rows())
	once, done := r.recordContext(ctx)
	defer done()
	if !r.sql.HasRowLocks() {
		_, err = r.exec(once, query, args...)
		return nil, err
	}
	if locked, err := r.writeAll(once, query, args); !locked {
		return nil, err
	}
	return r.writeFree(ctx, c)
}

// writeAll runs a statement that changes rows. locked: it failed because it had to wait for other transactions, or because the database is
// slow.
func (r *run) writeAll(ctx context.Context, query string, args []any) (locked bool, err error) {
	wait := min(lockWait, r.Lease/2)
	limit, steady := wait, r.sql.SteadyFor(wait)
	if steady != "" { // the server limits the wait: a statement that is canceled could keep its own locks for a while
		limit += r.dbTimeout().begin()
	}
	once, done := context.WithTimeout(ctx, limit)
	defer done()
	write := func(db session) error {
		_, err := execOn(once, db, query, args)
		return err
	}
	if steady == "" {
		err = write(r.DB)
	} else {
		err = within(once, r.DB, r.sql, sql.LevelReadCommitted, steady, write)
	}
	return err != nil && (once.Err() != nil || r.sql.IsLocked(err)), err
}

// writeFree writes outcomes to rows that are not locked. rest are the others.
func (r *run) writeFree(ctx context.Context, c change) (rest []undone, err error) {
	once, done := r.recordContext(ctx)
	defer done()
	err = within(once, r.DB, r.sql, r.level, r.sql.Steady(), func(tx session) error {
		query, args := r.sql.LockFree(c.rows())
		if query == "" { // the database locks no rows
			query, args = r.there(c.rows())
		}
		free, err := readRowIDs(once, tx, query, args...)
		if err != nil {
			return err
		}
		if len(free) > 0 {
			query, args := r.statement(c[0].kind, free)
			if _, err := tx.ExecContext(once, query, args...); err != nil {
				return err
			}
		}
		query, args = r.there(c.rows())
		there, err := readRowIDs(once, tx, query, args...)
		for _, u := range c {
			if slices.Contains(there, u.row) && !slices.Contains(free, u.row) {
				rest = append(rest, u)
			}
		}
		return err
	})
	return rest, err
}

// there is a query for those of some rows that exist.
func (r *run) there(rows []sqltext.Row) (query string, args []any) {
	return r.sql.SelectRows("line.id, line.nonce", rows)
}

// finishOff tries once more to write outcomes. rest are those that it could not write.
func (r *run) finishOff(ctx context.Context, outcomes []undone) (rest []undone) {
	for _, c := range byKind(outcomes) {
		locked, err := r.writeFree(ctx, c)
		if err != nil {
			r.faults.report("record outcomes", err)
			locked = c
		}
		r.owed.end(c, locked)
		rest = append(rest, locked...)
	}
	return rest
}

// assign returns how rows change, and in which states. It returns nothing for rows that are to be deleted.
func (r *run) assign(kind alike) (set string, values []any, states string) {
	later := func(d time.Duration) string {
		return fmt.Sprintf("%s + %d", r.Dialect.Now(), d.Microseconds())
	}
	switch {
	case kind.verdict == aside:
		return "state = 3, due = 0, attempts = ?, error = ?", []any{kind.attempts, kind.err}, "(0, 1, 2)"
	case kind.verdict == retry && kind.ordered: // it keeps its state, so that no relay publishes the next message of its key
		return "due = " + later(kind.wait) + ", attempts = ?, error = ?", []any{kind.attempts, kind.err}, "(1)"
	case kind.verdict == retry:
		return "state = 2, due = " + later(kind.wait) + ", attempts = ?, error = ?", []any{kind.attempts, kind.err}, "(0, 2)"
	case r.Keep > 0:
		return "state = 4, due = " + later(r.Keep), nil, notKept
	}
	return "", nil, ""
}

// maxError is how many bytes of an error are stored.
const maxError = 1000

// errorText is the reason without the message id, which is in the row.
func errorText(err error) string {
	if inner := errors.Unwrap(err); inner != nil {
		err = inner
	}
	text := strings.ReplaceAll(strings.ToValidUTF8(err.Error(), "�"), "\x00", "")
	for len(text) > maxError {
		_, size := utf8.DecodeLastRuneInString(text[:maxError])
		text = text[:maxError-size]
	}
	return text
}
