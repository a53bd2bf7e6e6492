package main

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
)

var (
	failedTest = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)
	lastWords  = regexp.MustCompile(`(?m)^(?:panic|fatal error): .*`)
	underWay   = regexp.MustCompile(`(?m)^\s+(\S+) \(\d[^)]*\)$`)
)

// failuresIn returns the tests that failed in a run which ended with an error: those without subtests that failed, and the last output of the program if it
// died.
func failuresIn(out string, end error) (failures []string) {
	var all []string
	for _, m := range failedTest.FindAllStringSubmatch(out, -1) {
		all = append(all, m[1])
	}
	for _, name := range all {
		if !slices.ContainsFunc(all, func(other string) bool { return strings.HasPrefix(other, name+"/") }) {
			failures = append(failures, name)
		}
	}
	if words := lastWords.FindString(out); words != "" {
		if _, tests, ok := strings.Cut(out, "running tests:\n"); ok { // it ran out of time
			tests, _, _ = strings.Cut(tests, "\n\n")
			for _, m := range underWay.FindAllStringSubmatch(tests, -1) {
				words += " " + m[1]
			}
		}
		failures = append(failures, words)
	}
	if len(failures) == 0 {
		failures = append(failures, "the program: "+end.Error())
	}
	slices.Sort(failures)
	return slices.Compact(failures)
}

// table counts runs and failures.
type table struct {
	procs  []int
	runs   map[count]int
	failed map[row]map[int]int
}

// count is a package with a number of threads.
type count struct {
	suite string
	procs int
}

// row is a line of the table.
type row struct{ suite, test string }

func newTable(procs []int) *table {
	return &table{procs: procs, runs: make(map[count]int), failed: make(map[row]map[int]int)}
}

// add counts a run of a package.
func (t *table) add(suite string, procs int, failures []string) {
	t.runs[count{suite, procs}]++
	for _, test := range failures {
		r := row{suite, test}
		if t.failed[r] == nil {
			t.failed[r] = make(map[int]int)
		}
		t.failed[r][procs]++
	}
}

// print writes what failed how often, and reports whether anything did.
func (t *table) print(to io.Writer) (failed bool) {
	total := 0
	for _, n := range t.runs {
		total += n
	}
	if len(t.failed) == 0 {
		fmt.Fprintf(to, "%d runs, nothing failed\n", total)
		return false
	}
	rows := make([]row, 0, len(t.failed))
	for r := range t.failed {
		rows = append(rows, r)
	}
	slices.SortFunc(rows, func(a, b row) int {
		return strings.Compare(a.suite+"\x00"+a.test, b.suite+"\x00"+b.test)
	})
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "\nfailed of runs")
	for _, p := range t.procs {
		fmt.Fprintf(w, "\tGOMAXPROCS=%d", p)
	}
	fmt.Fprintln(w)
	for _, r := range rows {
		fmt.Fprintf(w, "%s %s", r.suite, r.test)
		for _, p := range t.procs {
			fmt.Fprintf(w, "\t%d of %d", t.failed[r][p], t.runs[count{r.suite, p}])
		}
		fmt.Fprintln(w)
	}
	_ = w.Flush()
	return true
}
