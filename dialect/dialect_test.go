package dialect

import (
	"strings"
	"testing"
)

var all = []Dialect{Postgres, MySQL, SQLite}

func TestBind(t *testing.T) {
	const query = "SELECT ? FROM t WHERE a = ? AND b IN (?, ?)"
	for _, d := range all {
		want := query
		if d == Postgres {
			want = "SELECT $1 FROM t WHERE a = $2 AND b IN ($3, $4)"
		}
		if got := d.Bind(query); got != want {
			t.Errorf("%s: got %q, want %q", d, got, want)
		}
	}
}

func TestCheck(t *testing.T) {
	for _, d := range all {
		if err := d.Check(); err != nil {
			t.Errorf("%s: got %v, want nil", d, err)
		}
	}
	for _, d := range []Dialect{"", "oracle"} {
		if err := d.Check(); err == nil || !strings.Contains(err.Error(), "dialect.Postgres") {
			t.Errorf("%q: got %v, want an error that says what there is", string(d), err)
		}
		if _, err := d.SQL(0); err == nil {
			t.Errorf("%q: got SQL, want an error", string(d))
		}
		if err := d.Migrate(t.Context(), nil); err == nil {
			t.Errorf("%q: migrate: got nil, want an error", string(d))
		}
	}
}

// All dialects have the same versions, and what is printed is what is applied.
func TestMigrations(t *testing.T) {
	for _, d := range all {
		if got, want := d.Newest(), Postgres.Newest(); got != want || got < 1 {
			t.Errorf("%s: newest version: got %d, want %d", d, got, want)
		}
		script, err := d.SQL(0)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"rehop_migration", "rehop_outbox (", "rehop_outbox_lease", "rehop_outbox_relay", "rehop_inbox"} {
			if !strings.Contains(script, want) {
				t.Errorf("%s: the script does not have %s", d, want)
			}
		}
		triage := Migration{Dialect: d, Part: Triage}
		if got, want := triage.Newest(), (Migration{Dialect: SQLite, Part: Triage}).Newest(); got != want || got < 1 {
			t.Errorf("%s: newest version of triage: got %d, want %d", d, got, want)
		}
		if script, err := triage.SQL(0); err != nil || !strings.Contains(script, "rehop_triage_message") || strings.Contains(script, "rehop_outbox") {
			t.Errorf("%s: triage: got %q, %v, want its tables and no others", d, script, err)
		}
		if _, err := (Migration{Dialect: d, Part: "other"}).SQL(0); err == nil || !strings.Contains(err.Error(), "dialect.Triage") {
			t.Errorf("%s: unknown part: got %v, want an error with what there is", d, err)
		}
		if rest, err := d.SQL(d.Newest()); err != nil || rest != "" {
			t.Errorf("%s: after the newest version: got %q, %v, want nothing", d, rest, err)
		}
	}
}

func TestSplit(t *testing.T) {
	got := split("-- a; comment\nCREATE TABLE a (\n  b INT\n);\nINSERT INTO a VALUES (';');\n\n")
	if len(got) != 2 || !strings.HasPrefix(got[0], "-- a; comment\nCREATE") || got[1] != "INSERT INTO a VALUES (';')" {
		t.Errorf("got %q, want two statements", got)
	}
}
