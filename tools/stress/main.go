// Command stress runs the tests of packages again and again, with few and many threads, on a machine that it keeps busy, and ends with
// a table of what failed how often. A test that depends on the speed of the machine, or on which goroutine comes first, fails here.
//
//	stress -rounds 10 ./broker ./internal/...
//
// The output of each failed run is kept in the directory that -keep names.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// options is what the command line asks for.
type options struct {
	rounds  int
	procs   []int
	load    int
	race    bool
	run     string
	timeout time.Duration
	keep    string
}

func main() {
	o := options{procs: []int{1, 2, 8}}
	flag.IntVar(&o.rounds, "rounds", 3, "how often each package runs with each number of threads")
	flag.Func("procs", "values of GOMAXPROCS, separated by commas (default 1,2,8)", func(list string) error {
		o.procs = nil
		for _, s := range strings.Split(list, ",") {
			n, err := strconv.Atoi(s)
			if err != nil || n < 1 {
				return fmt.Errorf("%q is not a number of threads", s)
			}
			o.procs = append(o.procs, n)
		}
		return nil
	})
	flag.IntVar(&o.load, "load", runtime.NumCPU(), "threads that keep the processors busy")
	flag.BoolVar(&o.race, "race", false, "build the tests with the race detector")
	flag.StringVar(&o.run, "run", "", "only the tests that match, as for go test -run")
	flag.DurationVar(&o.timeout, "timeout", time.Hour, "how long one run of a package may take")
	flag.StringVar(&o.keep, "keep", "bin/stress", "directory for the test programs and the output of failed runs")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	failed, err := stress(ctx, o, flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "stress:", err)
		os.Exit(2)
	}
	if failed {
		os.Exit(1)
	}
}

// stress builds and runs the packages, prints the table, and reports whether anything failed. An interrupt ends the runs, not the table.
func stress(ctx context.Context, o options, patterns []string) (failed bool, err error) {
	keep, err := filepath.Abs(o.keep)
	if err != nil {
		return false, err
	}
	if err := os.MkdirAll(keep, 0o755); err != nil {
		return false, err
	}
	suites, err := list(ctx, patterns)
	if err != nil {
		return false, err
	}
	if len(suites) == 0 {
		return false, fmt.Errorf("no package of %q has tests", patterns)
	}
	for _, s := range suites {
		if err := s.build(ctx, keep, o); err != nil {
			return false, err
		}
	}

	release := occupy(o.load)
	defer release()
	t := newTable(o.procs)
	for round := range o.rounds {
		for _, s := range suites {
			for _, procs := range o.procs {
				began := time.Now()
				out, failures, err := s.test(ctx, o, procs)
				if ctx.Err() != nil {
					t.print(os.Stdout)
					return true, errors.New("interrupted: the table shows the runs that ended")
				}
				if err != nil {
					return false, err
				}
				t.add(s.name, procs, failures)
				if len(failures) == 0 {
					fmt.Printf("ok   %s, round %d, GOMAXPROCS=%d, %v\n", s.name, round+1, procs, time.Since(began).Round(time.Second))
					continue
				}
				kept := filepath.Join(keep, fmt.Sprintf("%s.%d.%d.log", s.file(), procs, round+1))
				if err := os.WriteFile(kept, out, 0o644); err != nil {
					return false, err
				}
				fmt.Printf("FAIL %s, round %d, GOMAXPROCS=%d: %s; see %s\n", s.name, round+1, procs, strings.Join(failures, ", "), kept)
			}
		}
	}
	return t.print(os.Stdout), nil
}

// suite is the tests of one package.
type suite struct {
	name, dir string
	virtual   bool            // it has tests in virtual time
	programs  map[bool]string // with the race detector, and without
}

// watched reports whether a run has the race detector. That of Go 1.26 crashes when two threads run timers of one synctest bubble.
func (s *suite) watched(o options, procs int) bool { return o.race && (procs == 1 || !s.virtual) }

// list finds the packages that have tests.
func list(ctx context.Context, patterns []string) ([]*suite, error) {
	args := append([]string{"list", "-f", "{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}\t{{.Dir}}\t{{.TestImports}} {{.XTestImports}}{{end}}"}, patterns...)
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("list the packages %q: %w", patterns, err)
	}
	var suites []*suite
	for line := range strings.Lines(string(out)) {
		if parts := strings.Split(strings.TrimSpace(line), "\t"); len(parts) == 3 {
			suites = append(suites, &suite{name: parts[0], dir: parts[1], virtual: strings.Contains(parts[2], "testing/synctest")})
		}
	}
	return suites, nil
}

// file is the package's name as part of a file's.
func (s *suite) file() string { return strings.ReplaceAll(s.name, "/", "_") }

// build compiles the tests once, for all runs.
func (s *suite) build(ctx context.Context, dir string, o options) error {
	s.programs = make(map[bool]string)
	for _, procs := range o.procs {
		race := s.watched(o, procs)
		if s.programs[race] != "" {
			continue
		}
		program := filepath.Join(dir, s.file()+".test")
		args := []string{"test", "-c"}
		if race {
			program += ".race"
			args = append(args, "-race")
		}
		cmd := exec.CommandContext(ctx, "go", append(args, "-o", program, ".")...)
		cmd.Dir = s.dir
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("build the tests of %s: %w\n%s", s.name, err, out)
		}
		s.programs[race] = program
	}
	return nil
}

// test runs the tests once, and returns what they wrote and which failed.
func (s *suite) test(ctx context.Context, o options, procs int) (out []byte, failures []string, err error) {
	cmd := exec.CommandContext(ctx, s.programs[s.watched(o, procs)], "-test.count=1", "-test.timeout="+o.timeout.String(), "-test.run="+o.run)
	cmd.Dir = s.dir
	cmd.Env = append(os.Environ(), "GOMAXPROCS="+strconv.Itoa(procs))
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	out, err = cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) && !errors.Is(err, exec.ErrWaitDelay) {
		return nil, nil, fmt.Errorf("run the tests of %s: %w", s.name, err)
	}
	if err == nil {
		return out, nil, nil
	}
	return out, failuresIn(string(out), err), nil
}
