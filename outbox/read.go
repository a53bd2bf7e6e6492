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

// inline is up to which size a body is read along with its row. Larger ones are read when there is room for them.
const inline = 8 << 10

// columns are those of a row.
var columns = fmt.Sprintf("id, state, shard, due, attempts, size, message_id, exchange, routing_key, order_key, properties, headers, CASE WHEN size <= %d THEN body END", inline)

func scan(rows *sql.Rows, more ...any) (row, error) {
	var r row
	err := rows.Scan(append([]any{&r.id, &r.state, &r.shard, &r.due, &r.attempts, &r.size, &r.messageID, &r.exchange, &r.routingKey, &r.orderKey,
		&r.properties, &r.headers, &r.body}, more...)...)
	if r.body == nil && r.size <= inline {
		r.body = []byte{} // some drivers make nil of it
	}
	return r, err
}

// look is what to read of a lane.
type look struct {
	lane  *lane
	from  int64
	limit int
}

// laneQuery reads a lane. Its arguments are where to begin, those of the condition, and how many rows to read.
func (r *run) laneQuery(l *lane, condition string) string {
	return sqltext.Lane(r.Dialect, columns, l.state, l.shard, l.state == stateDelayed, condition)
}

// read reads several lanes with one query, whose text is always the same so that drivers can keep it prepared: of lanes that
// are not to be read it asks for no rows.
func (r *run) read(ctx context.Context, query string, lanes []*lane, looks []look) (map[*lane][]row, error) {
	wanted := make(map[*lane]look, len(looks))
	for _, l := range looks {
		wanted[l.lane] = l
	}
	args := make([]any, 0, 2*len(lanes))
	for _, l := range lanes {
		w := wanted[l]
		args = append(args, w.from, w.limit)
	}
	rows, err := r.rows(ctx, query, args)
	if err != nil {
		return nil, err
	}
	found := make(map[*lane][]row)
	for _, one := range rows {
		l := lanes[laneIndex(one.state, one.shard)]
		found[l] = append(found[l], one)
	}
	for l := range found {
		l.inOrder(found[l])
	}
	return found, nil
}

// rows reads rows.
func (r *run) rows(ctx context.Context, query string, args []any) (found []row, err error) {
	err = r.steadily(ctx, func(db session) error {
		rows, err := db.QueryContext(ctx, query, args...)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			one, err := scan(rows)
			if err != nil {
				return err
			}
			found = append(found, one)
		}
		return rows.Err()
	})
	return found, err
}

// session is a *sql.DB or a *sql.Tx.
type session interface {
	querier
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// steadily has statements on the outbox use its indexes, whatever the database believes about the table.
func (r *run) steadily(ctx context.Context, work func(session) error) error {
	steady := sqltext.Steady(r.Dialect)
	if steady == "" {
		return work(r.DB)
	}
	tx, err := r.DB.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if _, err = tx.ExecContext(ctx, steady); err == nil {
		err = work(tx)
	}
	if err != nil {
		return errors.Join(err, ignoreDone(tx.Rollback()))
	}
	return tx.Commit()
}

// ignoreDone drops the error of a rollback that a context has been faster with.
func ignoreDone(err error) error {
	if errors.Is(err, sql.ErrTxDone) {
		return nil
	}
	return err
}

// laneStates are the states of which each shard has a lane.
var laneStates = [...]int{stateReady, stateOrdered, stateDelayed}

func newLanes() []*lane {
	all := make([]*lane, shards*len(laneStates))
	for shard := range shards {
		for _, state := range laneStates {
			all[laneIndex(state, shard)] = &lane{shard: shard, state: state}
		}
	}
	return all
}

func laneIndex(state, shard int) int { return shard*len(laneStates) + state }

// readQuery is the query of read.
func (r *run) readQuery(lanes []*lane) string {
	parts := make([]string, len(lanes))
	for i, l := range lanes {
		parts[i] = sqltext.First(r.Dialect, r.laneQuery(l, ""))
	}
	return r.Dialect.Bind(strings.Join(parts, " UNION ALL "))
}

// readHeld reads a lane with an order without the keys that are held back.
func (r *run) readHeld(ctx context.Context, l *lane, keys []string, limit int) ([]row, error) {
	args := []any{0}
	for _, key := range keys {
		args = append(args, key)
	}
	query := r.laneQuery(l, " AND order_key NOT IN (?"+strings.Repeat(", ?", len(keys)-1)+")")
	return r.rows(ctx, r.Dialect.Bind(query), append(args, limit))
}

// loadBodies reads the bodies that were not read along. Rows that are gone have none afterwards.
func loadBodies(ctx context.Context, db querier, d dialect.Dialect, rows []row) error {
	missing := make(map[int64]*row)
	var ids []int64
	for i := range rows {
		if rows[i].body == nil {
			missing[rows[i].id] = &rows[i]
			ids = append(ids, rows[i].id)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	found, err := db.QueryContext(ctx, d.Bind("SELECT id, body FROM rehop_outbox WHERE "+sqltext.Among(d, "id")), sqltext.List(d, ids))
	if err != nil {
		return err
	}
	defer found.Close()
	for found.Next() {
		var id int64
		var body []byte
		if err := found.Scan(&id, &body); err != nil {
			return err
		}
		if row := missing[id]; row != nil {
			row.body = body
		}
	}
	return found.Err()
}

// exec runs a statement of the dialect on the outbox and tells how many rows it changed.
func (r *run) exec(ctx context.Context, query string, args ...any) (changed int, err error) {
	err = r.steadily(ctx, func(db session) error {
		changed, err = execOn(ctx, db, query, args)
		return err
	})
	return changed, err
}

func execOn(ctx context.Context, db session, query string, args []any) (changed int, err error) {
	result, err := db.ExecContext(ctx, query, args...)
	if err != nil {
		return 0, err
	}
	n, err := result.RowsAffected()
	return int(n), err
}
