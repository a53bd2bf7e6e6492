package seeded

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/rehop/rehop/integration/kit"
)

// mostRuns is how many runs may be needed to find a bug.
const mostRuns = 20

// TestBugsFit checks that each bug still fits the code.
func TestBugsFit(t *testing.T) {
	for _, b := range bugs {
		for path, source := range kit.Edited(t, b.edits...) {
			if len(source) == 0 {
				t.Errorf("%s: %s is empty", b.name, path)
			}
		}
	}
}

// TestBugsAreFound builds the test of each promise with a bug, and runs it until it finds the bug.
func TestBugsAreFound(t *testing.T) {
	if os.Getenv("REHOP_FAULTS") != "baseline" {
		t.Skip("make faults-seeded runs it")
	}
	for _, b := range bugs {
		t.Run(b.name, b.find)
	}
}

func (b bug) find(t *testing.T) {
	module := b.module
	if module == "" {
		module = "integration"
	}
	program := kit.RebuildIn(t, module, b.folder, b.edits...)
	_, file, _, _ := runtime.Caller(0)
	shows := regexp.MustCompile(b.shows)
	for n := 1; n <= mostRuns; n++ {
		command := exec.Command(program, "-test.run="+b.test, "-test.v", "-test.timeout=30m")
		command.Dir = filepath.Join(filepath.Dir(file), "..", "..", module, b.folder)
		command.Env = append(os.Environ(), "REHOP_FAULTS=")
		out, err := command.CombinedOutput()
		switch {
		case err == nil:
		case shows.Match(out):
			fmt.Printf("seeded=%s caught after %d of %d runs by %s %s\n", b.name, n, mostRuns, b.folder, b.test)
			return
		default:
			t.Fatalf("run %d failed for another reason than the bug: %v\n%s", n, err, lastLines(out, 40))
		}
	}
	t.Errorf("seeded=%s was not caught in %d runs of %s %s", b.name, mostRuns, b.folder, b.test)
}

func lastLines(out []byte, n int) string {
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
