//go:build !race

package boxfaults

import (
	"path/filepath"
	"testing"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/rehop/rehop/dialect"
	"github.com/rehop/rehop/integration/lab"
)

// The race detector makes SQLite, which is C translated to Go, too slow. make test runs its tests without it.

func init() { targets = append(targets, target{"SQLite", "", sqliteStore, 0}) }

func TestBoxFaultsSQLite(t *testing.T) { stage{"SQLite", sqliteStore, embeddedBroker}.play(t) }

func TestOrderSQLite(t *testing.T) {
	stage{"SQLite", sqliteStore, embeddedBroker}.playInOrder(t)
}

// TestOrderIsAudited shows that TestOrder can fail.
func TestOrderIsAudited(t *testing.T) { stage{"SQLite", sqliteStore, embeddedBroker}.disorder(t) }

// sqliteStore is a file: there is no server to kill, and no connection to cut.
func sqliteStore(t testing.TB) store {
	t.Helper()
	source := "file:" + filepath.Join(t.TempDir(), "box.db") + "?_pragma=busy_timeout(20000)&_pragma=journal_mode(WAL)&_txlock=immediate"
	return store{Database: &lab.Database{Driver: "sqlite", Source: source}, speaks: dialect.SQLite, version: "SELECT sqlite_version()"}
}
