package sqlbox

import (
	"context"
	"database/sql"
	"slices"
	"testing"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/dialect"
	"github.com/rehop/rehop/inbox"
	"github.com/rehop/rehop/outbox"
	"github.com/rehop/rehop/rehoptest"
)

// Database is a fresh database without tables, and how a program reaches it.
type Database struct {
	Dialect dialect.Dialect
	// Writing is for how long many writers write at once. Default: 3 s.
	Writing time.Duration
	// Open opens a pool of connections, as another program would, that is closed with the test.
	Open func(t testing.TB) *sql.DB
	// OpenWith is Open for connections with a setting of the server's. It is nil where servers have none.
	OpenWith func(t testing.TB, setting, value string) *sql.DB
	// Begin begins a transaction in which messages are published. Default: one of a pool.
	Begin func(ctx context.Context) (inbox.Transaction, error)
	// Waker wakes relays, and WakerOf those of tables with other names. Default: none.
	Waker   outbox.Waker
	WakerOf func(dialect.Tables) outbox.Waker
}

// Broker is a fresh broker.
type Broker interface {
	// Config is for clients of it.
	Config() rehop.Config
}

// Case is one thing that a user can rely on.
type Case struct {
	Name string
	Run  func(t *testing.T, b *Bench)
	// Faulty cases let the broker fail, which only the embedded one does at will.
	Faulty bool
	// Not has the dialects whose databases cannot do what the case needs.
	Not []dialect.Dialect
}

// The dialects whose databases let only one transaction write at a time, and all that are not PostgreSQL or MySQL.
var (
	oneWriter   = []dialect.Dialect{dialect.SQLite}
	notPostgres = []dialect.Dialect{dialect.MySQL, dialect.SQLite}
	notMySQL    = []dialect.Dialect{dialect.Postgres, dialect.SQLite}
)

type section struct {
	name  string
	cases []Case
}

func sections() []section {
	return []section{
		{"migrate", migrateCases()},
		{"publish", publishCases()},
		{"relay", relayCases()},
		{"poison", poisonCases()},
		{"standstill", standstillCases()},
		{"delay", delayCases()},
		{"order", orderCases()},
		{"lease", leaseCases()},
		{"inbox", inboxCases()},
		{"spill", spillCases()},
		{"restore", restoreCases()},
	}
}

// Run runs each case that a dialect's database can do as a parallel subtest, on an embedded broker.
func Run(t *testing.T, d dialect.Dialect, fresh func(t testing.TB) Database) {
	RunSome(t, d, nil, fresh)
}

// RunSome is Run for some sections; nil is all.
func RunSome(t *testing.T, d dialect.Dialect, names []string, fresh func(t testing.TB) Database) {
	some := sections()
	if names != nil {
		some = slices.DeleteFunc(some, func(s section) bool { return !slices.Contains(names, s.name) })
		if len(some) != len(names) {
			t.Fatalf("sections: got %v, want names of sections only", names)
		}
	}
	run(t, d, some, func(t *testing.T, c Case) { runEmbedded(t, c, fresh) })
}

// runEmbedded runs a case on an embedded broker.
func runEmbedded(t *testing.T, c Case, fresh func(t testing.TB) Database) {
	embedded := rehoptest.Open(t)
	b := newBench(t, fresh(t), embedded)
	b.Faults = embedded
	c.Run(t, b)
}

// RunDisk runs the cases that ask PostgreSQL what is on disk, one after the other. Whatever commits on the same server at the same time has
// all before it put on disk, and can hide a mistake: so fresh must use a server that nobody else uses.
func RunDisk(t *testing.T, fresh func(t testing.TB) Database) {
	for _, c := range diskCases() {
		t.Run(c.Name, func(t *testing.T) { runEmbedded(t, c, fresh) })
	}
}

// RunOn runs the cases of some sections in which the broker does not fail on another broker.
func RunOn(t *testing.T, d dialect.Dialect, fresh func(t testing.TB) Database, broker func(t testing.TB) Broker, names ...string) {
	var some []section
	for _, s := range sections() {
		if slices.Contains(names, s.name) {
			s.cases = slices.DeleteFunc(s.cases, func(c Case) bool { return c.Faulty })
			some = append(some, s)
		}
	}
	if len(some) != len(names) {
		t.Fatalf("sections: got %v, want names of sections only", names)
	}
	run(t, d, some, func(t *testing.T, c Case) { c.Run(t, newBench(t, fresh(t), broker(t))) })
}

func run(t *testing.T, d dialect.Dialect, some []section, each func(t *testing.T, c Case)) {
	for _, s := range some {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			for _, c := range s.cases {
				if slices.Contains(c.Not, d) {
					continue
				}
				t.Run(c.Name, func(t *testing.T) {
					t.Parallel()
					each(t, c)
				})
			}
		})
	}
}
