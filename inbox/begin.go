package inbox

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"time"

	"github.com/rehop/rehop/dialect"
)

// begin begins a transaction of the pool.
func (in Inbox) begin(ctx context.Context) (Transaction, error) {
	if in.Dialect != dialect.MySQL {
		return in.DB.BeginTx(ctx, nil)
	}
	conn, err := in.DB.Conn(ctx)
	if err != nil {
		return nil, err
	}
	t := &uncommitted{conn: conn, ctx: ctx}
	if _, err = conn.ExecContext(ctx, impatiently); err == nil {
		t.Tx, err = conn.BeginTx(ctx, nil)
	}
	if err != nil {
		t.discard()
		return nil, err
	}
	return t, nil
}

// impatiently has nothing committed by itself on a connection, and the first statement not wait for long for a copy that is being
// handled. MariaDB has its own way, and takes the comment for one.
const impatiently = "SET @rehop_autocommit = @@autocommit, autocommit = 0 /*!80000 , @rehop_lock_wait = @@innodb_lock_wait_timeout, innodb_lock_wait_timeout = 1 */"

// patiently is the reverse of the latter, for the handler's own statements.
const patiently = "SET @rehop_lock_wait = @rehop_lock_wait /*!80000 , innodb_lock_wait_timeout = @rehop_lock_wait */"

// uncommitted is a transaction on MySQL behind which nothing is committed by itself. If two transactions wait for each other, the server
// rolls one of them back, and a handler that takes no notice goes on outside of any transaction: then each statement would be committed
// at once.
type uncommitted struct {
	*sql.Tx
	conn *sql.Conn
	ctx  context.Context // of the transaction, as the one that database/sql keeps
}

// patient has the handler's statements wait for locks as long as is usual on this server.
func (t *uncommitted) patient(ctx context.Context) error {
	_, err := t.Tx.ExecContext(ctx, patiently)
	return err
}

// Commit ends with the transaction's context, also on a connection that has died without a word. The drivers for MySQL know no context when
// they commit, and would wait until the operating system gives up.
func (t *uncommitted) Commit() error {
	return t.end(func() error {
		_, err := t.Tx.ExecContext(t.ctx, "COMMIT")
		return cmp.Or(err, t.Tx.Rollback()) // of nothing, but database/sql does not know that the transaction has ended
	})
}

func (t *uncommitted) Rollback() error { return t.end(t.Tx.Rollback) }

// restoreLimit bounds how long a connection may take until it is as it was.
const restoreLimit = 5 * time.Second

// end ends the transaction, and gives the connection back as it was.
func (t *uncommitted) end(how func() error) error {
	if err := how(); err != nil {
		t.discard() // something may be under way on it, which a change of autocommit would commit
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), restoreLimit)
	defer cancel()
	if _, err := t.conn.ExecContext(ctx, "SET autocommit = @rehop_autocommit /*!80000 , innodb_lock_wait_timeout = @rehop_lock_wait */"); err != nil {
		t.discard()
		return nil
	}
	_ = t.conn.Close() // which gives it back
	return nil
}

// discard closes the connection. The server rolls back what is not committed.
func (t *uncommitted) discard() {
	_ = t.conn.Raw(func(any) error { return driver.ErrBadConn })
	_ = t.conn.Close()
}

// affected is how many rows a statement has changed.
func affected(result sql.Result, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}
