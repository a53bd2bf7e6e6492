package triage

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
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
	// Logger receives warnings. Default: slog.Default().
	Logger *slog.Logger
}

// Store is an index of failed messages. It is safe for concurrent use, also by several processes.
type Store struct {
	db       *sql.DB
	sql      sqltext.SQL
	grouping Grouping
	durable  bool          // a commit survives a crash of the database
	writing  chan struct{} // has room for the one transaction of this process that writes
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
	if config.RequireDurable {
		if err := config.Dialect.CheckDurable(ctx, config.DB, true, cmp.Or(config.Logger, slog.Default())); err != nil {
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
	return &Store{db: config.DB, sql: text, grouping: config.Grouping, durable: config.RequireDurable, writing: make(chan struct{}, 1)}, nil
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
	result, err := tx.ExecContext(ctx, "UPDATE "+s.table("turn")+" SET turn = turn + 1 WHERE id = 1")
	if err != nil {
		return err
	}
	if n, err := result.RowsAffected(); err != nil || n != 1 {
		return fmt.Errorf("table %s has no row with id 1, by which writers wait for each other: insert it with turn 0 (%w)", s.sql.Tables.Bare("triage_turn"), err)
	}
	if err := tx.QueryRowContext(ctx, "SELECT "+s.sql.Now()).Scan(&w.now); err != nil {
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
