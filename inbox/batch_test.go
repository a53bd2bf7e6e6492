package inbox

import (
	"context"
	"database/sql"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/dialect"
	"github.com/rehop/rehop/internal/consume"
)

// ledger is a database that has ids, and one transaction at a time.
type ledger struct {
	ids     []string  // that are committed
	busy    []string  // that another transaction has recorded, which has not ended
	ends    time.Time // when that one commits; zero: never
	written []string  // in this transaction
	commits []error   // of each commit, the first first; nil where there is none
	log     []string
}

func (l *ledger) Begin(context.Context) (Transaction, error) {
	l.written = nil
	return l, nil
}

func (l *ledger) ExecContext(_ context.Context, query string, args ...any) (sql.Result, error) {
	if !l.ends.IsZero() && !time.Now().Before(l.ends) {
		l.ids, l.busy, l.ends = append(l.ids, l.busy...), nil, time.Time{}
	}
	id := string(args[1].([]byte))
	if strings.HasPrefix(query, "UPDATE") {
		return inserted(slices.Contains(l.ids, id)), nil
	}
	if slices.Contains(l.busy, id) || slices.Contains(l.ids, id) {
		return inserted(false), nil
	}
	l.written = append(l.written, id)
	return inserted(true), nil
}

func (l *ledger) Commit() error {
	if len(l.commits) > 0 {
		err := l.commits[0]
		if l.commits = l.commits[1:]; err != nil {
			l.log = append(l.log, "no commit")
			return err
		}
	}
	l.ids = append(l.ids, l.written...)
	l.log = append(l.log, "commit")
	return nil
}

func (l *ledger) Rollback() error {
	l.log = append(l.log, "rollback")
	return nil
}

func deliveries(ids ...string) (all []*rehop.Delivery) {
	for _, id := range ids {
		all = append(all, &rehop.Delivery{Queue: "q", Message: rehop.Message{ID: id}})
	}
	return all
}

// A batch is handled in one transaction. What has failed is left out of the next one, so that the others are committed.
func TestBatch(t *testing.T) {
	oops := errors.New("oops")
	entry := func(n, i int, err error) error {
		each := &rehop.BatchError{Errors: make([]error, n)}
		if err != nil {
			each.Errors[i] = err
		}
		return each
	}
	permanent, unavailable := rehop.Permanent(oops), rehop.Unavailable(entry(3, 1, rehop.Discard(oops)))
	for name, c := range map[string]struct {
		database ledger
		ids      string
		answers  []error // of each call of the function
		log      string  // with the ids of each call
		recorded string  // ids in the end
		failed   map[int]error
		pauses   bool // the subscription
	}{
		"all are new":           {ids: "c b a", log: "cba commit", recorded: "a b c"},
		"one is known":          {database: ledger{ids: []string{"b"}}, ids: "c b a", log: "ca commit duplicate b", recorded: "b a c"},
		"all are known":         {database: ledger{ids: []string{"a", "b"}}, ids: "a b", log: "commit duplicate a duplicate b", recorded: "a b"},
		"an error":              {ids: "a b", answers: []error{oops}, log: "ab rollback", failed: map[int]error{0: oops, 1: oops}},
		"an error, one known":   {database: ledger{ids: []string{"b"}}, ids: "a b c", answers: []error{oops}, log: "ac rollback commit duplicate b", recorded: "b", failed: map[int]error{0: oops, 2: oops}},
		"one fails":             {ids: "a b c", answers: []error{entry(3, 1, permanent)}, log: "abc rollback ac commit", recorded: "a c", failed: map[int]error{1: permanent}},
		"one, then another":     {ids: "a b c", answers: []error{entry(3, 0, permanent), entry(2, 1, oops)}, log: "abc rollback bc rollback b commit", recorded: "b", failed: map[int]error{0: permanent, 2: oops}},
		"one, then all":         {ids: "a b c", answers: []error{entry(3, 0, permanent), oops}, log: "abc rollback bc rollback", failed: map[int]error{0: permanent, 1: oops, 2: oops}},
		"no entry":              {ids: "a b", answers: []error{entry(2, 0, nil)}, log: "ab commit", recorded: "a b"},
		"around a BatchError":   {database: ledger{ids: []string{"b"}}, ids: "a b", answers: []error{unavailable}, log: "a rollback commit duplicate b", recorded: "b", failed: map[int]error{0: errAny}, pauses: true},
		"no id":                 {ids: "a - b", log: "ab commit", recorded: "a b", failed: map[int]error{1: errAny}},
		"deadlock":              {ids: "a b", answers: []error{deadlocked{}}, log: "ab rollback ab commit", recorded: "a b"},
		"deadlock of one":       {ids: "a b", answers: []error{entry(2, 1, deadlocked{})}, log: "ab rollback ab commit", recorded: "a b"},
		"deadlocks":             {ids: "a b", answers: slices.Repeat([]error{deadlocked{}}, 5), log: strings.TrimSpace(strings.Repeat("ab rollback ", 5)), failed: map[int]error{0: deadlocked{}, 1: deadlocked{}}},
		"commit fails":          {database: ledger{ids: []string{"b"}, commits: []error{oops}}, ids: "a b", log: "a no commit", recorded: "b", failed: map[int]error{0: oops, 1: oops}},
		"commit conflicts":      {database: ledger{commits: []error{deadlocked{}}}, ids: "a b", log: "ab no commit ab commit", recorded: "a b"},
		"a copy is in progress": {database: ledger{busy: []string{"b"}}, ids: "a b c", log: "ac commit", recorded: "a c", failed: map[int]error{1: errBusy}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // it pauses between tries
				db, calls := &c.database, 0
				in := Inbox{DB: new(scripted).pool(t), Dialect: dialect.Postgres, Begin: db.Begin, ManualClean: true,
					OnDuplicate: func(_ context.Context, _ string, d *rehop.Delivery) { db.log = append(db.log, "duplicate "+d.ID) }}
				handle := in.BatchHandler("", func(ctx context.Context, fresh []*rehop.Delivery) error {
					ids := ""
					for _, d := range fresh {
						ids += d.ID
					}
					db.log = append(db.log, ids)
					if From(ctx) != Transaction(db) {
						t.Errorf("transaction of the handler: got %v, want the one that was begun", From(ctx))
					}
					if calls++; calls <= len(c.answers) {
						return c.answers[calls-1]
					}
					return nil
				})
				all := deliveries(strings.Fields(c.ids)...)
				for _, d := range all {
					d.ID = strings.Trim(d.ID, "-")
				}
				err := handle(t.Context(), all)
				each, is := err.(*rehop.BatchError)
				switch {
				case !is && (err != nil || len(c.failed) > 0):
					t.Fatalf("got %v, want a BatchError with %v", err, c.failed)
				case is:
					for i, err := range each.Errors {
						if want := c.failed[i]; !errors.Is(err, want) && (err == nil || want != errAny) {
							t.Errorf("message %q: got %v, want %v", all[i].ID, err, want)
						}
					}
				}
				log := slices.DeleteFunc(db.log, func(s string) bool { return s == "" })
				if got := strings.Join(log, " "); len(db.busy) == 0 && got != c.log || !strings.HasPrefix(got, c.log) {
					t.Errorf("got %q, want %q", got, c.log)
				}
				if got := strings.Join(db.ids, " "); got != c.recorded {
					t.Errorf("recorded: got %q, want %q", got, c.recorded)
				}
				for i, err := range c.failed {
					if does := consume.AnswerOf(each.Errors[i]).Does; err == errBusy && does != consume.Postpone || c.pauses && does != consume.Pause {
						t.Errorf("message %q: got %v, want it to be postponed, or a pause: %v", all[i].ID, each.Errors[i], c.pauses)
					}
				}
			})
		})
	}
}

// A copy that is in progress elsewhere holds up no other message of its batch, and is a duplicate if that has ended in time.
func TestBatchWaitsForCopy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := &ledger{busy: []string{"b"}}
		in := Inbox{DB: new(scripted).pool(t), Dialect: dialect.Postgres, Begin: db.Begin, ManualClean: true,
			OnDuplicate: func(_ context.Context, _ string, d *rehop.Delivery) { db.log = append(db.log, "duplicate "+d.ID) }}
		began := time.Now()
		handle := in.BatchHandler("", func(_ context.Context, fresh []*rehop.Delivery) error {
			if len(fresh) != 2 || time.Since(began) > 0 {
				t.Errorf("got %d messages after %v, want 2 at once", len(fresh), time.Since(began))
			}
			db.ends = time.Now().Add(3 * time.Second)
			return nil
		})
		if err := handle(t.Context(), deliveries("a", "b", "c")); err != nil || !slices.Contains(db.log, "duplicate b") {
			t.Errorf("got %v and %q, want nil, and a duplicate", err, db.log)
		}
		db.busy, db.ids = []string{"b"}, nil
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
		defer cancel()
		err := in.BatchHandler("", func(context.Context, []*rehop.Delivery) error { return nil })(ctx, deliveries("b"))
		each, is := err.(*rehop.BatchError)
		if !is || !reflect.DeepEqual(each.Errors[0], rehop.Postpone(10*time.Second, errors.Unwrap(each.Errors[0]))) || ctx.Err() != nil {
			t.Errorf("got %v with context %v, want the message to be postponed in time", err, ctx.Err())
		}
	})
}

func TestBatchPanicRollsBack(t *testing.T) {
	db := &ledger{}
	in := Inbox{DB: &sql.DB{}, Dialect: dialect.Postgres, Begin: db.Begin, ManualClean: true}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was swallowed")
			}
		}()
		_ = in.BatchHandler("c", func(context.Context, []*rehop.Delivery) error { panic("oh") })(t.Context(), deliveries("a", "b"))
	}()
	if !slices.Equal(db.log, []string{"rollback"}) || db.ids != nil {
		t.Errorf("got %q and %q recorded, want a rollback", db.log, db.ids)
	}
}
