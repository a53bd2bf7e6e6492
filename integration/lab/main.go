package lab

import (
	"fmt"
	"os"
	"testing"
)

// Main runs the examples and tests of a package on a fresh virtual host, whose URL it puts into the
// environment variable REHOP_URL. It is for packages of examples, which get no testing.TB.
func Main(m *testing.M) {
	t := &mainTB{}
	rabbit := Single(t)
	if err := os.Setenv("REHOP_URL", rabbit.URL); err != nil {
		t.Fatal(err)
	}
	code := m.Run()
	for _, clean := range t.cleanups {
		clean()
	}
	os.Exit(code)
}

// mainTB is as much of a testing.TB as Single needs.
type mainTB struct {
	testing.TB
	cleanups []func()
}

func (t *mainTB) Helper()          {}
func (t *mainTB) Cleanup(f func()) { t.cleanups = append(t.cleanups, f) }

func (t *mainTB) Fatal(args ...any) {
	fmt.Fprintln(os.Stderr, args...)
	os.Exit(1)
}

func (t *mainTB) Fatalf(format string, args ...any) { t.Fatal(fmt.Sprintf(format, args...)) }

func (t *mainTB) Skipf(format string, args ...any) {
	fmt.Printf("--- SKIP: all examples: "+format+"\n", args...)
	os.Exit(0)
}
