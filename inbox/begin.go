package inbox

import (
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
	t := &uncommitted{conn: conn}
	if _, err = conn.ExecContext(ctx, "SET @rehop_autocommit = @@autocommit, autocommit = 0"); err == nil {
		t.Tx, err = conn.BeginTx(ctx, nil)
	}
	if err != nil {
		t.discard()
		return nil, err
	}
	return t, nil
}

// uncommitted is a transaction on MySQL behind which nothing is committed by itself. If two transactions wait for each other, the server
// rolls one of them back, and a handler that takes no notice goes on outside of any transaction: then each statement would be committed
// at once.
type uncommitted struct {
	*sql.Tx
	conn *sql.Conn
}

func (t *uncommitted) Commit() error { return t.end(t.Tx.Commit) }

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
	if _, err := t.conn.ExecContext(ctx, "SET autocommit = @rehop_autocommit"); err != nil {
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
