package outbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/rehop/rehop/dialect"
)

// view is what a relay reads at one time.
type view struct {
	run    *run
	db     session
	ended  int64 // on PostgreSQL: all transactions with a lower number had ended before; elsewhere 0
	server int64 // on PostgreSQL: when the server was started; elsewhere 0
}

// rows reads rows.
func (v *view) rows(ctx context.Context, query string, args []any) ([]row, error) {
	return readAll(ctx, v.db, query, args, func(found *sql.Rows) (row, error) {
		held := 0
		one, err := scan(found, &held)
		one.held = held > 0
		return one, err
	})
}

// viewing lets the relay read, and write a barrier afterwards, in one transaction. So if that commits, what was read comes from the same
// server that has committed the barrier: a proxy or a failover could lead the next transaction to another one.
func (r *run) viewing(ctx context.Context, p patience, work func(*view) error) error {
	if r.Dialect == dialect.SQLite { // which does not let a transaction wait for the lock that has begun with reading
		return work(&view{run: r, db: r.DB})
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	// A connection that is dead without a word is found out by these limits, and the next one is tried.
	begun := time.AfterFunc(p.begin(), func() { cancel(fmt.Errorf("the database has not begun a transaction within %v", p.begin())) })
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
	committed := time.AfterFunc(p.commit(), func() { cancel(fmt.Errorf("the database has not committed within %v", p.commit())) })
	defer committed.Stop()
	return withCause(ctx, tx.commit(ctx))
}

// withCause adds to an error why the context has ended, if it has.
func withCause(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil || errors.Is(err, context.Cause(ctx)) {
		return err
	}
	return fmt.Errorf("%w: %w", context.Cause(ctx), err)
}

// errFenced means that another relay has a lease that this one believed to have.
var errFenced = errors.New("another relay now holds a lease of this relay; nothing was published")

// barrier writes something after rows of some shards were read. Databases let others see what a transaction has done before it is on
// disk, and a crash can undo it; but what was visible then is on disk once the barrier is. So what was read may be published when the
// view has ended without an error. Nothing may be if another relay has one of the leases.
//
// On PostgreSQL it returns the number of this transaction: those that were under way when the rows were read have lower ones.
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

// execSynced runs a statement on SQLite whose commit is on disk when it returns, whatever the pool's connections are set to.
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
		// Also when ctx has ended: the connection goes back to the pool.
		defer func() {
			_, restored := conn.ExecContext(context.WithoutCancel(ctx), fmt.Sprintf("PRAGMA synchronous = %d", level))
			err = errors.Join(err, restored)
		}()
	}
	return execOn(ctx, conn, query, args)
}
