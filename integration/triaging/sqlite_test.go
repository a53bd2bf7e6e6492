//go:build !race

package triaging

import (
	"path/filepath"
	"testing"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/rehop/rehop/dialect"
	"github.com/rehop/rehop/integration/lab"
	"github.com/rehop/rehop/internal/conformance/triages"
)

// The race detector makes SQLite, which is C turned into Go, very slow. make test runs this without it.
func TestSQLite(t *testing.T) {
	t.Parallel()
	triages.Run(t, func(t testing.TB) triages.Database { return standard(openSQLite(t), dialect.SQLite) })
}

// TestSQLiteIndex is TestIndex on SQLite.
func TestSQLiteIndex(t *testing.T) { measure(t, openSQLite(t), dialect.SQLite) }

func openSQLite(t testing.TB) *lab.Database { return sqliteFile(filepath.Join(t.TempDir(), "test.db")) }

// sqliteFile is a database in which writers wait for each other, and readers do not wait for them.
func sqliteFile(path string) *lab.Database {
	return &lab.Database{Driver: "sqlite", Source: "file:" + path + "?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)"}
}
