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
