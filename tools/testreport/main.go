// Command testreport reads what "go test -json" writes, shows what failed, and ends with what was
// skipped and why.
//
//	go test -json ./... | testreport
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

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

// tally is what has been seen so far.
type tally struct {
	passed, failed int
	skipped        []string
	output         map[string][]string // of tests and packages that have not ended
	broken         bool
}

func main() {
	t := tally{output: make(map[string][]string)}
	in := bufio.NewReader(os.Stdin)
	for {
		line, err := in.ReadString('\n')
		if line != "" {
			t.read(line)
		}
		if err != nil {
			if err != io.EOF {
				fmt.Fprintln(os.Stderr, "testreport:", err)
				os.Exit(2)
			}
			break
		}
	}
	if len(t.skipped) > 0 {
		fmt.Println("skipped:")
		for _, s := range t.skipped {
			fmt.Println("  " + s)
		}
	}
	fmt.Printf("%d passed, %d failed, %d skipped\n", t.passed, t.failed, len(t.skipped))
	if t.broken || t.failed > 0 || t.passed == 0 {
		os.Exit(1)
	}
}

func (t *tally) read(line string) {
	var e event
	if json.Unmarshal([]byte(line), &e) != nil { // what a tool wrote before the tests began
		fmt.Print(line)
		return
	}
	key := e.Package + " " + e.Test
	switch e.Action {
	case "build-output":
		fmt.Print(e.Output)
	case "build-fail":
		t.broken = true
	case "output":
		if e.Test == "" && strings.HasPrefix(e.Output, "confirmed=") { // the one line of a fault run
			fmt.Print(e.Output)
		}
		t.output[key] = append(t.output[key], e.Output)
	case "pass", "fail", "skip":
		t.end(e, key)
	}
}

func (t *tally) end(e event, key string) {
	lines := t.output[key]
	delete(t.output, key)
	if e.Test == "" {
		if e.Action == "fail" {
			t.broken = true
			fmt.Print(strings.Join(lines, ""))
		}
		fmt.Printf("%-5s %s %.1fs\n", e.Action, e.Package, e.Elapsed)
		return
	}
	switch e.Action {
	case "pass":
		t.passed++
		// The race detector speaks while whichever test runs, and fails others that run then.
		if slices.ContainsFunc(lines, func(l string) bool { return strings.Contains(l, "DATA RACE") }) {
			fmt.Print(strings.Join(lines, ""))
		}
	case "fail":
		t.failed++
		fmt.Print(strings.Join(lines, ""))
	case "skip":
		t.skipped = append(t.skipped, e.Test+": "+reason(lines))
	}
}

// reason is what a test said before it was skipped.
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
