package inbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/dialect"
	"github.com/rehop/rehop/internal/sqltext"
)

// Inbox remembers in a database which messages have had their effects there. It is safe for concurrent use.
type Inbox struct {
	// DB is the database that the handlers' effects are in.
	DB *sql.DB
	// Dialect of the database.
	Dialect dialect.Dialect
	// Tables are the names of the tables. Default: rehop_inbox and so on.
	Tables dialect.Tables
	// Begin begins the transaction that a handler runs in. Default: DB.BeginTx, with the database's default isolation; on MySQL with
	// autocommit=0, so that nothing is committed when the server has ended the transaction because of a deadlock and the handler goes on.
	Begin func(ctx context.Context) (Transaction, error)
	// Keep is for how long ids stay in the table. A copy that comes later is handled again, so it must be longer than a message
	// can be on its way: its whole retry schedule, and as long as you replay failed messages. Default: 30 days.
	Keep time.Duration
	// NoClean has the inbox not delete old ids by itself, for a database where only one program may: see Clean. Default: false.
	NoClean bool
	// MaxWait is how long a message waits in its worker while a copy of it is being handled, by another process for example, which may
	// hang. Then it waits on the broker for twice as long, without using an attempt, and the worker is free for others. Default: 5 s.
	MaxWait time.Duration
	// OnDuplicate is called for each message that is not handled because a copy of it was, on the
	// goroutine of its handler, before the message is acked. It must be quick and safe for concurrent
	// use. Default: none.
	OnDuplicate func(ctx context.Context, consumer string, d *rehop.Delivery)
	// Logger gets what no caller can be told. Default: slog.Default().
	Logger *slog.Logger
}

// Transaction is a transaction that a handler runs in. *sql.Tx is one.
type Transaction interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	Commit() error
	Rollback() error
}

// Middleware runs handlers in a transaction, once for each message id. It panics if a field of the Inbox is wrong. A message without id goes to the failed queue, because its
// copies could not be told. If the handler returns nil the transaction is committed; if it returns an error, panics, or the commit
// fails, it is rolled back and the error decides as usual. A copy that comes while the first is being handled waits for it, at most
// MaxWait in its worker and then on the broker. A handler whose transaction fails because of others at the same time (a deadlock, a
// serialization failure) is run again, a few times, before that counts as an attempt. While the
// database cannot be reached the subscription pauses, as after [rehop.Unavailable], also if it is lost while a handler runs or at
// commit.
//
// It cannot be combined with [rehop.Subscriber].Batch, whose messages would share a transaction and
// have outcomes of their own: Subscribe returns an error.
//
// The consumer is what tells several handlers of one message apart that use the same database. Do not change it: all that is
// remembered is remembered under its name. If it is empty, it is the name of the queue.
func (in Inbox) Middleware(consumer string) rehop.Middleware {
	if err := in.validate(); err != nil {
		panic(fmt.Sprintf("inbox: Middleware: %v", err))
	}
	if len(consumer) > maxName {
		panic(fmt.Sprintf("inbox: Middleware: consumer %q… is %d bytes long, the limit is %d", consumer[:32], len(consumer), maxName))
	}
	in = in.withDefaults()
	cleaner := &cleaner{inbox: in}
	return func(next rehop.Handler) rehop.Handler {
		return &handler{inbox: in, consumer: consumer, insert: in.sql().WriteDown(), next: next, cleaner: cleaner}
	}
}

// maxName is how long a consumer's name and a message's id may be, so that no database shortens them.
const maxName = 255

func (in Inbox) sql() sqltext.SQL { return sqltext.SQL{Dialect: in.Dialect, Tables: in.Tables} }

func (in Inbox) validate() error {
	var faults []error
	if in.DB == nil {
		faults = append(faults, errors.New("DB is nil"))
	}
	if err := in.sql().Check(); err != nil {
		faults = append(faults, err)
	}
	if in.MaxWait < 0 {
		faults = append(faults, fmt.Errorf("field MaxWait %v is negative", in.MaxWait))
	}
	if in.Keep < 0 {
		faults = append(faults, fmt.Errorf("field Keep %v is negative", in.Keep))
	}
	return errors.Join(faults...)
}

func (in Inbox) withDefaults() Inbox {
	if in.Begin == nil {
		in.Begin = in.begin
	}
	if in.Keep == 0 {
		in.Keep = 30 * 24 * time.Hour
	}
	if in.MaxWait == 0 {
		in.MaxWait = 5 * time.Second
	}
	if in.Logger == nil {
		in.Logger = slog.Default()
	}
	return in
}

type transactionKey struct{}

// From is the transaction that the handler runs in, or nil outside of a handler with an inbox.
func From(ctx context.Context) Transaction {
	tx, _ := ctx.Value(transactionKey{}).(Transaction)
	return tx
}

// Tx is From for handlers of an inbox whose Begin is not set.
func Tx(ctx context.Context) *sql.Tx {
	switch tx := From(ctx).(type) {
	case *sql.Tx:
		return tx
	case *uncommitted:
		return tx.Tx
	}
	return nil
}
