package topology

import (
	"fmt"
	"slices"
	"strings"
)

// Diff is how a broker differs from a plan: first what keeps the plan from working, in the plan's order.
type Diff []Difference

// Difference is one thing in which a broker differs from a plan.
type Difference struct {
	Kind     Kind   `json:"kind"`
	Object   Object `json:"object"`
	Argument string `json:"argument,omitempty"` // or property: type, durable, auto_delete, internal, exclusive, pattern, priority, …
	Want     any    `json:"want,omitempty"`     // what the plan says; nil: nothing
	Have     any    `json:"have,omitempty"`     // what the broker has; nil: nothing
	Policy   string `json:"policy,omitempty"`   // the policy that does it
	Do       Remedy `json:"do"`
	Hint     string `json:"hint"` // what to do, in words
}

// Kind is how something differs.
type Kind string

// The kinds, in the order in which a diff has them.
const (
	// Unsupported: this release of the broker has nothing of that kind. It may declare the object, which then does not do what the plan says.
	Unsupported Kind = "unsupported"
	// Missing: the plan has it, and the broker has not.
	Missing Kind = "missing"
	// Differs: both have it, not alike. To declare it fails.
	Differs Kind = "differs"
	// Ruled: a policy changes what the plan says, or adds to it.
	Overridden Kind = "overridden"
	// Unexpected: a queue of the plan has a binding that is not in the plan.
	Unexpected Kind = "unexpected"
	// Superfluous: it is rehop's own, empty, and not in the plan.
	Superfluous Kind = "superfluous"
	// Unchecked: it could not be seen.
	Unchecked Kind = "unchecked"
)

// Remedy is what ends a difference.
type Remedy string

const (
	// Declare it, as Apply does.
	Declare Remedy = "declare"
	// Migrate the queue to a new one with the plan's arguments.
	Migrate Remedy = "migrate"
	// Recreate it: delete it, and declare it again.
	Recreate Remedy = "recreate"
	// ChangePolicy, not the object.
	ChangePolicy Remedy = "policy"
	// Unbind it.
	Unbind Remedy = "unbind"
	// Delete it.
	Delete Remedy = "delete"
	// ChangePlan, or use another release of the broker.
	ChangePlan Remedy = "plan"
	// Ask its owner: it is somebody else's.
	Ask Remedy = "ask"
	// Look yourself.
	Check Remedy = "check"
)

// Of are the differences of some kinds.
func (d Diff) Of(kinds ...Kind) Diff {
	var some Diff
	for _, x := range d {
		if slices.Contains(kinds, x.Kind) {
			some = append(some, x)
		}
	}
	return some
}

// String has a line for each difference.
func (d Diff) String() string {
	if len(d) == 0 {
		return "no differences\n"
	}
	var s strings.Builder
	for _, x := range d {
		s.WriteString(x.String())
		s.WriteByte('\n')
	}
	return s.String()
}

// String is what differs, and what to do.
func (x Difference) String() string {
	s := fmt.Sprintf("%s: %s", x.Kind, x.Object)
	if x.Argument != "" {
		s += fmt.Sprintf(": %s is %s, planned is %s", x.Argument, shown(x.Have), shown(x.Want))
	}
	if x.Policy != "" {
		s += fmt.Sprintf(" (policy %q)", x.Policy)
	}
	return s + "; " + x.Hint
}

// shown is a value as people read it.
func shown(v any) string {
	switch v := plain(v).(type) {
	case nil:
		return "none"
	case string:
		return fmt.Sprintf("%q", v)
	default:
		return fmt.Sprint(v)
	}
}
