package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// source is a checkout of rehop, and what of it goes into every file of the release.
type source struct {
	dir      string
	revision string // the commit; empty outside of a repository
	time     time.Time
}

// openSource reads the commit of a checkout. A version that does not end with -dirty needs one without changes, so that the commit
// really is what was built. Outside of a repository, the time has to come from epoch, the seconds of $SOURCE_DATE_EPOCH.
func openSource(ctx context.Context, dir string, v version, epoch string) (source, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return source{}, err
	}
	s := source{dir: dir}
	if _, err := os.Stat(filepath.Join(dir, ".git")); err == nil {
		if s.revision, err = s.git(ctx, "rev-parse", "HEAD"); err != nil {
			return source{}, err
		}
		changes, err := s.git(ctx, "status", "--porcelain")
		if err != nil {
			return source{}, err
		}
		if changes != "" && !v.dirty() {
			return source{}, fmt.Errorf("%s has changes that are not in the commit:\n%s\ncommit or remove them, or build %s-dirty to try it", dir, changes, v)
		}
		if epoch == "" {
			if epoch, err = s.git(ctx, "log", "-1", "--format=%ct"); err != nil {
				return source{}, err
			}
		}
	}
	if epoch == "" {
		return source{}, fmt.Errorf("%s is not a git repository, so the time of the release is not known; set SOURCE_DATE_EPOCH to its seconds since 1970", dir)
	}
	seconds, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil {
		return source{}, fmt.Errorf("SOURCE_DATE_EPOCH is %q, want seconds since 1970", epoch)
	}
	s.time = time.Unix(seconds, 0).UTC()
	return s, nil
}

func (s source) git(ctx context.Context, args ...string) (string, error) {
	out, err := output(exec.CommandContext(ctx, "git", append([]string{"-C", s.dir}, args...)...))
	return strings.TrimSpace(string(out)), err
}

// read returns a file of the checkout, named with slashes.
func (s source) read(name string) ([]byte, error) {
	return os.ReadFile(filepath.Join(s.dir, filepath.FromSlash(name)))
}

// output runs a program. Its error has what the program wrote to standard error.
func output(cmd *exec.Cmd) ([]byte, error) {
	out, err := cmd.Output()
	if err == nil {
		return out, nil
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return nil, fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, bytes.TrimSpace(exit.Stderr))
	}
	return nil, fmt.Errorf("%s: %w", strings.Join(cmd.Args, " "), err)
}
