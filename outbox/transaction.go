package outbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/rehop/rehop/dialect"
)

// ErrNoTransaction means that messages were to be published with something that is not in a transaction, such as a *sql.DB.
var ErrNoTransaction = errors.New("not in a transaction")

// transactional is implemented by types that are always in a transaction, such as the result of outboxpgx.Tx.
type transactional interface{ InTransaction() }

// inTransaction checks that statements of tx belong to a transaction, and returns what to run them with. It knows the usual types and asks
// the database about others.
func (b Box) inTransaction(ctx context.Context, tx Tx) (Tx, error) {
	switch known := unwrap(tx).(type) {
	case *sql.Tx, transactional:
		return known, nil
	case *sql.DB:
		return nil, b.noTransaction(tx)
	}
	in, err := b.asksTransaction(ctx, tx)
	switch {
	case err != nil:
		return nil, fmt.Errorf("outbox: find out whether a %T is in a transaction: %w", tx, b.sql().Explain(err))
	case !in:
		return nil, b.noTransaction(tx)
	}
	return tx, nil
}

func checkGiven(tx Tx) error {
	if v := reflect.ValueOf(tx); tx == nil || v.Kind() == reflect.Pointer && v.IsNil() {
		return fmt.Errorf("outbox: %w: it is nil; in a handler of an inbox, call inbox.Tx with the handler's context", ErrNoTransaction)
	}
	return nil
}

func (b Box) noTransaction(tx Tx) error {
	return fmt.Errorf("outbox: %w: a message commits with the transaction it is published in, and this %T is in none: begin one and pass it, or use PublishNow", ErrNoTransaction, tx)
}

// unwrap returns the type of database/sql that a type of bun, sqlx, ent or gorm embeds, if any: their own methods may rewrite or prepare
// statements. gorm embeds one of its types in another.
func unwrap(tx Tx) Tx {
	for inner := tx; inner != nil; inner = embedded(inner) {
		switch inner.(type) {
		case *sql.Tx, *sql.DB, *sql.Conn:
			return inner
		}
	}
	return tx
}

// embedded returns the transaction (Tx) or the pool of gorm (ConnPool) that a struct embeds.
func embedded(tx Tx) Tx {
	v := reflect.ValueOf(tx)
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	if v.Kind() != reflect.Struct {
		return nil
	}
	for _, name := range []string{"Tx", "ConnPool"} {
		if field, ok := v.Type().FieldByName(name); ok && field.Anonymous {
			if inner, err := v.FieldByIndexErr(field.Index); err == nil && inner.CanInterface() {
				if inner, ok := inner.Interface().(Tx); ok {
					return inner
				}
			}
		}
	}
	return nil
}

// asksTransaction asks the database whether statements of tx are in one transaction.
func (b Box) asksTransaction(ctx context.Context, tx Tx) (bool, error) {
	const savepoint, release = "SAVEPOINT rehop_check", "RELEASE SAVEPOINT rehop_check"
	if b.Dialect == dialect.SQLite {
		// SQLite refuses this in a transaction. Outside, it changes nothing: the temporary database is never synced.
		_, err := tx.ExecContext(ctx, "PRAGMA temp.synchronous = FULL")
		if err != nil && strings.Contains(err.Error(), "inside a transaction") {
			return true, nil
		}
		return false, err
	}
	if _, err := tx.ExecContext(ctx, savepoint); err != nil {
		return false, unless(err, "25P01", "can only be used in transaction blocks") // of PostgreSQL
	}
	if _, err := tx.ExecContext(ctx, release); err != nil {
		return false, unless(err, "1305", "25P01", "does not exist") // of MySQL, where the savepoint has ended with its statement
	}
	return true, nil
}

// unless returns nil for an error whose text contains one of the marks.
func unless(err error, marks ...string) error {
	for _, mark := range marks {
		if strings.Contains(err.Error(), mark) {
			return nil
		}
	}
	return err
}
