package cli

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rehop/rehop/cmd/rehop/internal/database"
	"github.com/rehop/rehop/cmd/rehop/internal/serve"
	"github.com/rehop/rehop/dialect"
	"github.com/rehop/rehop/triage"
)

// newIndexFile creates an index of failed messages in a file, as rehop up does.
func newIndexFile(t *testing.T, file string) *triage.Store {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	source, err := database.Parse("sqlite:" + file)
	if err != nil {
		t.Fatal(err)
	}
	db, err := source.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	if err := (dialect.Migration{Dialect: dialect.SQLite, Part: dialect.Triage}).Run(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	store, err := triage.Open(t.Context(), triage.Config{DB: db, Dialect: dialect.SQLite, RequireDurable: true})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// withIndex changes to a directory whose index, in the default place, has some messages of the queue mail.
func withIndex(t *testing.T, count int) *triage.Store {
	t.Helper()
	t.Chdir(t.TempDir())
	store := newIndexFile(t, filepath.Join(localData, serve.IndexFile))
	putMail(t, store, 0, count)
	return store
}

// putMail puts messages into an index, the later the newer.
func putMail(t *testing.T, store *triage.Store, from, to int) {
	t.Helper()
	var some []triage.Message
	for i := from; i < to; i++ {
		some = append(some, triage.Message{ID: fmt.Sprint("m", i), Queue: "mail", FailedQueue: "mail.failed", Exchange: "shop", Key: "mail", Kind: "error",
			Error: "the mail server is down", Attempts: 3, Headers: map[string]any{"tenant": "t-7"}, Body: fmt.Appendf(nil, `{"order": %d}`, i),
			FailedAt: time.Now().Add(time.Duration(i-1000) * time.Second), FirstFailed: time.Now().Add(-time.Hour), Host: "web-1", Version: "1.2"})
	}
	if err := store.Put(t.Context(), some); err != nil {
		t.Fatal(err)
	}
}

// runs runs a command without a terminal, which has to end with a code, and returns what it printed.
func runs(t *testing.T, code int, args ...string) (out, said string) {
	t.Helper()
	return runsWith(t.Context(), t, Surroundings{}, code, args...)
}

func runsWith(ctx context.Context, t *testing.T, s Surroundings, code int, args ...string) (string, string) {
	t.Helper()
	var out, errs bytes.Buffer
	s.Out, s.Err = &out, &errs
	if s.In == nil {
		s.In = strings.NewReader("")
	}
	if s.Env == nil {
		s.Env = func(string) (string, bool) { return "", false }
	}
	if got := Run(ctx, args, s); got != code {
		t.Errorf("%q: got code %d, want %d; it printed %q and said %q", args, got, code, out.String(), errs.String())
	}
	return out.String(), errs.String()
}

// has reports each text that is missing.
func has(t *testing.T, got string, wanted ...string) {
	t.Helper()
	for _, want := range wanted {
		if !strings.Contains(got, want) {
			t.Errorf("got %q, want %q in it", got, want)
		}
	}
}

// The index is that of the flag, the environment, the file, or the data directory.
func TestIndexIsFound(t *testing.T) {
	withIndex(t, 1) // in the data directory
	for name, count := range map[string]int{"flag.db": 2, "env.db": 3, "file.db": 4, "data/" + serve.IndexFile: 5} {
		putMail(t, newIndexFile(t, name), 0, count)
	}
	files := map[string]string{
		"named.yaml":   "triage: {database: 'sqlite:file.db'}\nflows: {a: {quue: '${NOT_THERE}'}}",
		"data.yaml":    "data: data",
		"prefix.yaml":  "triage: {database: 'sqlite:file.db', prefix: other_}",
		"none.yaml":    "triage: none",
		"wrong.yaml":   "triage: {databse: x}",
		"nowhere.yaml": "data: nowhere",
		"broker.yaml":  "broker: 'amqp://${NOT_THERE}/'",
	}
	for name, text := range files {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	env := func(value string) Surroundings {
		return Surroundings{Env: func(name string) (string, bool) { return value, name == envTriage && value != "" }}
	}
	for _, tt := range []struct {
		env  string
		args []string
		want int // messages
	}{
		{"", nil, 1},
		{"", []string{"--config", "data.yaml"}, 5},
		{"", []string{"--config", "named.yaml"}, 4},
		{"sqlite:env.db", []string{"--config", "named.yaml"}, 3},
		{"sqlite:env.db", []string{"--config", "named.yaml", "--database", "sqlite:flag.db"}, 2},
	} {
		out, _ := runsWith(t.Context(), t, env(tt.env), exitDone, append([]string{"failed", "search"}, tt.args...)...)
		has(t, out, "\n"+counted(tt.want, "message")+"\n")
	}
	for _, tt := range []struct {
		code int
		env  string
		args []string
		want string
	}{
		{exitUsage, "", []string{"--config", "none.yaml"}, "triage in none.yaml is none"},
		{exitUsage, "", []string{"--config", "wrong.yaml"}, `did you mean "database"?`},
		{exitUsage, "", []string{"--config", "missing.yaml"}, "missing.yaml"},
		{exitUsage, "", []string{"--config", "broker.yaml"}, "no index of failed messages of the broker in broker.yaml"},
		{exitUsage, "", []string{"--config", "nowhere.yaml"}, "set --database or $REHOP_TRIAGE, or triage.database in rehop.yaml (--config)"},
		{exitUsage, "", []string{"--database", "oracle://ann:secret@host/x"}, "--database: the URL of a database must be"},
		{exitUsage, "oracle:x", nil, "$REHOP_TRIAGE: the URL of a database must be"},
		{exitUsage, "", []string{"--prefix", "Not_"}, `prefix "Not_"`},
		{exitUsage, "", []string{"--schema", "shop"}, "SQLite has no schemas"},
		{exitFailed, "", []string{"--config", "prefix.yaml"}, "sqlite:file.db has no table other_triage_message: rehop up and rehop run create the tables"},
		{exitUnreachable, "", []string{"--database", "sqlite:missing.db"}, "connect to sqlite:missing.db"},
		{exitUnreachable, "", []string{"--database", "postgres://ann:secret@127.0.0.1:1/db"}, "connect to postgres://127.0.0.1:1/db"},
	} {
		_, said := runsWith(t.Context(), t, env(tt.env), tt.code, append([]string{"failed", "search"}, tt.args...)...)
		has(t, said, tt.want)
		if strings.Contains(said, "secret") {
			t.Errorf("%q: a password is in %q", tt.args, said)
		}
	}
	if _, err := os.Stat("missing.db"); !os.IsNotExist(err) {
		t.Errorf("got %v, want that the file was not created", err)
	}
	// The file in this directory is read without a flag.
	if err := os.Rename("named.yaml", localFile); err != nil {
		t.Fatal(err)
	}
	out, _ := runs(t, exitDone, "failed", "search")
	has(t, out, "\n4 messages\n")
}

// Every command refuses tables that are too old, and a place without an index.
func TestIndexIsNeeded(t *testing.T) {
	withIndex(t, 1)
	change(t, "UPDATE rehop_triage_migration SET version = 0 - version")
	commands := [][]string{{"failed", "groups"}, {"failed", "group", "x"}, {"failed", "search"}, {"runs", "start", "replay", "x", "--yes"}, {"runs", "ls"}, {"runs", "show", "x"},
		{"runs", "pause", "x"}, {"runs", "continue", "x"}, {"runs", "stop", "x"}, {"audit", "ls"}, {"audit", "verify"}}
	for _, args := range commands {
		_, said := runs(t, exitFailed, args...)
		has(t, said, "start rehop up or rehop run of this version")
	}
	t.Chdir(t.TempDir())
	for _, args := range commands {
		_, said := runs(t, exitUsage, args...)
		has(t, said, "no index of failed messages: there is no rehop-data")
	}
}
