//go:build !race

package sqlboxes

import (
	"path/filepath"
	"strings"
	"testing"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/rehop/rehop/dialect"
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
	"github.com/rehop/rehop/internal/conformance/sqlbox"
)

// The race detector makes SQLite, which is C turned into Go, too slow for leases of a second. make test runs this without it.
func TestSQLite(t *testing.T) {
	t.Parallel()
	sqlbox.Run(t, dialect.SQLite, func(t testing.TB) sqlbox.Database {
		return standard(openSQLite(t), dialect.SQLite)
	})
}

// A process that is stopped is no matter here: with it stops everybody who needs the only lock that SQLite has for writers.
func TestSQLiteKilled(t *testing.T) {
	t.Parallel()
	killed(t, kind{"SQLite", openSQLite, dialect.SQLite})
}

func openSQLite(t testing.TB) *lab.Database {
	return &lab.Database{Driver: "sqlite", Source: "file:" + filepath.Join(t.TempDir(), "test.db") + sqliteOptions}
}

// sqliteOptions let writers wait for each other, and readers not wait for them.
const sqliteOptions = "?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)"

// With the journal that SQLite has by default, a crash of the machine can undo the last commit.
func TestSQLiteRollbackJournal(t *testing.T) {
	t.Parallel()
	for pragma, want := range map[string]string{"": "EXTRA", "?_pragma=synchronous(EXTRA)": "", "?_pragma=journal_mode(WAL)": ""} {
		db := (&lab.Database{Driver: "sqlite", Source: "file:" + filepath.Join(t.TempDir(), "test.db") + pragma}).Open(t)
		weak, err := dialect.SQLite.Durability(kit.Context(t), db)
		if err != nil {
			t.Fatal(err)
		}
		if want == "" && len(weak) > 0 || want != "" && (len(weak) != 1 || !strings.Contains(weak[0].Fix, want)) {
			t.Errorf("%q: got %v, want a weakness that %q fixes, if any", pragma, weak, want)
		}
	}
}
