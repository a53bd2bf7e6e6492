package outbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/rehop/rehop/dialect"
	"github.com/rehop/rehop/internal/sqltext"
)

// inline is the largest size of contents that are read together with their row. Larger ones are read when there is memory for them.
const inline = 8 << 10

// inlines are the values that a relay uses for that, depending on the memory that is left. There are few of them, so that drivers can
// keep the queries prepared.
var inlines = [...]int{inline, 2 << 10, 512, 0}

// columnsUpTo are the columns of a row, with its contents up to a size.
func columnsUpTo(size int) string {
	small := fmt.Sprintf("CASE WHEN size <= %d THEN ", size)
	return "id, nonce, state, shard, due, attempts, size, message_id, exchange, routing_key, order_key, " +
		small + "1 ELSE 0 END, " + small + "properties END, " + small + "headers END, " + small + "body END"
}

func scan(rows *sql.Rows, more ...any) (row, error) {
	var r row
	var whole int
	var properties, headers sql.NullString
	err := rows.Scan(append([]any{&r.id, &r.nonce, &r.state, &r.shard, &r.due, &r.attempts, &r.size, &r.messageID, &r.exchange, &r.routingKey, &r.orderKey,
		&whole, &properties, &headers, &r.body}, more...)...)
	if err == nil && whole == 1 {
		r.fill(properties.String, headers.String, r.body)
	}
	return r, err
}

// fill sets the contents of a row. Some drivers return nil for an empty body, but nil means that the body is not loaded.
func (r *row) fill(properties, headers string, body []byte) {
	r.properties, r.headers, r.body = properties, headers, body
	if r.body == nil {
		r.body = []byte{}
	}
}

// laneRead is what to read of a lane.
type laneRead struct {
	lane  *lane
	from  int64
	limit int
}

// laneQuery is a query for a lane. Its arguments are the place to start, and the number of rows.
func (r *run) laneQuery(l *lane, inline int) string {
	condition, held := "", "0"
	if l.kind == laneOrdered {
		condition, held = r.sql.Unheld(stateOrdered, l.shard), r.sql.HasHeld(stateOrdered, l.shard)
	}
	return r.sql.Lane(columnsUpTo(inline)+", "+held, l.state(), l.shard, l.byDue(), condition)
}

type reader struct {
	run   *run
	lanes []*lane
	all   map[int]string // the query for all lanes, by the largest size of contents
}

func newReader(r *run, lanes []*lane) *reader {
	return &reader{run: r, lanes: lanes, all: make(map[int]string)}
}

// inlineFor returns the largest size of contents with which everything that these reads can find fits into memory.
func inlineFor(room int, reads []laneRead) int {
	most := 0
	for _, l := range reads {
		most += l.limit
	}
	for _, size := range inlines {
		if size*most <= room {
			return size
		}
	}
	return 0
}

// together reads several lanes with one query. Its text is always the same, so that drivers can keep it prepared: for lanes that are not
// to be read, the limit is 0.
func (r *reader) together(ctx context.Context, v *view, reads []laneRead, room int) (map[*lane][]row, error) {
	wanted := make(map[*lane]laneRead, len(reads))
	for _, l := range reads {
		wanted[l.lane] = l
	}
	args := make([]any, 0, 2*len(r.lanes))
	for _, l := range r.lanes {
		w := wanted[l]
		args = append(args, w.from, w.limit)
	}
	rows, err := v.rows(ctx, r.query(inlineFor(room, reads)), args)
	if err != nil {
		return nil, err
	}
	found := make(map[*lane][]row)
	for _, one := range rows {
		l := r.lanes[laneIndex(kindOf(&one), one.shard)]
		found[l] = append(found[l], one)
	}
	for l := range found {
		l.inOrder(found[l])
	}
	return found, nil
}

func (r *reader) apart(ctx context.Context, v *view, l laneRead, room int) ([]row, error) {
	query := r.run.laneQuery(l.lane, inlineFor(room, []laneRead{l}))
	return v.rows(ctx, r.run.Dialect.Bind(query), []any{l.from, l.limit})
}

func (r *reader) query(inline int) string {
	query, made := r.all[inline]
	if !made {
		parts := make([]string, len(r.lanes))
		for i, l := range r.lanes {
			parts[i] = r.run.sql.First(r.run.laneQuery(l, inline))
		}
		query = r.run.Dialect.Bind(strings.Join(parts, " UNION ALL "))
		r.all[inline] = query
	}
	return query
}

// session is a *sql.DB or a *sql.Tx.
type session interface {
	querier
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// steadily makes statements on the outbox use its indexes, whatever statistics the database has.
func (r *run) steadily(ctx context.Context, work func(session) error) error {
	return steadily(ctx, r.DB, r.sql, work)
}

func steadily(ctx context.Context, db *sql.DB, text sqltext.SQL, work func(session) error) error {
	if text.Steady() == "" {
		return work(db)
	}
	return within(ctx, db, text, sql.LevelReadCommitted, text.Steady(), work)
}

// within runs work in a transaction whose first statement is steady, unless that is empty.
func within(ctx context.Context, db *sql.DB, text sqltext.SQL, level sql.IsolationLevel, steady string, work func(session) error) error {
	tx, err := begin(ctx, db, text.Dialect, level)
	if err != nil {
		return err
	}
	if steady != "" {
		_, err = tx.ExecContext(ctx, steady)
	}
	if err == nil {
		err = work(tx)
	}
	if err != nil {
		return errors.Join(err, tx.rollback(ctx))
	}
	return tx.commit(ctx)
}

// isolation is the isolation level of the relay's transactions. A stricter one, which may be the default of the database, would only cause
// conflicts, also with transactions of users. But a MySQL server with a statement-based binary log refuses writes at this level.
func (r *run) isolation(ctx context.Context) (sql.IsolationLevel, error) {
	switch r.Dialect {
	case dialect.SQLite: // it has only one
		return sql.LevelDefault, nil
	case dialect.MySQL:
		var logs int
		var format string
		if err := r.DB.QueryRowContext(ctx, "SELECT @@GLOBAL.log_bin, @@SESSION.binlog_format").Scan(&logs, &format); err != nil {
			return 0, fmt.Errorf("read the format of the binary log: %w", err)
		}
		if logs == 1 && format == "STATEMENT" {
			return sql.LevelRepeatableRead, nil
		}
	}
	return sql.LevelReadCommitted, nil
}

// ignoreDone ignores the error of a transaction that its context has already ended.
func ignoreDone(err error) error {
	if errors.Is(err, sql.ErrTxDone) || errors.Is(err, sql.ErrConnDone) {
		return nil
	}
	return err
}

func newLanes() []*lane {
	all := make([]*lane, shards*laneKinds)
	for shard := range shards {
		for kind := range laneKinds {
			all[laneIndex(kind, shard)] = &lane{shard: shard, kind: kind}
		}
	}
	return all
}

func laneIndex(kind, shard int) int { return shard*laneKinds + kind }

// kindOf returns the kind of lane that a row is in.
func kindOf(r *row) int {
	if r.state == stateOrdered && r.due > 0 {
		return laneHeld
	}
	return r.state
}

// loadBodies reads the contents that were not read with their rows. The body of a row that is gone stays nil; an empty one is not nil.
func loadBodies(ctx context.Context, db querier, text sqltext.SQL, rows []row) error {
	missing := make(map[sqltext.Row]*row)
	var ids []sqltext.Row
	for i := range rows {
		if rows[i].body == nil {
			missing[rows[i].identity()] = &rows[i]
			ids = append(ids, rows[i].identity())
		}
	}
	if len(ids) == 0 {
		return nil
	}
	query, args := text.SelectRows("line.id, line.nonce, line.properties, line.headers, line.body", ids)
	_, err := readAll(ctx, db, query, args, func(found *sql.Rows) (id sqltext.Row, err error) {
		var properties, headers string
		var body []byte
		if err = found.Scan(&id.Number, &id.Nonce, &properties, &headers, &body); err == nil && missing[id] != nil {
			missing[id].fill(properties, headers, body)
		}
		return id, err
	})
	return err
}

// exec runs a statement of the dialect on the outbox and returns how many rows it changed.
func (r *run) exec(ctx context.Context, query string, args ...any) (changed int, err error) {
	err = r.steadily(ctx, func(db session) error {
		changed, err = execOn(ctx, db, query, args)
		return err
	})
	return changed, err
}

func execOn(ctx context.Context, db session, query string, args []any) (changed int, err error) {
	return affected(db.ExecContext(ctx, query, args...))
}
