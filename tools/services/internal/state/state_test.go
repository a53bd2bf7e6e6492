package state

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func newDir(t *testing.T) Dir {
	t.Helper()
	d, err := New(filepath.Join(t.TempDir(), "state"), "/some/checkout")
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func lock(t *testing.T, d Dir) (unlock func()) {
	t.Helper()
	unlock, err := d.Lock()
	if err != nil {
		t.Fatal(err)
	}
	return unlock
}

// Two checkouts have two directories, and one has the same each time.
func TestDefault(t *testing.T) {
	path := func(checkout string) string {
		d, err := New("", checkout)
		if err != nil {
			t.Fatal(err)
		}
		return d.Path
	}
	if a, b := path("/a"), path("/b"); a == b {
		t.Errorf("two checkouts have the same state directory: %s", a)
	}
	if a, again := path("/a"), path("/a"); a != again {
		t.Errorf("got %s and then %s for the same checkout", a, again)
	}
	// Unix sockets in there have at most 107 bytes of path.
	if a := path("/a"); !strings.HasPrefix(a, "/tmp/rehop-services-") || len(a) > 50 {
		t.Errorf("got %s, want a short path below /tmp", a)
	}
}

func TestRefused(t *testing.T) {
	for _, path := range []string{"/tmp/a b", "/usr/x", "/etc/x", "/tmp/é"} {
		if d, err := New(path, "/a"); err == nil || !strings.Contains(err.Error(), "REHOP_SERVICES_DIR") {
			t.Errorf("New(%q): got %v, %v, want an error that names REHOP_SERVICES_DIR", path, d, err)
		}
	}
	if d, err := New("relative", "/a"); err != nil || !filepath.IsAbs(d.Path) {
		t.Errorf("got %v, %v, want an absolute path", d, err)
	}
}

func TestLockMakesDirectory(t *testing.T) {
	d := newDir(t)
	if d.Exists() || d.Current() {
		t.Error("the directory exists before it was made")
	}
	lock(t, d)()
	if !d.Exists() || !d.Current() {
		t.Error("the directory does not exist after it was locked")
	}
	if info, err := os.Stat(d.Path); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("got mode %v, %v, want that only its owner can read it", info.Mode(), err)
	}
}

// An empty directory is as good as none, and one with something else in it is left alone.
func TestLockExistingDirectory(t *testing.T) {
	d := newDir(t)
	if err := os.Mkdir(d.Path, 0o755); err != nil {
		t.Fatal(err)
	}
	lock(t, d)()
	if !d.Current() {
		t.Error("an empty directory was not made a state directory")
	}

	d = newDir(t)
	if err := os.MkdirAll(d.File("precious"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Lock(); err == nil || !strings.Contains(err.Error(), "neither empty nor a state directory") {
		t.Errorf("got error %v, want that it is not a state directory", err)
	}
	left, err := filepath.Glob(filepath.Join(filepath.Dir(d.Path), ".rehop-services-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// Only one at a time has the lock, also when whoever has it deletes the directory.
func TestLockExcludes(t *testing.T) {
	d := newDir(t)
	var all sync.WaitGroup
	inside := make(chan int, 1) // a second value would block
	inside <- 0
	for range 8 {
		all.Go(func() {
			for range 20 {
				unlock, err := d.Lock()
				if err != nil {
					t.Error(err)
					return
				}
				select {
				case n := <-inside:
					if !d.Current() {
						t.Error("the directory does not exist while it is locked")
					}
					inside <- n + 1
					if n%3 == 0 { // which ends what the lock is for
						if err := d.Remove(); err != nil {
							t.Error(err)
						}
					}
				default:
					t.Error("two have the lock at a time")
				}
				unlock()
			}
		})
	}
	all.Wait()
	if n := <-inside; n != 160 {
		t.Errorf("locked %d times, want 160", n)
	}
}

func TestOlderFormat(t *testing.T) {
	d := newDir(t)
	lock(t, d)()
	if err := d.KeepBlock(28600); err != nil {
		t.Fatal(err)
	}
	if got := d.Block(); got != 28600 {
		t.Errorf("got block %d, want 28600", got)
	}
	if err := os.WriteFile(d.File(marker), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if !d.Exists() || d.Current() || d.Block() != 0 {
		t.Errorf("of an older program: exists %v, current %v, block %d, want true, false, 0", d.Exists(), d.Current(), d.Block())
	}
}

func TestMissing(t *testing.T) {
	d := newDir(t)
	lock(t, d)()
	keep := func(reason string) {
		t.Helper()
		if err := d.KeepMissing("mysql", reason); err != nil {
			t.Fatal(err)
		}
		if got := d.Missing("mysql"); got != reason {
			t.Errorf("got %q, want %q", got, reason)
		}
	}
	keep("")
	keep("not installed")
	keep("")
	if err := d.KeepMissing("mysql", "cannot compile\n  line 1:\tx"); err != nil {
		t.Fatal(err)
	}
	if got, want := d.Missing("mysql"), "cannot compile line 1: x"; got != want {
		t.Errorf("got %q, want %q on one line", got, want)
	}
}

func TestOrphaned(t *testing.T) {
	checkout := t.TempDir()
	d, err := New(filepath.Join(t.TempDir(), "state"), checkout)
	if err != nil {
		t.Fatal(err)
	}
	lock(t, d)()
	found := Dir{Path: d.Path}
	if found.orphaned() {
		t.Error("orphaned while its checkout exists")
	}
	if err := os.Remove(checkout); err != nil {
		t.Fatal(err)
	}
	if !found.orphaned() || found.Checkout() != checkout {
		t.Errorf("not orphaned when its checkout %s is gone, got checkout %s", checkout, found.Checkout())
	}
	if (&Dir{Path: t.TempDir()}).orphaned() {
		t.Error("a directory that is no state directory counts as orphaned")
	}
}

func TestWrite(t *testing.T) {
	name := filepath.Join(t.TempDir(), "file")
	for _, content := range []string{"a", "b\n"} {
		if err := Write(name, content, 0o400); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(name); err != nil || string(got) != content {
			t.Errorf("got %q, %v, want %q", got, err, content)
		}
	}
	if err := Write(filepath.Join(name, "x"), "", 0o600); err == nil || errors.Is(err, fs.ErrExist) {
		t.Errorf("got error %v below a file, want one", err)
	}
	if names, err := os.ReadDir(filepath.Dir(name)); err != nil || len(names) != 1 {
		t.Errorf("left behind: %v, %v", names, err)
	}
}

// TestOwnerEnded: a directory of a process belongs to nobody when that process has ended, or another one has its number.
func TestOwnerEnded(t *testing.T) {
	stat, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	began := strings.Fields(rest)[19]
	ended := exec.Command("true")
	if err := ended.Run(); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{
		fmt.Sprintf("/tmp/rehop-services-0-own-%d-%s-77", os.Getpid(), began):      false,
		fmt.Sprintf("/tmp/rehop-services-0-own-%d-%s0-77", os.Getpid(), began):     true,
		fmt.Sprintf("/tmp/rehop-services-0-own-%d-1-77", ended.ProcessState.Pid()): true,
		"/tmp/rehop-services-0-846928a7":                                           false,
	} {
		if got := ownerEnded(path); got != want {
			t.Errorf("%s: got ended %v, want %v", path, got, want)
		}
	}
}
