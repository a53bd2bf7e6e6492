package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// repository makes a commit at a time, and returns its directory and a function that runs git there.
func repository(t *testing.T, at string) (dir string, git func(args ...string) string) {
	t.Helper()
	dir = t.TempDir()
	git = func(args ...string) string {
		cmd := exec.Command(tool(t, "git", "it made this checkout"), append([]string{"-C", dir, "-c", "user.name=a", "-c", "user.email=a@example.org"}, args...)...)
		cmd.Env = append(os.Environ(), "GIT_COMMITTER_DATE="+at, "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
		return strings.TrimSpace(execute(t, cmd))
	}
	git("init", "--quiet")
	git("commit", "--quiet", "--allow-empty", "-m", "first")
	return dir, git
}

// The time is that of the commit, unless SOURCE_DATE_EPOCH has another.
func TestSource(t *testing.T) {
	dir, git := repository(t, "2026-02-03T04:05:06Z")
	for epoch, want := range map[string]time.Time{"": time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC), "1000000000": time.Unix(1e9, 0)} {
		s, err := openSource(t.Context(), dir, "v0.1.0", epoch)
		if err != nil || !s.time.Equal(want) || s.revision != git("rev-parse", "HEAD") {
			t.Errorf("with %q: got %+v, %v, want the commit at %v", epoch, s, err, want)
		}
	}
	if _, err := openSource(t.Context(), dir, "v0.1.0", "yesterday"); err == nil || !strings.Contains(err.Error(), "SOURCE_DATE_EPOCH") {
		t.Errorf("got %v, want an error about SOURCE_DATE_EPOCH", err)
	}
}

// What is not in the commit is refused, unless the version admits it.
func TestSourceChanged(t *testing.T) {
	dir, _ := repository(t, "2026-02-03T04:05:06Z")
	if err := os.WriteFile(filepath.Join(dir, "new.go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := openSource(t.Context(), dir, "v0.1.0", ""); err == nil || !strings.Contains(err.Error(), "new.go") || !strings.Contains(err.Error(), "v0.1.0-dirty") {
		t.Errorf("got %v, want an error that names the file and what to do", err)
	}
	if _, err := openSource(t.Context(), dir, "v0.1.0-dirty", ""); err != nil {
		t.Error(err)
	}
}

// The source without its repository has no time of its own.
func TestSourceWithoutRepository(t *testing.T) {
	if _, err := openSource(t.Context(), t.TempDir(), "v0.1.0", ""); err == nil || !strings.Contains(err.Error(), "SOURCE_DATE_EPOCH") {
		t.Errorf("got %v, want an error about SOURCE_DATE_EPOCH", err)
	}
	if s, err := openSource(t.Context(), t.TempDir(), "v0.1.0", "1000000000"); err != nil || s.revision != "" || s.time.Unix() != 1e9 {
		t.Errorf("got %+v, %v, want the given time and no commit", s, err)
	}
}
