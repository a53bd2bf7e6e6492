package database

import (
	_ "embed" // the source of the library
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"

	"github.com/rehop/rehop/tools/services/internal/debian"
	"github.com/rehop/rehop/tools/services/internal/state"
)

//go:embed slowsync/slowsync.c
var slowSource string

// SlowSync makes the disk of servers slow: each sync of a file takes longer by Delay milliseconds on average, at random between 0
// and twice that. The zero value leaves them as they are.
type SlowSync struct{ Delay string }

// Compiler is a C compiler. Without one Go has no race detector either.
func Compiler() []debian.Want {
	return []debian.Want{{Package: "gcc", Brings: "gcc"}, {Package: "libc6-dev", Brings: "/usr/include/stdlib.h"}}
}

func (s SlowSync) wants() []debian.Want {
	if s.Delay == "" {
		return nil
	}
	return Compiler()
}

var milliseconds = regexp.MustCompile(`^[0-9]+(\.[0-9]+)?$`)

// environment are the variables that make a server's disk slow. The library is compiled once per state directory.
func (s SlowSync) environment(dir state.Dir) ([]string, error) {
	if s.Delay == "" {
		return nil, nil
	}
	if !milliseconds.MatchString(s.Delay) {
		return nil, fmt.Errorf("REHOP_SERVICES_SYNC_DELAY must be a number of milliseconds: %s", s.Delay)
	}
	library := dir.File("slowsync.so")
	if _, err := os.Stat(library); err != nil {
		if err := compile(library); err != nil {
			return nil, fmt.Errorf("compile slowsync.c: %w", err)
		}
	}
	return []string{"LD_PRELOAD=" + library, "REHOP_SERVICES_SYNC_DELAY=" + s.Delay}, nil
}

func compile(library string) error {
	fresh, err := os.MkdirTemp(filepath.Dir(library), ".slowsync-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(fresh)
	source, made := filepath.Join(fresh, "slowsync.c"), filepath.Join(fresh, "slowsync.so")
	if err := os.WriteFile(source, []byte(slowSource), 0o600); err != nil {
		return err
	}
	if out, err := exec.Command("gcc", "-O2", "-shared", "-fPIC", "-o", made, source).CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	if err := os.Chmod(made, 0o755); err != nil { // the user postgres loads it, too
		return err
	}
	return os.Rename(made, library)
}
