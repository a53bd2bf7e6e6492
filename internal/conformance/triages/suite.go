package triages

import (
	"context"
	"database/sql"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/rehop/rehop/dialect"
	"github.com/rehop/rehop/triage"
)

// Database is a fresh database without tables.
type Database struct {
	Dialect dialect.Dialect
	// Open opens a pool of connections, as another program would, that is closed with the test.
	Open func(t testing.TB) *sql.DB
	// Rounds is how many random operations and queries a case tries. Default: 60.
	Rounds int
}

// Case is one thing that a user can rely on.
type Case struct {
	Name string
	Run  func(t *testing.T, b *Bench)
}

type section struct {
	name  string
	cases []Case
}

func sections() []section {
	return []section{
		{"tables", tableCases()},
		{"put", putCases()},
		{"groups", groupCases()},
		{"reconcile", reconcileCases()},
		{"search", searchCases()},
		{"runs", runCases()},
		{"audit", auditCases()},
		{"clean", cleanCases()},
		{"random", randomCases()},
	}
}

// Run runs each case as a parallel subtest.
func Run(t *testing.T, fresh func(t testing.TB) Database) {
	for _, s := range sections() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			for _, c := range s.cases {
				t.Run(c.Name, func(t *testing.T) {
					t.Parallel()
					b := newBench(t, fresh(t))
					c.Run(t, b)
				})
			}
		})
	}
}

// limit is far longer than anything takes.
const limit = 5 * time.Minute

// Bench is a case's database with a store.
type Bench struct {
	Database
	t     testing.TB
	ctx   context.Context
	db    *sql.DB
	Store *triage.Store
}

func newBench(t testing.TB, d Database) *Bench {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	t.Cleanup(cancel)
	if d.Rounds == 0 {
		d.Rounds = 60
	}
	b := &Bench{Database: d, t: t, ctx: ctx, db: d.Open(t)}
	b.must(b.migration().Run(ctx, b.db))
	b.Store = b.open(triage.Config{})
	return b
}

func (b *Bench) migration() dialect.Migration {
	return dialect.Migration{Dialect: b.Dialect, Part: dialect.Triage}
}

// open opens a store as another program would.
func (b *Bench) open(config triage.Config) *triage.Store {
	b.t.Helper()
	config.DB, config.Dialect = b.db, b.Dialect
	store, err := triage.Open(b.ctx, config)
	b.must(err)
	return store
}

func (b *Bench) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *Bench) exec(query string, args ...any) {
	b.t.Helper()
	if _, err := b.db.ExecContext(b.ctx, b.Dialect.Bind(query), args...); err != nil {
		b.t.Fatalf("%s: %v", query, err)
	}
}

func equal[T any](b *Bench, what string, got, want T) {
	b.t.Helper()
	if !reflect.DeepEqual(got, want) {
		b.t.Errorf("%s: got %+v, want %+v", what, got, want)
	}
}

// put puts messages.
func (b *Bench) put(messages ...triage.Message) {
	b.t.Helper()
	b.must(b.Store.Put(b.ctx, messages))
}

// set sets the state of a message.
func (b *Bench) set(id string, state triage.State) {
	b.t.Helper()
	if state == triage.Kept {
		b.exec("INSERT INTO rehop_triage_kept (lineage, ordinal, line) SELECT lineage, ordinal, message_id FROM rehop_triage_message WHERE message_id = ?", []byte(id))
	}
	changed, err := b.Store.SetStates(b.ctx, triage.Change{Refs: []string{b.only("id:" + id).Ref}, To: state})
	b.must(err)
	equal(b, "changed", len(changed), 1)
}

// reconcile sweeps a queue that has some messages, in batches of two.
func (b *Bench) reconcile(queue string, messages ...triage.Message) triage.Reconciled {
	b.t.Helper()
	done, err := b.Store.Reconcile(b.ctx, queue, batches(messages, 2))
	b.must(err)
	return done
}

func batches(messages []triage.Message, size int) func(yield func([]triage.Message, error) bool) {
	return func(yield func([]triage.Message, error) bool) {
		for len(messages) > 0 {
			n := min(size, len(messages))
			if !yield(messages[:n], nil) {
				return
			}
			messages = messages[n:]
		}
	}
}

// search returns all messages that match a query, page by page.
func (b *Bench) search(query string) (found []triage.Message) {
	b.t.Helper()
	found, _ = b.searchAll(query, 3)
	return found
}

func (b *Bench) searchAll(query string, pageSize int) (found []triage.Message, first triage.Result) {
	b.t.Helper()
	q, err := triage.ParseQuery(query, noon)
	b.must(err)
	page := triage.Page{Limit: pageSize}
	for {
		r, err := b.Store.Search(b.ctx, q, page)
		b.must(err)
		if page.After == "" {
			first = r
		}
		found = append(found, r.Messages...)
		if page.After = r.Next; r.Next == "" {
			return found, first
		}
	}
}

// only returns the one message that matches a query, whole.
func (b *Bench) only(query string) triage.Message {
	b.t.Helper()
	found := b.search(query)
	if len(found) != 1 {
		b.t.Fatalf("%s: got %d messages, want 1", query, len(found))
	}
	m, err := b.Store.Message(b.ctx, found[0].Ref)
	b.must(err)
	return m
}

// count is the number of messages in a state.
func (b *Bench) count(state triage.State) int {
	b.t.Helper()
	return len(b.search("state:" + string(state)))
}

// check counts everything again.
func (b *Bench) check() {
	b.t.Helper()
	if err := b.Store.Check(b.ctx); err != nil {
		b.t.Error(err)
	}
}

// groups are all groups.
func (b *Bench) groups() []triage.Group {
	b.t.Helper()
	page, err := b.Store.Groups(b.ctx, triage.GroupFilter{Limit: 500})
	b.must(err)
	return page.Groups
}

// noon is the time at which queries are asked.
var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// failed is a message that has failed some minutes before noon.
func failed(id string, minutes int) triage.Message {
	return triage.Message{
		ID: id, Queue: "orders", FailedQueue: "orders.failed", Exchange: "shop", Key: "orders.created", Kind: "error", Error: "connection refused",
		Headers: map[string]any{"tenant": "t-7"}, Body: []byte(fmt.Sprintf(`{"order":{"id":%q}}`, id)), Attempts: 3,
		FailedAt: noon.Add(-time.Duration(minutes) * time.Minute), FirstFailed: noon.Add(-time.Duration(minutes+10) * time.Minute), Host: "web-1",
	}
}

func ids(messages []triage.Message) []string {
	all := make([]string, len(messages))
	for i, m := range messages {
		all[i] = m.ID
	}
	return all
}
