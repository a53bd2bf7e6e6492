package database_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rehop/rehop/cmd/rehop/internal/database"
	"github.com/rehop/rehop/dialect"
)

// URLs are understood, and shown without what is secret.
func TestParse(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]struct {
		dialect dialect.Dialect
		shown   string
	}{
		"postgres://u:secret@db:5433/shop?sslmode=disable": {dialect.Postgres, "postgres://db:5433/shop"},
		"postgresql://u:secret@db/shop":                    {dialect.Postgres, "postgresql://db/shop"},
		"mysql://u:secret@db/shop":                         {dialect.MySQL, "mysql://db/shop"},
		"mariadb://u:secret@[::1]:3307/shop?tls=true":      {dialect.MySQL, "mariadb://[::1]:3307/shop"},
		"sqlite:shop.db":                                   {dialect.SQLite, "sqlite:shop.db"},
		"sqlite:///var/lib/shop.db?_pragma=x":              {dialect.SQLite, "sqlite:/var/lib/shop.db"},
	} {
		source, err := database.Parse(url)
		if err != nil {
			t.Errorf("%s: %v", url, err)
			continue
		}
		if source.Dialect != want.dialect || source.String() != want.shown {
			t.Errorf("%s: got %s, %s; want %s, %s", url, source.Dialect, source, want.dialect, want.shown)
		}
		if text := fmt.Sprintf("%v %+v %#v", source, source, source); strings.Contains(text, "secret") {
			t.Errorf("%s: the password is in %q", url, text)
		}
		db, err := source.Open()
		if err != nil {
			t.Errorf("%s: open: %v", url, err)
			continue
		}
		_ = db.Close()
	}
}

// What is no URL of a database is refused, and not repeated.
func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"", "secret", "oracle://u:secret@db/x", "postgres://u:secret@db", "postgres://u:secret@/shop", "postgres://u:se cret%zz@db/shop",
		"mysql://u:secret@db", "mysql://u:secret@db/shop?tls=%zz", "sqlite:", "sqlite:?mode=secret"} {
		if source, err := database.Parse(url); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: got %v and %v, want an error that does not repeat it", url, source, err)
		}
	}
}

// A database that is opened by URL can be used.
func TestOpen(t *testing.T) {
	t.Parallel()
	source, err := database.Parse("sqlite:" + filepath.Join(t.TempDir(), "x.db"))
	if err != nil {
		t.Fatal(err)
	}
	db, err := source.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var mode string
	if err := db.QueryRowContext(t.Context(), "PRAGMA journal_mode").Scan(&mode); err != nil || mode != "wal" {
		t.Errorf("got journal mode %q, %v, want wal", mode, err)
	}
}

// Existing does not create a file, and changes nothing in one that is there.
func TestExisting(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "x.db")
	mode := func(url string, existing bool) (mode string, err error) {
		t.Helper()
		source, err := database.Parse(url)
		if err != nil {
			t.Fatal(err)
		}
		if existing {
			source = source.Existing()
		}
		db, err := source.Open()
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		err = db.QueryRowContext(t.Context(), "PRAGMA journal_mode").Scan(&mode)
		return mode, err
	}
	for _, url := range []string{"sqlite:" + file, "sqlite:" + file + "?_pragma=synchronous(OFF)"} {
		if _, err := mode(url, true); err == nil {
			t.Errorf("%s: got no error, want that it does not exist", url)
		}
		if _, err := os.Stat(file); !os.IsNotExist(err) {
			t.Errorf("%s: got %v, want that the file is not there", url, err)
		}
	}
	if _, err := mode("sqlite:"+file+"?_pragma=journal_mode(TRUNCATE)&_pragma=user_version(1)", false); err != nil {
		t.Fatal(err)
	}
	if got, err := mode("sqlite:"+file, true); err != nil || got != "delete" {
		t.Errorf("got journal mode %q, %v, want delete: it is not switched", got, err)
	}
	if got, err := mode("sqlite:"+file+"?mode=ro", true); err != nil || got != "delete" {
		t.Errorf("got journal mode %q, %v, want the database with the options of its URL", got, err)
	}
	source, err := database.Parse("postgres://u:secret@db/shop")
	if err != nil || source.Existing() != source {
		t.Errorf("got %v, %v, want the same database", source.Existing(), err)
	}
}
