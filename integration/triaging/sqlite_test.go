//go:build !race

package triaging

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/rehop/rehop/dialect"
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
	"github.com/rehop/rehop/internal/conformance/triages"
	"github.com/rehop/rehop/internal/sqltext"
	"github.com/rehop/rehop/triage"
)

// The race detector makes SQLite, which is C turned into Go, very slow. make test runs this without it.
func TestSQLite(t *testing.T) {
	t.Parallel()
	triages.Run(t, func(t testing.TB) triages.Database { return standard(openSQLite(t), dialect.SQLite) })
}

// TestSQLiteIndex is TestIndex on SQLite.
func TestSQLiteIndex(t *testing.T) { measure(t, openSQLite(t), dialect.SQLite) }

// TestSQLiteKeep is TestKeep on SQLite. The disk is full instead of a server being killed.
func TestSQLiteKeep(t *testing.T) {
	t.Parallel()
	d := openSQLite(t)
	// The way back needs no space.
	testKeep(t, d, strike{"the disk is full", []triage.Action{triage.ActionKeep}, func(t *testing.T, k *keeping) {
		db, pages := d.Open(t), 0
		if _, err := db.ExecContext(k.ctx, "VACUUM"); err != nil { // no page is free
			t.Fatal(err)
		}
		if err := db.QueryRowContext(k.ctx, "PRAGMA page_count").Scan(&pages); err != nil {
			t.Fatal(err)
		}
		full := *d
		full.Source += fmt.Sprintf("&_pragma=max_page_count(%d)", pages)
		s := startServer(t, k.rabbit, &full)
		lab.Eventually(t, limit, "the disk is full", func() bool { return strings.Contains(s.errs.String(), "database or disk is full") })
		s.kill()
	}})
}

// Messages are not kept in a database that can lose them.
func TestSQLiteKeepNotDurable(t *testing.T) {
	t.Parallel()
	d := openSQLite(t)
	d.Source += "&_pragma=synchronous(OFF)"
	store, closeStore, err := openStore(kit.Context(t), d)
	if err != nil {
		t.Fatal(err)
	}
	defer closeStore()
	if _, err := store.StartRun(kit.Context(t), triage.RunPlan{Action: triage.ActionKeep, Actor: "ann"}); !errors.Is(err, dialect.ErrNotDurable) {
		t.Errorf("got %v, want %v", err, dialect.ErrNotDurable)
	}
}

func openSQLite(t testing.TB) *lab.Database { return sqliteFile(filepath.Join(t.TempDir(), "test.db")) }

// sqliteFile is a database with the options of rehop up.
func sqliteFile(path string) *lab.Database {
	return &lab.Database{Driver: "sqlite", Source: "file:" + path + "?" + sqltext.IndexOptions}
}
