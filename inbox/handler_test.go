package inbox

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/dialect"
)

// scripted is a database with one answer for each thing that can be asked. It keeps what was.
type scripted struct {
	begin, insert, commit, rollback error
	known                           bool // the message was written down before
	rolledBack                      bool // by the database, and what was written down is gone
	away                            bool // it does not answer any more
	locked                          int  // times that somebody else has written the same
	asked                           []string
	duplicates                      []string
}

// Connect and Driver are for the pool.
func (s *scripted) Connect(context.Context) (driver.Conn, error) {
	s.asked = append(s.asked, "ping")
	if s.away {
		return nil, errors.New("away")
	}
	return connection{s}, nil
}

func (s *scripted) Driver() driver.Driver { return nil }

// Prepare and Close make it a connection, which is not asked anything.
func (s *scripted) Prepare(string) (driver.Stmt, error) { return nil, errors.ErrUnsupported }

func (s *scripted) Close() error { return nil }

// connection is the part of a scripted database that a pool has.
type connection struct{ *scripted }

func (connection) Begin() (driver.Tx, error) { return nil, errors.ErrUnsupported }

// pool is one whose connections are those of the database.
func (s *scripted) pool(t *testing.T) *sql.DB {
	db := sql.OpenDB(s)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func (s *scripted) Begin(context.Context) (Transaction, error) {
	s.asked = append(s.asked, "begin")
	return s, s.begin
}

func (s *scripted) ExecContext(_ context.Context, query string, args ...any) (sql.Result, error) {
	if strings.HasPrefix(query, "UPDATE") {
		s.asked = append(s.asked, "look")
		return inserted(!s.rolledBack), nil
	}
	s.asked = append(s.asked, "insert")
	if s.locked > 0 {
		s.locked--
		return nil, errors.New("Error 1205 (HY000): Lock wait timeout exceeded")
	}
	return inserted(!s.known), s.insert
}

// inserted is whether a row was changed.
type inserted bool

func (inserted) LastInsertId() (int64, error) { return 7, nil }

func (i inserted) RowsAffected() (int64, error) {
	if i {
		return 1, nil
	}
	return 0, nil
}

func (s *scripted) Commit() error {
	s.asked = append(s.asked, "commit")
	return s.commit
}

func (s *scripted) Rollback() error {
	s.asked = append(s.asked, "rollback")
	return s.rollback
}

func (s *scripted) OnDuplicate(_ context.Context, consumer string, d *rehop.Delivery) {
	s.duplicates = append(s.duplicates, consumer+" "+d.ID)
}

// deadlocked is an error as drivers for PostgreSQL have it.
type deadlocked struct{}

func (deadlocked) Error() string    { return "deadlock detected" }
func (deadlocked) SQLState() string { return "40P01" }

var errAny = errors.New("any error")

func TestHandle(t *testing.T) {
	oops := errors.New("oops")
	for _, c := range []struct {
		name      string
		database  scripted
		id        string
		handler   error
		mysql     bool
		want      error
		pauses    bool // the subscription, and no attempt is used
		postpones bool // the message, and no attempt is used
		asked     string
		runs      int
	}{
		{name: "Nil", id: "1", asked: "begin insert handle commit", runs: 1},
		{name: "Error", id: "1", handler: oops, want: oops, asked: "begin insert handle rollback", runs: 1},
		{name: "Duplicate", id: "1", database: scripted{known: true}, asked: "begin insert look commit"},
		{name: "CommitFails", id: "1", database: scripted{commit: oops}, want: oops, asked: "begin insert handle commit ping", runs: 1},
		{name: "CommitLost", id: "1", database: scripted{commit: oops, away: true}, want: oops, pauses: true, asked: "begin insert handle commit ping", runs: 1},
		{name: "BeginFails", id: "1", database: scripted{begin: oops}, want: oops, pauses: true, asked: "begin begin begin"},
		{name: "InsertFails", id: "1", database: scripted{insert: oops}, want: oops, pauses: true, asked: "begin insert rollback begin insert rollback begin insert rollback"},
		{name: "ConnectionLost", id: "1", database: scripted{rollback: oops}, handler: oops, want: oops, asked: "begin insert handle rollback ping", runs: 1},
		{name: "DatabaseLost", id: "1", database: scripted{rollback: oops, away: true}, handler: oops, want: oops, pauses: true, asked: "begin insert handle rollback ping", runs: 1},
		{name: "MySQL", id: "1", mysql: true, asked: "begin insert handle look commit", runs: 1},
		{name: "RolledBack", id: "1", mysql: true, database: scripted{rolledBack: true}, want: errAny, asked: "begin insert handle look rollback", runs: 1},
		{name: "Locked", id: "1", mysql: true, database: scripted{locked: 5}, asked: strings.Repeat("begin insert rollback ", 5) + "begin insert handle look commit", runs: 1},
		{name: "LockedForLong", id: "1", mysql: true, database: scripted{locked: 10_000}, want: errAny, postpones: true},
		{name: "Busy", id: "1", database: scripted{known: true, rolledBack: true}, want: errAny, postpones: true},
		{name: "DuplicateNotOnDisk", id: "1", database: scripted{known: true, commit: oops}, want: oops, asked: "begin insert look commit ping"},
		{name: "DeadlockThatIsPermanent", id: "1", handler: rehop.Permanent(deadlocked{}), want: errAny, asked: "begin insert handle rollback", runs: 1},
		{name: "Deadlock", id: "1", handler: deadlocked{}, want: errAny, asked: strings.TrimSpace(strings.Repeat("begin insert handle rollback ", 5)), runs: 5},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // it pauses between tries
				db := &c.database
				in := Inbox{DB: db.pool(t), Dialect: dialect.Postgres, Begin: db.Begin, OnDuplicate: db.OnDuplicate, ManualClean: true}
				if c.mysql {
					in.Dialect = dialect.MySQL
				}
				runs := 0
				handler := in.Middleware("")(rehop.HandlerFunc(func(ctx context.Context, _ *rehop.Delivery) error {
					runs++
					db.asked = append(db.asked, "handle")
					if From(ctx) != Transaction(db) {
						t.Errorf("transaction of the handler: got %v, want the one that was begun", From(ctx))
					}
					return c.handler
				}))
				err := handler.Handle(t.Context(), &rehop.Delivery{Queue: "q", Message: rehop.Message{ID: c.id}})
				if !errors.Is(err, c.want) && (err == nil || c.want != errAny) {
					t.Errorf("error: got %v, want %v", err, c.want)
				}
				if pauses := err != nil && reflect.DeepEqual(err, rehop.Unavailable(errors.Unwrap(err))); pauses != c.pauses {
					t.Errorf("the subscription pauses: got %v, want %v", pauses, c.pauses)
				}
				if postpones := err != nil && reflect.DeepEqual(err, rehop.Postpone(10*time.Second, errors.Unwrap(err))); postpones != c.postpones {
					t.Errorf("the message is postponed: got %v, want %v", postpones, c.postpones)
				}
				if got := strings.Join(db.asked, " "); c.asked != "" && got != c.asked || runs != c.runs {
					t.Errorf("got %q with %d runs, want %q with %d", got, runs, c.asked, c.runs)
				}
				if want := c.database.known && c.want == nil; slices.Equal(db.duplicates, []string{"q 1"}) != want {
					t.Errorf("duplicates: got %q, want one: %v", db.duplicates, want)
				}
			})
		})
	}
}

// A handler whose time is shorter than MaxWait still postpones a message of which a copy is being handled: to run out of time would use an
// attempt.
func TestBusyPostponesBeforeTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := &scripted{known: true, rolledBack: true}
		in := Inbox{DB: db.pool(t), Dialect: dialect.Postgres, Begin: db.Begin, MaxWait: time.Hour, ManualClean: true}
		handler := in.Middleware("")(rehop.HandlerFunc(func(context.Context, *rehop.Delivery) error { return errors.New("the handler has run") }))
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		err := handler.Handle(ctx, &rehop.Delivery{Queue: "q", Message: rehop.Message{ID: "1"}})
		if !reflect.DeepEqual(err, rehop.Postpone(2*time.Hour, errors.Unwrap(err))) || ctx.Err() != nil {
			t.Errorf("got %v with context %v, want the message to be postponed in time", err, ctx.Err())
		}
	})
}

// A message without an id is not handled, and not tried again.
func TestWithoutID(t *testing.T) {
	db := &scripted{}
	in := Inbox{DB: &sql.DB{}, Dialect: dialect.SQLite, Begin: db.Begin, ManualClean: true}
	handler := in.Middleware("c")(rehop.HandlerFunc(func(context.Context, *rehop.Delivery) error {
		t.Error("the handler has run")
		return nil
	}))
	for _, id := range []string{"", strings.Repeat("x", maxName+1)} {
		err := handler.Handle(t.Context(), &rehop.Delivery{Message: rehop.Message{ID: id}})
		if err == nil || !strings.Contains(err.Error(), "id") {
			t.Errorf("id of %d bytes: got %v, want an error about it", len(id), err)
		}
	}
	if len(db.asked) > 0 {
		t.Errorf("asked of the database: got %q, want nothing", db.asked)
	}
}

func TestPanicRollsBack(t *testing.T) {
	db := &scripted{}
	in := Inbox{DB: &sql.DB{}, Dialect: dialect.SQLite, Begin: db.Begin, ManualClean: true}
	handler := in.Middleware("c")(rehop.HandlerFunc(func(context.Context, *rehop.Delivery) error { panic("oh") }))
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was swallowed")
			}
		}()
		_ = handler.Handle(t.Context(), &rehop.Delivery{Message: rehop.Message{ID: "1"}})
	}()
	if got := strings.Join(db.asked, " "); got != "begin insert rollback" {
		t.Errorf("got %q, want a rollback", got)
	}
}

func TestMiddlewareNamesAllFaults(t *testing.T) {
	defer func() {
		text, _ := recover().(string)
		for _, want := range []string{"DB is nil", `dialect "oracle"`, "Keep"} {
			if !strings.Contains(text, want) {
				t.Errorf("got %q, want it to name %s", text, want)
			}
		}
	}()
	Inbox{Dialect: "oracle", Keep: -1}.Middleware("c")
}

// The messages of a batch would share one transaction and have outcomes of their own, so an inbox cannot be combined with one.
func TestBatchIsRefused(t *testing.T) {
	t.Parallel()
	in := Inbox{DB: new(scripted).pool(t), Dialect: dialect.Postgres}
	_, err := rehop.Topology(rehop.Config{}, rehop.Subscriber{Queue: "q", Middleware: []rehop.Middleware{in.Middleware("")},
		Batch: rehop.Batch{Handle: func(context.Context, []*rehop.Delivery) error { return nil }}})
	if err == nil || !strings.Contains(err.Error(), "Middleware cannot be combined with Batch") || !strings.Contains(err.Error(), "inbox") {
		t.Errorf("got %v, want an error about the inbox and the batch", err)
	}
}
