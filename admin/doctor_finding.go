package admin

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/rehop/rehop/topology"
)

// Severity is how bad a finding is.
type Severity string

const (
	// Info is worth knowing.
	Info Severity = "info"
	// Warning can lose or hold up messages when something else goes wrong.
	Warning Severity = "warning"
	// Critical loses messages or holds them up, or is about to.
	Critical Severity = "critical"
)

// rank puts the worst first.
func (s Severity) rank() int { return slices.Index([]Severity{Critical, Warning, Info}, s) }

// Above reports whether it is worse than another.
func (s Severity) Above(other Severity) bool { return s.rank() < other.rank() }

// Finding is one thing that Doctor has found.
type Finding struct {
	ID       string          `json:"id"` // see Ailments
	Severity Severity        `json:"severity"`
	Object   topology.Object `json:"object"` // a queue, an exchange, a policy, a user, a node, a channel, a connection, a consumer, a virtual host, or the broker
	Found    string          `json:"found"`
	Why      string          `json:"why"` // it matters
	Fix      string          `json:"fix"` // a command or a setting
}

// String has what was found, why it matters and what to do, in three lines.
func (f Finding) String() string {
	return fmt.Sprintf("%s: %s: %s (%s)\n    %s\n    fix: %s\n", f.Severity, f.Object, f.Found, f.ID, f.Why, f.Fix)
}

// Findings are what Doctor has found, the worst first.
type Findings []Finding

// String has all findings.
func (all Findings) String() string {
	if len(all) == 0 {
		return "nothing found\n"
	}
	var s strings.Builder
	for _, f := range all {
		s.WriteString(f.String())
	}
	return s.String()
}

// Above are the findings that are worse than a severity.
func (all Findings) Above(s Severity) Findings {
	var some Findings
	for _, f := range all {
		if f.Severity.Above(s) {
			some = append(some, f)
		}
	}
	return some
}

func (all Findings) sort() {
	slices.SortStableFunc(all, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Severity.rank(), b.Severity.rank()), cmp.Compare(a.ID, b.ID), cmp.Compare(a.Object.String(), b.Object.String()))
	})
}
