// Command testreport reads what "go test -json" writes, shows what failed, and ends with what was
// skipped and why, and what failed and how.
//
//	go test -json ./... | testreport [-table FILE -title TEXT]
//
// With -table it also appends one line to a file for each package: the title, and how many tests passed and failed.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
)

func main() {
	table := flag.String("table", "", "`file` to which a line is appended for each package")
	title := flag.String("title", "", "`text` at the beginning of those lines")
	flag.Parse()
	t := newTally(os.Stdout)
	err := t.readAll(os.Stdin)
	if err == nil && *table != "" {
		err = t.appendTo(*table, *title)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "testreport:", err)
		os.Exit(2)
	}
	if !t.summarize() {
		os.Exit(1)
	}
}

// event is a line of go test -json.
type event struct {
	Action      string
	Package     string
	ImportPath  string
	Test        string
	Elapsed     float64
	Output      string
	FailedBuild string
}

// counts are those of one package, or of all.
type counts struct {
	passed, failed, skipped int
}

// tally is what has been seen so far.
type tally struct {
	to       io.Writer
	packages map[string]*counts
	skipped  []string
	failures []string
	output   map[string][]string // of tests and packages that have not ended
	broken   bool
}

func newTally(to io.Writer) *tally {
	return &tally{to: to, packages: make(map[string]*counts), output: make(map[string][]string)}
}

func (t *tally) readAll(from io.Reader) error {
	in := bufio.NewReader(from)
	for {
		line, err := in.ReadString('\n')
		if line != "" {
			t.read(line)
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// summarize shows the end of the report, and whether all is well.
func (t *tally) summarize() bool {
	t.list("skipped", t.skipped)
	t.list("failed", t.failures)
	var all counts
	for _, c := range t.packages {
		all.passed += c.passed
		all.failed += c.failed
		all.skipped += c.skipped
	}
	fmt.Fprintf(t.to, "%d passed, %d failed, %d skipped\n", all.passed, all.failed, all.skipped)
	return !t.broken && all.failed == 0 && all.passed > 0
}

func (t *tally) list(title string, lines []string) {
	if len(lines) == 0 {
		return
	}
	fmt.Fprintln(t.to, title+":")
	for _, l := range lines {
		fmt.Fprintln(t.to, "  "+l)
	}
}

// appendTo appends a line for each package that has tests to a file.
func (t *tally) appendTo(file, title string) error {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(t.packages)) {
		if c := t.packages[name]; *c != (counts{}) {
			fmt.Fprintf(f, "%s suite=%s passed=%d failed=%d skipped=%d\n", title, path.Base(name), c.passed, c.failed, c.skipped)
		}
	}
	return f.Close()
}

func (t *tally) read(line string) {
	var e event
	if json.Unmarshal([]byte(line), &e) != nil { // what a tool wrote before the tests began
		fmt.Fprint(t.to, line)
		return
	}
	key := e.Package + " " + e.Test
	switch e.Action {
	case "build-output":
		fmt.Fprint(t.to, e.Output)
	case "build-fail":
		t.broken = true
	case "output":
		if e.Test == "" && strings.HasPrefix(e.Output, "confirmed=") { // the one line of a fault run
			fmt.Fprint(t.to, e.Output)
		}
		t.output[key] = append(t.output[key], e.Output)
	case "pass", "fail", "skip":
		t.end(e, key)
	}
}

// of are the counts of a package.
func (t *tally) of(name string) *counts {
	c := t.packages[name]
	if c == nil {
		c = new(counts)
		t.packages[name] = c
	}
	return c
}

func (t *tally) end(e event, key string) {
	lines := t.output[key]
	delete(t.output, key)
	c := t.of(e.Package)
	if e.Test == "" {
		if e.Action == "fail" {
			t.broken = true
			t.unfinished(e.Package)
			fmt.Fprint(t.to, strings.Join(lines, ""))
			c.failed = max(c.failed, 1)
		}
		fmt.Fprintf(t.to, "%-5s %s %.1fs\n", e.Action, e.Package, e.Elapsed)
		return
	}
	switch e.Action {
	case "pass":
		c.passed++
		// The race detector speaks while whichever test runs, and fails others that run then.
		if slices.ContainsFunc(lines, func(l string) bool { return strings.Contains(l, "DATA RACE") }) {
			fmt.Fprint(t.to, strings.Join(lines, ""))
		}
	case "fail":
		c.failed++
		t.failures = append(t.failures, e.Test+": "+shorten(reason(lines)))
		fmt.Fprint(t.to, strings.Join(lines, ""))
	case "skip":
		c.skipped++
		t.skipped = append(t.skipped, e.Test+": "+reason(lines))
	}
}

// unfinished shows what was written by tests that had not ended when their package did: one of them hung, or crashed, and the stacks of
// all goroutines are there.
func (t *tally) unfinished(pkg string) {
	for _, key := range slices.Sorted(maps.Keys(t.output)) {
		test, ok := strings.CutPrefix(key, pkg+" ")
		if !ok || test == "" {
			continue
		}
		fmt.Fprint(t.to, strings.Join(t.output[key], ""))
		t.of(pkg).failed++
		t.failures = append(t.failures, test+": did not end")
		delete(t.output, key)
	}
}

// shorten keeps what fits on a few lines.
func shorten(s string) string {
	const most = 400
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + " ..."
}

// reason is the output of a test before it was skipped, or failed.
func reason(lines []string) string {
	var said []string
	for _, l := range lines {
		l = strings.TrimSpace(l)
		if l != "" && !strings.HasPrefix(l, "===") && !strings.HasPrefix(l, "---") {
			said = append(said, l)
		}
	}
	if len(said) == 0 {
		return "no reason given"
	}
	return strings.Join(said, " ")
}
