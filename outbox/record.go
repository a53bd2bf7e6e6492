package outbox

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/rehop/rehop/internal/rabbit"
	"github.com/rehop/rehop/internal/sqltext"
)

// record writes what became of some rows into the database, and tries until it succeeds or the term is over.
func (b *batch) record(ctx context.Context, some []int) bool {
	changes := b.changes(some)
	for tries := 1; len(changes) > 0; {
		// Also when ctx has ended: what is confirmed and not deleted would be published once more.
		once, done := context.WithTimeout(context.WithoutCancel(ctx), b.relay.Lease)
		_, err := b.relay.exec(once, changes[0].query, changes[0].args...)
		done()
		if err == nil {
			b.relay.told.well("record outcomes")
			changes = changes[1:]
			continue
		}
		b.relay.told.fault("record outcomes", err)
		if b.term.over() || rabbit.Pause(ctx, databaseBackoff.Delay(tries)) != nil {
			return false
		}
		tries++
	}
	return true
}

// change is a statement. It can be repeated.
type change struct {
	query string
	args  []any
}

// alike is what rows have in common that are changed by one statement.
type alike struct {
	verdict  verdict
	ordered  bool
	attempts int
	wait     time.Duration
	err      string
}

func (b *batch) changes(some []int) []change {
	groups := make(map[alike][]int64)
	for _, i := range some {
		f, r := b.fates[i], &b.rows[i]
		kind := alike{verdict: f.verdict}
		switch f.verdict {
		case left, vanished:
			continue
		case postponed, aside:
			if b.term.over() {
				continue // it is another one's to judge now
			}
			kind = alike{f.verdict, r.orderKey != "", r.attempts + 1, f.wait, errorText(f.err)}
		}
		groups[kind] = append(groups[kind], r.id)
	}
	var all []change
	for kind, ids := range groups {
		query, args := sqltext.DeleteRows(b.relay.Dialect, "rehop_outbox", "id", ids, "state IN (0, 1, 2)")
		if set, values, states := b.assign(kind); set != "" {
			query, args = sqltext.UpdateRows(b.relay.Dialect, "rehop_outbox", "id", ids, set, values, "state IN "+states)
		}
		all = append(all, change{query, args})
	}
	return all
}

// assign is how rows change, and in which states. Those that are to be deleted are not.
func (b *batch) assign(kind alike) (set string, values []any, states string) {
	later := func(d time.Duration) string {
		return fmt.Sprintf("%s + %d", b.relay.Dialect.Now(), d.Microseconds())
	}
	switch {
	case kind.verdict == aside:
		return "state = 3, due = 0, attempts = ?, error = ?", []any{kind.attempts, kind.err}, "(0, 1, 2)"
	case kind.verdict == postponed && kind.ordered: // it keeps its place, so that no other relay lets the next of its key pass
		return "attempts = ?, error = ?", []any{kind.attempts, kind.err}, "(1)"
	case kind.verdict == postponed:
		return "state = 2, due = " + later(kind.wait) + ", attempts = ?, error = ?", []any{kind.attempts, kind.err}, "(0, 2)"
	case b.relay.Keep > 0:
		return "state = 4, due = " + later(b.relay.Keep), nil, "(0, 1, 2)"
	}
	return "", nil, ""
}

// maxError is how much of an error is written down.
const maxError = 1000

// errorText is the reason alone: which message it is about, the row says.
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
