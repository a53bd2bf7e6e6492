package outbox

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"sync"
	"testing"
)

// fakeDB is a database whose answers a test gives. It keeps what it was asked.
type fakeDB struct {
	answer func(statement) ([][]driver.Value, error) // of a statement that is no query, only the error counts: it changes one row

	mu          sync.Mutex
	connections int
	asked       []statement
}

// statement is what a connection was asked. The beginning and end of transactions are BEGIN, COMMIT and ROLLBACK.
type statement struct {
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
	return &fakeConn{db, db.connections}, nil
}

func (db *fakeDB) Driver() driver.Driver { return nil }

// fakeConn is one of its connections.
type fakeConn struct {
	db     *fakeDB
	number int
}

func (c *fakeConn) ask(text string, args []driver.NamedValue) ([][]driver.Value, error) {
	s := statement{connection: c.number, text: text}
	for _, a := range args {
		s.args = append(s.args, a.Value)
	}
	c.db.mu.Lock()
	c.db.asked = append(c.db.asked, s)
	c.db.mu.Unlock()
	return c.db.answer(s)
}

func (c *fakeConn) Prepare(string) (driver.Stmt, error) { return nil, errors.ErrUnsupported }

func (c *fakeConn) Close() error { return nil }

func (c *fakeConn) Begin() (driver.Tx, error) { return nil, errors.ErrUnsupported }

func (c *fakeConn) BeginTx(context.Context, driver.TxOptions) (driver.Tx, error) {
	_, err := c.ask("BEGIN", nil)
	return fakeTx{c}, err
}

func (c *fakeConn) ExecContext(_ context.Context, text string, args []driver.NamedValue) (driver.Result, error) {
	_, err := c.ask(text, args)
	return driver.RowsAffected(1), err
}

func (c *fakeConn) QueryContext(_ context.Context, text string, args []driver.NamedValue) (driver.Rows, error) {
	rows, err := c.ask(text, args)
	if err != nil {
		return nil, err
	}
	return &fakeRows{rows}, nil
}

// fakeTx is a transaction on a connection.
type fakeTx struct{ conn *fakeConn }

func (tx fakeTx) Commit() error {
	_, err := tx.conn.ask("COMMIT", nil)
	return err
}

func (tx fakeTx) Rollback() error {
	_, err := tx.conn.ask("ROLLBACK", nil)
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
