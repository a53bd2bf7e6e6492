package triage

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/rehop/rehop/dialect"
	"github.com/rehop/rehop/internal/sqltext"
)

// ErrNotFound means that there is no such message or group in the index.
var ErrNotFound = errors.New("not in the index")

// Config has the settings of a store.
type Config struct {
	// DB is a pool of connections to the database. Required.
	DB *sql.DB
	// Dialect is the kind of database. Required.
	Dialect dialect.Dialect
	// Tables are the names of rehop's tables. Default: rehop_triage_message and so on.
	Tables dialect.Tables
	// Grouping decides which messages belong to one group. Default: [DefaultGrouping].
	Grouping Grouping
	// RequireDurable makes Open return dialect.ErrNotDurable if the database's settings let a crash lose committed transactions. The
	// index can be rebuilt, but the audit, and messages in the state Kept, cannot. Default: false.
	RequireDurable bool
}

// Store is an index of failed messages. It is safe for concurrent use, also by several processes.
type Store struct {
	db       *sql.DB
	sql      sqltext.SQL
	grouping Grouping
	writing  chan struct{} // has room for the one transaction of this process that writes
	maxLine  int           // bytes of a message that it can keep; 0: any number
}

// Open checks the settings and the tables, and returns the store.
func Open(ctx context.Context, config Config) (*Store, error) {
	text := sqltext.SQL{Dialect: config.Dialect, Tables: config.Tables}
	if err := text.Check(); err != nil {
		return nil, fmt.Errorf("triage: %w", err)
	}
	if config.DB == nil {
		return nil, errors.New("triage: Config.DB is required: open the database with database/sql")
	}
	if config.Grouping.Of == nil {
		config.Grouping = DefaultGrouping()
	}
	if v := config.Grouping.Version; v < 1 || v > 1<<15 {
		return nil, fmt.Errorf("triage: version %d of the grouping must be from 1 to %d", v, 1<<15)
	}
	if err := config.Dialect.CheckSession(ctx, config.DB); err != nil {
		return nil, fmt.Errorf("triage: %w", err)
	}
	s := &Store{db: config.DB, sql: text, grouping: config.Grouping, writing: make(chan struct{}, 1)}
	if config.RequireDurable {
		if err := s.checkDurable(ctx); err != nil {
			return nil, fmt.Errorf("triage: %w", err)
		}
	}
	migration := dialect.Migration{Dialect: config.Dialect, Part: dialect.Triage, Tables: config.Tables}
	version, err := migration.Version(ctx, config.DB)
	if err != nil {
		return nil, fmt.Errorf("triage: %w", err)
	}
	if newest := migration.Newest(); version < newest {
		return nil, fmt.Errorf("triage: the tables have version %d and this program needs %d: run dialect.Migration with Part dialect.Triage first", version, newest)
	}
	if config.Dialect == dialect.MySQL {
		if err := config.DB.QueryRowContext(ctx, "SELECT @@GLOBAL.max_allowed_packet").Scan(&s.maxLine); err != nil {
			return nil, fmt.Errorf("triage: %w", err)
		}
		s.maxLine -= 64 << 10 // the rest of the statement
	}
	return s, nil
}

// checkDurable returns dialect.ErrNotDurable if a crash of the database can lose commits.
func (s *Store) checkDurable(ctx context.Context) error {
	return s.sql.CheckDurable(ctx, s.db, true, nil)
}

// querier is a pool or a transaction.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// writer is a transaction that has its turn: no other one writes to the index until it ends.
type writer struct {
	*sql.Tx
	store *Store
	now   int64 // microseconds, by the database's clock
	// turn is the number of the transaction: now, but more than that of each transaction before it, also if the clock is set back or shows the same time.
	turn int64
}

// Bounds of repeating a transaction that failed because of others.
const (
	writeTries = 50
	writePause = 20 * time.Millisecond
)

// write runs work in a transaction, and repeats it if it fails only because of others at the same time.
func (s *Store) write(ctx context.Context, work func(w *writer) error) error {
	for try := 1; ; try++ {
		err := s.writeOnce(ctx, work)
		if err == nil || try == writeTries || !s.sql.Retryable(err) {
			return s.sql.Explain(err)
		}
		pause := time.NewTimer(writePause/2 + rand.N(writePause))
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return err
		}
	}
}

func (s *Store) writeOnce(ctx context.Context, work func(w *writer) error) error {
	// Writers wait for each other anyway: in the database they would hold connections meanwhile, and SQLite asks again and again.
	select {
	case s.writing <- struct{}{}:
		defer func() { <-s.writing }()
	case <-ctx.Done():
		return ctx.Err()
	}
	level := sql.LevelDefault
	if s.sql.Dialect == dialect.Postgres {
		level = sql.LevelReadCommitted // statements must see what others committed while this one waited for its turn
	}
	tx, err := s.db.BeginTx(ctx, &sql.TxOptions{Isolation: level})
	if err != nil {
		return err
	}
	defer tx.Rollback()
	w := &writer{Tx: tx, store: s}
	// The first statement writes: a transaction of SQLite that reads first may not be able to write later.
	greatest := "GREATEST"
	if s.sql.Dialect == dialect.SQLite {
		greatest = "MAX"
	}
	result, err := tx.ExecContext(ctx, "UPDATE "+s.table("turn")+" SET turn = "+greatest+"(turn + 1, "+s.sql.Now()+") WHERE id = 1")
	if err != nil {
		return err
	}
	if n, err := result.RowsAffected(); err != nil || n != 1 {
		return fmt.Errorf("table %s has no row with id 1, by which writers wait for each other: insert it with turn 0 (%w)", s.sql.Tables.Bare("triage_turn"), err)
	}
	if err := tx.QueryRowContext(ctx, "SELECT turn, "+s.sql.Now()+" FROM "+s.table("turn")+" WHERE id = 1").Scan(&w.turn, &w.now); err != nil {
		return err
	}
	if err := work(w); err != nil {
		return err
	}
	return tx.Commit()
}

// table is the name of a table of the index.
func (s *Store) table(name string) string { return s.sql.Table("triage_" + name) }

// readAll reads what a query finds.
func readAll[T any](ctx context.Context, db querier, query string, args []any, scan func(*sql.Rows) (T, error)) (found []T, err error) {
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		one, err := scan(rows)
		if err != nil {
			return nil, err
		}
		found = append(found, one)
	}
	return found, rows.Err()
}

// micros is the time of a moment in the database.
func micros(moment int64) int64 { return moment * 1000 }

// timeOfMicros is a time of the database.
func timeOfMicros(t int64) time.Time {
	if t == 0 {
		return time.Time{}
	}
	return time.UnixMicro(t).UTC()
}

// bytesOf is a text for a column of bytes: names of AMQP need not be in UTF-8.
func bytesOf(text string) []byte {
	if text == "" {
		return []byte{} // nil is NULL
	}
	return []byte(text)
}
