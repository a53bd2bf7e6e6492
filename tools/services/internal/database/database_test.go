package database

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rehop/rehop/tools/services/internal/state/statetest"
)

// A directory is there complete or not at all, and what was made once stays.
func TestMakeOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	full := errors.New("disk full")
	fill := func(content string, err error) func(string) error {
		return func(fresh string) error {
			if err := os.Mkdir(fresh, 0o700); err != nil {
				return err
			}
			return errors.Join(err, os.WriteFile(filepath.Join(fresh, "file"), []byte(content), 0o600))
		}
	}
	if err := makeOnce(dir, fill("half", full)); !errors.Is(err, full) {
		t.Errorf("got error %v, want %v", err, full)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("half of the directory is there: %v", err)
	}
	for _, content := range []string{"first", "second"} {
		if err := makeOnce(dir, fill(content, nil)); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(filepath.Join(dir, "file")); err != nil || string(got) != "first" {
			t.Errorf("got %q, %v, want what was made first", got, err)
		}
	}
}

func TestPassword(t *testing.T) {
	p := NewPostgres(statetest.Dir(t, statetest.Block), SlowSync{})
	if err := os.Mkdir(p.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	first, err := p.password()
	if err != nil || len(first) < 16 {
		t.Fatalf("got password of %d characters, %v", len(first), err)
	}
	if again, err := p.password(); err != nil || again != first || p.mustPassword() != first {
		t.Errorf("got another password the second time, %v", err)
	}
	if info, err := os.Stat(p.file("password")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got mode %v, %v, want that only its owner can read it", info.Mode(), err)
	}
	if got := p.Env()[0].String(); !strings.Contains(got, "postgres://rehop:"+first+"@127.0.0.1:28601/postgres") {
		t.Errorf("got %s, want the URL with the password", got)
	}
}

func TestSlowSync(t *testing.T) {
	dir := statetest.Dir(t, statetest.Block)
	if env, err := (SlowSync{}).environment(dir); err != nil || len(env) > 0 {
		t.Errorf("without a delay: got %v, %v, want nothing", env, err)
	}
	for _, delay := range []string{"x", "-1", "1ms", "1 ", "."} {
		if env, err := (SlowSync{delay}).environment(dir); err == nil || !strings.Contains(err.Error(), "REHOP_SERVICES_SYNC_DELAY") {
			t.Errorf("delay %q: got %v, %v, want an error that names REHOP_SERVICES_SYNC_DELAY", delay, env, err)
		}
	}
	if err := os.WriteFile(dir.File("slowsync.so"), nil, 0o600); err != nil { // compiled before
		t.Fatal(err)
	}
	env, err := SlowSync{"1.5"}.environment(dir)
	if err != nil || strings.Join(env, " ") != "LD_PRELOAD="+dir.File("slowsync.so")+" REHOP_SERVICES_SYNC_DELAY=1.5" {
		t.Errorf("got %v, %v", env, err)
	}
}

// PgBouncer leads to PostgreSQL, by the same password.
func TestPgBouncerConfiguration(t *testing.T) {
	dir := statetest.Dir(t, statetest.Block)
	p := NewPostgres(dir, SlowSync{})
	b := NewPgBouncer(dir, p)
	for _, d := range []string{p.Dir, b.Dir} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	password, err := p.password()
	if err != nil {
		t.Fatal(err)
	}
	if err := b.configure(nil); err != nil {
		t.Fatal(err)
	}
	settings, err := os.ReadFile(b.file("pgbouncer.ini"))
	if err != nil || !strings.Contains(string(settings), "port=28601\n") || !strings.Contains(string(settings), "listen_port = 28602\n") {
		t.Errorf("got %s, %v, want the ports of both", settings, err)
	}
	users, err := os.ReadFile(b.file("users.txt"))
	if err != nil || string(users) != `"rehop" "`+password+"\"\n" {
		t.Errorf("got other users than rehop with PostgreSQL's password, %v", err)
	}
}

func TestVersionNumber(t *testing.T) {
	for printed, want := range map[string]string{
		"postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)":                              "15.18",
		"PgBouncer 1.18.0\nlibevent 2.1.12-stable":                                          "1.18.0",
		"/usr/sbin/mariadbd  Ver 10.11.14-MariaDB-0+deb12u2 for debian-linux-gnu on x86_64": "10.11.14",
		"nothing": "",
	} {
		if got := number.FindString(printed); got != want {
			t.Errorf("%q: got %q, want %q", printed, got, want)
		}
	}
}
