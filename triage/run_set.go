package triage

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/rehop/rehop/dialect"
)

// freezeSome is how many messages are read at a time to fix the set of a run.
const freezeSome = 1000

// freeze records the messages of a run, and returns how many there are. Nobody changes the index meanwhile.
func (w *writer) freeze(ctx context.Context, run int64, plan RunPlan) (n int, err error) {
	if len(plan.Refs) == 0 && !plan.Query.needsText() {
		return w.freezeMatches(ctx, run, plan)
	}
	err = w.eachOfPlan(ctx, plan, func(rows []*row) error {
		var values [][]any
		for _, r := range rows {
			values = append(values, []any{run, r.lineage[:], r.ordinal, r.queue, int(planned), r.failure.attempts, r.failure.replays, micros(r.failure.at), r.failure.digest, []byte{}, []byte{}})
		}
		n += len(values)
		return w.insert(ctx, w.store.table("run_item"), itemColumnNames, "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", values)
	})
	return n, err
}

// itemColumnNames are the columns of an item, in the order in which freeze writes them.
const itemColumnNames = "run_number, lineage, ordinal, queue_number, state, attempts, replays, failure, digest, sent_id, reason"

// freezeMatches is freeze for a query that the database decides alone: no row leaves it.
func (w *writer) freezeMatches(ctx context.Context, run int64, plan RunPlan) (int, error) {
	p, err := w.store.compile(ctx, w, plan.Query)
	if err != nil || p.none {
		return 0, err
	}
	if !plan.UpTo.IsZero() {
		p.add("m.changed <= ?", plan.UpTo.UnixMicro())
	}
	from := plan.Action.from()
	numbers := make([]any, len(from))
	for i, state := range from {
		numbers[i] = state.number()
	}
	p.add("m.state IN ("+marks(len(from))+")", numbers...)
	empty := map[dialect.Dialect]string{dialect.SQLite: "x''", dialect.Postgres: "CAST('' AS BYTEA)", dialect.MySQL: "''"}[w.store.sql.Dialect]
	columns := fmt.Sprintf("%d, m.lineage, m.ordinal, m.queue_number, %d, m.attempts, m.replays, m.failure, m.digest, %s, %s", run, planned, empty, empty)
	query, args := p.sql(columns, "", 0, math.MaxInt32)
	result, err := w.ExecContext(ctx, "INSERT INTO "+w.store.table("run_item")+" ("+itemColumnNames+") "+query, args...)
	if err != nil {
		return 0, err
	}
	n, err := result.RowsAffected()
	return int(n), err
}

// eachOfPlan reads the rows of the messages of a plan: those to which its action can apply.
func (w *writer) eachOfPlan(ctx context.Context, plan RunPlan, do func([]*row) error) error {
	from := plan.Action.from()
	add := func(rows []*row) error {
		return do(slices.DeleteFunc(rows, func(r *row) bool {
			later := !plan.UpTo.IsZero() && r.changed > plan.UpTo.UnixMicro()
			return later || !slices.Contains(from, states[r.state])
		}))
	}
	if len(plan.Refs) > 0 {
		return w.eachOfRefs(ctx, plan.Refs, add)
	}
	return w.eachMatch(ctx, plan.Query, add)
}

// eachOfRefs reads the rows of some Refs.
func (w *writer) eachOfRefs(ctx context.Context, refs []string, do func([]*row) error) error {
	wanted := make(map[string]bool, len(refs))
	var lineages []lineage
	for _, ref := range refs {
		l, ordinal, err := parseRef(ref)
		if err != nil {
			return err
		}
		if !wanted[l.ref(ordinal)] {
			wanted[l.ref(ordinal)] = true
			lineages = append(lineages, l)
		}
	}
	found, err := w.rowsOf(ctx, lineages)
	if err != nil {
		return err
	}
	var rows []*row
	for _, l := range lineages {
		for _, r := range found[l] {
			if ref := l.ref(r.ordinal); wanted[ref] {
				delete(wanted, ref)
				rows = append(rows, r)
			}
		}
	}
	return do(rows)
}

// eachMatch reads the rows of all messages that match a query, without any bound.
func (w *writer) eachMatch(ctx context.Context, q Query, do func([]*row) error) error {
	p, err := w.store.compile(ctx, w, q)
	if err != nil || p.none {
		return err
	}
	columns, joined := "m."+strings.ReplaceAll(rowColumns, ", ", ", m."), ""
	scan := scanRow
	if q.needsText() {
		columns, joined = listed+", "+contents+", "+columns, w.store.joins()+" LEFT JOIN "+w.store.table("content")+" c ON c.id = m.id"
		scan = func(rows *sql.Rows) (*row, error) { return scanVerified(rows, q) }
	}
	for before := int64(0); ; {
		query, args := p.sql(columns, joined, before, freezeSome)
		found, err := readAll(ctx, w, query, args, scan)
		if err != nil || len(found) == 0 {
			return err
		}
		before = found[len(found)-1].id
		if err := do(slices.DeleteFunc(slices.Clone(found), func(r *row) bool { return r.other })); err != nil {
			return err
		}
		if len(found) < freezeSome {
			return nil
		}
	}
}
