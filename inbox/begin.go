package inbox

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"time"

	"github.com/rehop/rehop/dialect"
)

func (in Inbox) begin(ctx context.Context) (Transaction, error) {
	if in.Dialect != dialect.MySQL {
		return in.DB.BeginTx(ctx, nil)
	}
	conn, err := in.DB.Conn(ctx)
	if err != nil {
		return nil, err
	}
	t := &uncommitted{conn: conn, ctx: ctx}
	if _, err = conn.ExecContext(ctx, shortLockWait); err == nil {
		t.Tx, err = conn.BeginTx(ctx, nil)
	}
	if err != nil {
		t.discard()
		return nil, err
	}
	return t, nil
}

// shortLockWait turns autocommit off on a connection, and limits how long the first statement waits for a copy that is being handled.
// MariaDB limits that in the statement itself, and ignores the comment.
const shortLockWait = "SET @rehop_autocommit = @@autocommit, autocommit = 0 /*!80000 , @rehop_lock_wait = @@innodb_lock_wait_timeout, innodb_lock_wait_timeout = 1 */"

// usualLockWait restores how long the handler's own statements wait for locks.
const usualLockWait = "SET @rehop_lock_wait = @rehop_lock_wait /*!80000 , innodb_lock_wait_timeout = @rehop_lock_wait */"

// restoreLockWait restores it for the statements of a handler.
func restoreLockWait(ctx context.Context, tx Transaction) error {
	if _, ours := tx.(*uncommitted); !ours {
		return nil
	}
	_, err := tx.ExecContext(ctx, usualLockWait)
	return err
}

// uncommitted is a transaction on a MySQL connection without autocommit. If two transactions wait for each other, the server rolls one of
// them back. A handler that ignores the error would continue outside of any transaction, and autocommit would commit each statement.
type uncommitted struct {
	*sql.Tx
	conn *sql.Conn
	ctx  context.Context // of the transaction, as the one that database/sql keeps
}

// Commit ends with the transaction's context, also on a connection that died silently. The MySQL drivers take no context for a commit, and
// would wait until the operating system gives up.
func (t *uncommitted) Commit() error {
	return t.end(func() error {
		_, err := t.Tx.ExecContext(t.ctx, "COMMIT")
		return cmp.Or(err, t.Tx.Rollback()) // of nothing, but database/sql does not know that the transaction has ended
	})
}

func (t *uncommitted) Rollback() error { return t.end(t.Tx.Rollback) }

// restoreLimit bounds how long restoring the settings of a connection may take.
const restoreLimit = 5 * time.Second

// end ends the transaction, restores the settings of the connection, and returns it to the pool.
func (t *uncommitted) end(how func() error) error {
	if err := how(); err != nil {
		t.discard() // a statement may still be running, and a change of autocommit would commit it
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), restoreLimit)
	defer cancel()
	if _, err := t.conn.ExecContext(ctx, "SET autocommit = @rehop_autocommit /*!80000 , innodb_lock_wait_timeout = @rehop_lock_wait */"); err != nil {
		t.discard()
		return nil
	}
	_ = t.conn.Close() // returns it to the pool
	return nil
}

// discard closes the connection. The server rolls back what is not committed.
func (t *uncommitted) discard() {
	_ = t.conn.Raw(func(any) error { return driver.ErrBadConn })
	_ = t.conn.Close()
}

func affected(result sql.Result, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}
