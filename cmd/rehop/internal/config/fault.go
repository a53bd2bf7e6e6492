package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Fault is an error in a file.
type Fault struct {
	File string `json:"file"`
	Line int    `json:"line,omitempty"` // 0: it is not about a line
	Text string `json:"text"`
}

func (f Fault) Error() string {
	if f.Line == 0 {
		return f.File + ": " + f.Text
	}
	return fmt.Sprintf("%s:%d: %s", f.File, f.Line, f.Text)
}

// Faults are all errors in a file, in the order of its lines.
type Faults []Fault

func (f Faults) Error() string {
	lines := make([]string, len(f))
	for i, fault := range f {
		lines[i] = fault.Error()
	}
	return strings.Join(lines, "\n")
}

func (f Faults) sorted() Faults {
	slices.SortStableFunc(f, func(a, b Fault) int { return cmp.Compare(a.Line, b.Line) })
	return slices.Compact(f)
}

// nearest returns the most similar of some words, or "" if none is similar.
func nearest(word string, words []string) string {
	best, found := len([]rune(word))/2+1, ""
	for _, w := range words {
		if d := distance(strings.ToLower(word), w); d < best {
			best, found = d, w
		}
	}
	return found
}

// distance is the Damerau-Levenshtein distance: how many letters must be added, removed, changed or swapped with their neighbour.
func distance(from, to string) int {
	a, b := []rune(from), []rune(to)
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := last[j-1]
			if a[i-1] != b[j-1] {
				change++
			}
			row[j] = min(change, last[j]+1, row[j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
