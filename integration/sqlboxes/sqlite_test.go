//go:build !race

package sqlboxes

import (
	"path/filepath"
	"testing"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/rehop/rehop/dialect"
	"github.com/rehop/rehop/integration/lab"
	"github.com/rehop/rehop/internal/conformance/sqlbox"
)

// The race detector makes SQLite, which is C turned into Go, too slow for leases of a second. make test runs this without it.
func TestSQLite(t *testing.T) {
	t.Parallel()
	sqlbox.Run(t, dialect.SQLite, func(t testing.TB) sqlbox.Database {
		path := filepath.Join(t.TempDir(), "test.db")
		return standard(&lab.Database{Driver: "sqlite", Source: "file:" + path + sqliteOptions}, dialect.SQLite)
	})
}

// sqliteOptions let writers wait for each other, and readers not wait for them.
const sqliteOptions = "?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)"
