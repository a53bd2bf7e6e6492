package outbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/rehop/rehop/dialect"
)

// view is one consistent read of the tables.
type view struct {
	run    *run
	db     session
	ended  int64 // on PostgreSQL: all transactions with a lower number had ended before; elsewhere 0
	server int64 // on PostgreSQL: when the server was started; elsewhere 0
}

func (v *view) rows(ctx context.Context, query string, args []any) ([]row, error) {
	return readAll(ctx, v.db, query, args, func(found *sql.Rows) (row, error) {
		held := 0
		one, err := scan(found, &held)
		one.held = held > 0
		return one, err
	})
}

// viewing runs work, which reads and then writes a barrier, in one transaction. If that commits, the rows come from the same server that
// committed the barrier: a proxy or a failover could lead the next transaction to another one.
func (r *run) viewing(ctx context.Context, t dbTimeout, work func(*view) error) error {
	if r.Dialect == dialect.SQLite { // there, a transaction that began with a read cannot wait for the write lock
		return work(&view{run: r, db: r.DB})
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	// These limits detect a connection that died silently. The next poll uses another one.
	begun := time.AfterFunc(t.begin(), func() { cancel(fmt.Errorf("the database has not begun a transaction within %v", t.begin())) })
	defer begun.Stop()
	tx, err := begin(ctx, r.DB, r.Dialect, r.level)
	if err != nil {
		return withCause(ctx, err)
	}
	v := &view{run: r, db: tx}
	if steady := r.sql.Steady(); steady != "" {
		var settings string
		err = tx.QueryRowContext(ctx, steady).Scan(&v.ended, &v.server, &settings)
	}
	if err == nil && !begun.Stop() {
		err = ctx.Err()
	}
	if err == nil {
		err = work(v)
	}
	if err != nil {
		return withCause(ctx, errors.Join(err, tx.rollback(ctx)))
	}
	committed := time.AfterFunc(t.commit(), func() { cancel(fmt.Errorf("the database has not committed within %v", t.commit())) })
	defer committed.Stop()
	return withCause(ctx, tx.commit(ctx))
}

// withCause adds the reason for which the context has ended, if it has.
func withCause(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil || errors.Is(err, context.Cause(ctx)) {
		return err
	}
	return fmt.Errorf("%w: %w", context.Cause(ctx), err)
}

// errFenced means that another relay has a lease that this one believed to hold.
var errFenced = errors.New("another relay now holds a lease of this relay; nothing was published")

// barrier writes to the database after rows of some shards were read. Databases show the changes of a transaction before they are on disk,
// and a crash can undo them; but what was visible is on disk once the barrier is. So the rows may be published when the view has ended
// without an error. Nothing may be published if another relay has one of the leases.
//
// On PostgreSQL it returns the number of this transaction: transactions that were open when the rows were read have lower numbers.
func (v *view) barrier(ctx context.Context, shards []int) (number int64, err error) {
	owner := v.run.name.get()
	query, args := v.run.sql.Owned(shards, owner, v.run.level != sql.LevelRepeatableRead)
	var held int
	if _, err := readAll(ctx, v.db, query, args, func(rows *sql.Rows) (written int64, err error) { return written, rows.Scan(&held, &number, &written) }); err != nil {
		return 0, fmt.Errorf("read the owners of the leases: %w", err)
	}
	written := 1
	if query := v.run.sql.Barrier(); query != "" {
		write := execOn
		if v.run.Dialect == dialect.SQLite {
			write = v.run.execSynced
		}
		if written, err = write(ctx, v.db, query, []any{owner}); err != nil {
			return 0, fmt.Errorf("write a barrier: %w", err)
		}
	}
	if held != len(shards) || written != 1 {
		return 0, errFenced
	}
	return number, nil
}

// execSynced runs a statement on SQLite whose commit is on disk when it returns, whatever the settings of the pool's connections.
func (r *run) execSynced(ctx context.Context, _ session, query string, args []any) (changed int, err error) {
	conn, err := r.DB.Conn(ctx)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	const full = 2
	var level int
	if err := conn.QueryRowContext(ctx, "PRAGMA synchronous").Scan(&level); err != nil {
		return 0, err
	}
	if level < full {
		if _, err := conn.ExecContext(ctx, "PRAGMA synchronous = FULL"); err != nil {
			return 0, err
		}
		// Also when ctx has ended: the connection returns to the pool.
		defer func() {
			_, restored := conn.ExecContext(context.WithoutCancel(ctx), fmt.Sprintf("PRAGMA synchronous = %d", level))
			err = errors.Join(err, restored)
		}()
	}
	return execOn(ctx, conn, query, args)
}
