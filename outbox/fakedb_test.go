package outbox

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"testing"
)

// fakeDB is a database whose answers a test gives. It keeps what it was asked.
type fakeDB struct {
	// answer answers a statement. One that is no query changes one row, or as many as the answer has as its only value. After errBroken the
	// connection is not used again.
	answer func(statement) ([][]driver.Value, error)

	mu          sync.Mutex
	connections int
	asked       []statement
}

// errBroken means that a connection has broken.
var errBroken = errors.New("read tcp: i/o timeout")

// statement is what a connection was asked. The beginning and end of transactions are BEGIN, COMMIT and ROLLBACK; they have one context.
type statement struct {
	ctx        context.Context
	connection int
	text       string
	args       []any
}

// open opens a pool of connections that is closed with the test.
func (db *fakeDB) open(t *testing.T) *sql.DB {
	t.Helper()
	pool := sql.OpenDB(db)
	t.Cleanup(func() { _ = pool.Close() })
	return pool
}

// transcript is all that was asked since the last call.
func (db *fakeDB) transcript() []statement {
	db.mu.Lock()
	defer db.mu.Unlock()
	asked := db.asked
	db.asked = nil
	return asked
}

func (db *fakeDB) Connect(context.Context) (driver.Conn, error) {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.connections++
	return &fakeConn{db: db, number: db.connections}, nil
}

func (db *fakeDB) Driver() driver.Driver { return nil }

// fakeConn is one of its connections.
type fakeConn struct {
	db     *fakeDB
	number int
	broken atomic.Bool
}

func (c *fakeConn) ask(ctx context.Context, text string, args []driver.NamedValue) ([][]driver.Value, error) {
	s := statement{ctx: ctx, connection: c.number, text: text}
	for _, a := range args {
		s.args = append(s.args, a.Value)
	}
	c.db.mu.Lock()
	c.db.asked = append(c.db.asked, s)
	c.db.mu.Unlock()
	rows, err := c.db.answer(s)
	if errors.Is(err, errBroken) {
		c.broken.Store(true)
	}
	return rows, err
}

// IsValid has database/sql discard a connection that is broken.
func (c *fakeConn) IsValid() bool { return !c.broken.Load() }

func (c *fakeConn) Prepare(string) (driver.Stmt, error) { return nil, errors.ErrUnsupported }

func (c *fakeConn) Close() error { return nil }

func (c *fakeConn) Begin() (driver.Tx, error) { return nil, errors.ErrUnsupported }

func (c *fakeConn) BeginTx(ctx context.Context, _ driver.TxOptions) (driver.Tx, error) {
	_, err := c.ask(ctx, "BEGIN", nil)
	return fakeTx{c, ctx}, err
}

func (c *fakeConn) ExecContext(ctx context.Context, text string, args []driver.NamedValue) (driver.Result, error) {
	rows, err := c.ask(ctx, text, args)
	if len(rows) > 0 {
		return driver.RowsAffected(rows[0][0].(int64)), err
	}
	return driver.RowsAffected(1), err
}

func (c *fakeConn) QueryContext(ctx context.Context, text string, args []driver.NamedValue) (driver.Rows, error) {
	rows, err := c.ask(ctx, text, args)
	if err != nil {
		return nil, err
	}
	return &fakeRows{rows}, nil
}

// fakeTx is a transaction on a connection.
type fakeTx struct {
	conn *fakeConn
	ctx  context.Context
}

func (tx fakeTx) Commit() error {
	_, err := tx.conn.ask(tx.ctx, "COMMIT", nil)
	return err
}

func (tx fakeTx) Rollback() error {
	_, err := tx.conn.ask(tx.ctx, "ROLLBACK", nil)
	return err
}

// fakeRows are the rows of an answer that were not read yet.
type fakeRows struct{ left [][]driver.Value }

func (r *fakeRows) Columns() []string {
	if len(r.left) == 0 {
		return nil
	}
	return make([]string, len(r.left[0]))
}

func (r *fakeRows) Close() error { return nil }

func (r *fakeRows) Next(into []driver.Value) error {
	if len(r.left) == 0 {
		return io.EOF
	}
	copy(into, r.left[0])
	r.left = r.left[1:]
	return nil
}
