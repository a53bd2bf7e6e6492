package inbox

import (
	"cmp"
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

// Inbox records handled messages in a database, so that a handler's changes there are applied once. It is safe for concurrent use.
type Inbox struct {
	// DB is the database that the handlers write to. Required.
	DB *sql.DB
	// Dialect is the kind of database. Required.
	Dialect dialect.Dialect
	// Tables are the names of rehop's tables. Default: rehop_inbox and so on.
	Tables dialect.Tables
	// Begin begins the transaction that a handler runs in. Set it to use another isolation level, or the transactions of another library.
	// Default: DB.BeginTx, with the database's default isolation. On MySQL the default also sets autocommit=0, so that nothing is
	// committed if the server rolls the transaction back because of a deadlock and the handler continues.
	Begin func(ctx context.Context) (Transaction, error)
	// Keep is how long ids stay in the table. A copy that arrives later is handled again, so Keep must be longer than a message can be
	// on its way: the whole retry schedule, and as long as you replay failed messages. Default: 30 days.
	Keep time.Duration
	// ManualClean stops handlers from deleting old ids as they run. Set it if only one program may delete them, and call Clean there.
	// Default: handlers delete them.
	ManualClean bool
	// MaxWait is how long a message waits in its worker while a copy of it is being handled, for example by another process, which may
	// hang. After that the message waits on the broker for twice as long, without using an attempt, and the worker handles other
	// messages. A message never waits longer than half of its handler's timeout. Default: 5 s.
	MaxWait time.Duration
	// OnDuplicate is called for each message that is not handled because a copy of it was, on the goroutine of its handler, before the
	// message is acked. It must be quick and safe for concurrent use. Default: none.
	OnDuplicate func(ctx context.Context, consumer string, d *rehop.Delivery)
	// Logger receives errors that cannot be returned to a caller. Default: slog.Default().
	Logger *slog.Logger
}

// Transaction is a transaction that a handler runs in, such as a *sql.Tx.
type Transaction interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	Commit() error
	Rollback() error
}

// Middleware returns a middleware that runs a handler in a transaction, once for each message id.
//
// If the handler returns nil, the transaction is committed. If it returns an error, panics, or the commit fails, the transaction is
// rolled back, and the error decides about the message as usual. If the transaction fails because of other transactions (a deadlock, a
// serialization failure), the handler runs again, 5 times in all, before that counts as an attempt. While the database cannot be
// reached, the subscription pauses, as after [rehop.Unavailable]. That includes a database that is lost while a handler runs, or at
// commit.
//
// A copy that arrives while the first is being handled waits for it: see MaxWait. A message without an id goes to the failed queue,
// because its copies could not be recognized.
//
// The consumer distinguishes handlers that use the same database and receive the same message. Do not change it: ids are recorded
// under its name, and messages that were handled under another name are handled again. Default: the name of the queue.
//
// Middleware panics if a field of the Inbox is invalid, or if the consumer has more than 255 bytes. It cannot be combined with
// [rehop.Subscriber].Batch: use [Inbox.BatchHandler] there.
func (in Inbox) Middleware(consumer string) rehop.Middleware {
	in = in.mustBeValid("Middleware", consumer)
	cleaner := &cleaner{inbox: in}
	return func(next rehop.Handler) rehop.Handler {
		return &handler{inbox: in, consumer: consumer, insert: in.sql().WriteDown(), next: next, cleaner: cleaner}
	}
}

// mustBeValid returns the Inbox with its defaults. It panics if a field or the name of a consumer is invalid.
func (in Inbox) mustBeValid(method, consumer string) Inbox {
	if err := in.validate(); err != nil {
		panic(fmt.Sprintf("inbox: %s: %v", method, err))
	}
	if len(consumer) > maxName {
		panic(fmt.Sprintf("inbox: %s: consumer %q… is %d bytes long, the limit is %d", method, consumer[:32], len(consumer), maxName))
	}
	return in.withDefaults()
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
	in.Keep = cmp.Or(in.Keep, 30*24*time.Hour)
	in.MaxWait = cmp.Or(in.MaxWait, 5*time.Second)
	in.Logger = cmp.Or(in.Logger, slog.Default())
	return in
}

type transactionKey struct{}

// From returns the transaction that the handler runs in, or nil if ctx is not the context of a handler with an inbox.
func From(ctx context.Context) Transaction {
	tx, _ := ctx.Value(transactionKey{}).(Transaction)
	return tx
}

// Tx returns the transaction that the handler runs in as a *sql.Tx. It returns nil if ctx is not the context of a handler with an inbox,
// or if the inbox has a Begin that returns another type: use From then.
func Tx(ctx context.Context) *sql.Tx {
	switch tx := From(ctx).(type) {
	case *sql.Tx:
		return tx
	case *uncommitted:
		return tx.Tx
	}
	return nil
}
