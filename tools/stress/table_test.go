package main

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestFailuresIn(t *testing.T) {
	end := errors.New("exit status 2")
	for name, c := range map[string]struct {
		out  string
		want []string
	}{
		"one of two subtests":           {"--- FAIL: TestA (0.1s)\n    --- FAIL: TestA/b (0.1s)\n        a_test.go:7: got 1, want 2\nFAIL\n", []string{"TestA/b"}},
		"names with the same beginning": {"--- FAIL: TestA (0.1s)\n--- FAIL: TestAll (0.1s)\nFAIL\n", []string{"TestA", "TestAll"}},
		"a panic":                       {"--- FAIL: TestA (0.1s)\npanic: index out of range [recovered]\n\tpanic: index out of range\n", []string{"TestA", "panic: index out of range [recovered]"}},
		"out of time":                   {"panic: test timed out after 1s\n\trunning tests:\n\t\tTestA (1s)\n\t\tTestB/c (1s)\n\ngoroutine 1 [running]:\nmain.x(0x1)\n", []string{"panic: test timed out after 1s TestA TestB/c"}},
		"no word":                       {"", []string{"the program: exit status 2"}},
	} {
		if got := failuresIn(c.out, end); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

func TestTable(t *testing.T) {
	table := newTable([]int{1, 8})
	table.add("a", 1, nil)
	table.add("a", 8, nil)
	var text strings.Builder
	if table.print(&text) || text.String() != "2 runs, nothing failed\n" {
		t.Errorf("got %q, want that nothing failed", text.String())
	}
	table.add("a", 8, []string{"TestX"})
	text.Reset()
	if !table.print(&text) {
		t.Error("got nothing failed, want that something did")
	}
	want := "\nfailed of runs  GOMAXPROCS=1  GOMAXPROCS=8\na TestX         0 of 1        1 of 2\n"
	if text.String() != want {
		t.Errorf("got\n%s\nwant\n%s", text.String(), want)
	}
}
