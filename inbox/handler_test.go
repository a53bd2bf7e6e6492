package inbox

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/dialect"
)

// scripted is a database with one answer for each thing that can be asked. It keeps what was.
type scripted struct {
	begin, insert, commit error
	known                 bool // the message was written down before
	asked                 []string
	duplicates            []string
}

func (s *scripted) Begin(context.Context) (Transaction, error) {
	s.asked = append(s.asked, "begin")
	return s, s.begin
}

func (s *scripted) ExecContext(_ context.Context, query string, args ...any) (sql.Result, error) {
	s.asked = append(s.asked, "insert")
	if s.known {
		return driver.RowsAffected(0), s.insert
	}
	return driver.RowsAffected(1), s.insert
}

func (s *scripted) Commit() error {
	s.asked = append(s.asked, "commit")
	return s.commit
}

func (s *scripted) Rollback() error {
	s.asked = append(s.asked, "rollback")
	return nil
}

func (s *scripted) OnDuplicate(_ context.Context, consumer string, d *rehop.Delivery) {
	s.duplicates = append(s.duplicates, consumer+" "+d.ID)
}

func TestHandle(t *testing.T) {
	oops := errors.New("oops")
	for _, c := range []struct {
		name     string
		database scripted
		id       string
		handler  error
		want     error
		asked    string
		runs     int
	}{
		{name: "Nil", id: "1", asked: "begin insert handle commit", runs: 1},
		{name: "Error", id: "1", handler: oops, want: oops, asked: "begin insert handle rollback", runs: 1},
		{name: "Duplicate", id: "1", database: scripted{known: true}, asked: "begin insert rollback"},
		{name: "CommitFails", id: "1", database: scripted{commit: oops}, want: oops, asked: "begin insert handle commit", runs: 1},
		{name: "BeginFails", id: "1", database: scripted{begin: oops}, want: oops, asked: "begin begin begin"},
		{name: "InsertFails", id: "1", database: scripted{insert: oops}, want: oops, asked: "begin insert rollback begin insert rollback begin insert rollback"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // it pauses between tries
				db := &c.database
				in := Inbox{DB: &sql.DB{}, Dialect: dialect.SQLite, Begin: db.Begin, Hooks: []Hook{db}}
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
				if !errors.Is(err, c.want) {
					t.Errorf("error: got %v, want %v", err, c.want)
				}
				if got := strings.Join(db.asked, " "); got != c.asked || runs != c.runs {
					t.Errorf("got %q with %d runs, want %q with %d", got, runs, c.asked, c.runs)
				}
				if want := c.database.known; slices.Equal(db.duplicates, []string{"q 1"}) != want {
					t.Errorf("duplicates: got %q, want one: %v", db.duplicates, want)
				}
			})
		})
	}
}

// A message that cannot be told from others is not handled, and not tried again.
func TestWithoutID(t *testing.T) {
	db := &scripted{}
	in := Inbox{DB: &sql.DB{}, Dialect: dialect.SQLite, Begin: db.Begin}
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
	in := Inbox{DB: &sql.DB{}, Dialect: dialect.SQLite, Begin: db.Begin}
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
