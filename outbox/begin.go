package outbox

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"time"

	"github.com/rehop/rehop/dialect"
)

type transaction interface {
	session
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	commit(ctx context.Context) error
	rollback(ctx context.Context) error
}

// begin begins a transaction. Its commit ends with its context, also on a connection that died silently.
func begin(ctx context.Context, db *sql.DB, speaks dialect.Dialect, level sql.IsolationLevel) (transaction, error) {
	if speaks == dialect.MySQL {
		return beginByStatement(ctx, db, level)
	}
	tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: level})
	if err != nil {
		return nil, err
	}
	return standardTx{tx}, nil
}

// standardTx is a transaction of database/sql, which its context ends.
type standardTx struct{ *sql.Tx }

func (t standardTx) commit(context.Context) error { return t.Commit() }

func (t standardTx) rollback(context.Context) error { return ignoreDone(t.Rollback()) }

// statedTx is a transaction that is begun and ended by statements. The MySQL drivers take no context for a commit: on a connection that
// died silently, Commit would wait until the operating system gives up, while a relay keeps its leases and a caller waits.
type statedTx struct{ *sql.Conn }

func beginByStatement(ctx context.Context, db *sql.DB, level sql.IsolationLevel) (transaction, error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	t := statedTx{conn}
	statements := []string{"START TRANSACTION"}
	if level != sql.LevelDefault {
		statements = []string{fmt.Sprintf("SET TRANSACTION ISOLATION LEVEL %s", level), "START TRANSACTION"}
	}
	for _, statement := range statements {
		if _, err := conn.ExecContext(ctx, statement); err != nil {
			return nil, errors.Join(err, t.discard())
		}
	}
	return t, nil
}

func (t statedTx) commit(ctx context.Context) error {
	if _, err := t.ExecContext(ctx, "COMMIT"); err != nil {
		return errors.Join(err, t.discard())
	}
	return t.Close()
}

func (t statedTx) rollback(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackLimit)
	defer cancel()
	if _, err := t.ExecContext(ctx, "ROLLBACK"); err != nil {
		return t.discard()
	}
	return t.Close()
}

// rollbackLimit is how long a rollback may take before the connection is closed instead, which rolls back too.
const rollbackLimit = 2 * time.Second

// discard closes the connection, whose state is unknown.
func (t statedTx) discard() error {
	_ = t.Raw(func(any) error { return driver.ErrBadConn })
	return ignoreDone(t.Close())
}
