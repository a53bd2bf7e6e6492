//go:build !race

package triaging

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/rehop/rehop/integration/lab"
	"github.com/rehop/rehop/triage"
)

// The file system of the store is really full while a run moves messages into it. Every message stays in its failed queue, and the run continues when there
// is space again.
func TestSQLiteKeepFull(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	switch err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=48m"); {
	case errors.Is(err, fs.ErrPermission): // EPERM or EACCES
		lab.Lack(t, "a file system that can be filled needs root")
	case err != nil:
		t.Fatal(err)
	}
	t.Cleanup(func() { // after the store is closed
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	d := sqliteFile(filepath.Join(dir, "test.db"))
	k := newKeeping(t, d)
	k.begin(t, triage.ActionKeep)
	db := d.Open(t)
	for _, statement := range []string{"VACUUM", "PRAGMA wal_checkpoint(TRUNCATE)"} { // no page is free
		if _, err := db.ExecContext(k.ctx, statement); err != nil {
			t.Fatal(err)
		}
	}
	filler := filepath.Join(dir, "filler")
	if err := os.WriteFile(filler, make([]byte, 64<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("got %v, want a full file system", err)
	}
	s := startServer(t, k.rabbit, d)
	lab.Eventually(t, limit, "the file system is full", func() bool { return strings.Contains(s.errs.String(), "database or disk is full") })
	s.kill()
	k.check(t, "the file system was full")
	run := k.now(t)
	if run.State != triage.Running || len(k.inStore(t)) != 0 {
		t.Errorf("got %+v, want a run that could not store any message", run)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	k.finish(t)
	if stored := len(k.inStore(t)); stored != len(k.all) {
		t.Errorf("got %d messages in the store when there was space again, want %d", stored, len(k.all))
	}
	k.report(t, 1)
}
