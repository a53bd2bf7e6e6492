package topology

import (
	"fmt"
	"slices"
	"strings"
)

// Diff is how a broker differs from a plan: first what prevents the plan from working, in the plan's order.
type Diff []Difference

// Difference is one thing in which a broker differs from a plan.
type Difference struct {
	Kind     Kind   `json:"kind"`
	Object   Object `json:"object"`
	Argument string `json:"argument,omitempty"` // or property: type, durable, auto_delete, internal, exclusive, pattern, priority, …
	Want     any    `json:"want,omitempty"`     // the value in the plan; nil: none
	Have     any    `json:"have,omitempty"`     // the value on the broker; nil: none
	Policy   string `json:"policy,omitempty"`   // the policy that sets the value
	Do       Remedy `json:"do"`
	Hint     string `json:"hint"` // what to do, as text
}

// Kind is how something differs.
type Kind string

// The kinds, in the order in which a diff has them.
const (
	// Unsupported: this release of the broker does not have the feature. It may declare the object anyway,
	// which then does not behave as planned.
	Unsupported Kind = "unsupported"
	// Missing: the plan has it, and the broker does not.
	Missing Kind = "missing"
	// Differs: both have it, with different settings. Declaring it fails.
	Differs Kind = "differs"
	// Overridden: a policy changes a planned setting, or adds one.
	Overridden Kind = "overridden"
	// Unexpected: a queue of the plan has a binding that is not in the plan.
	Unexpected Kind = "unexpected"
	// Superfluous: it is rehop's own, empty, and not in the plan.
	Superfluous Kind = "superfluous"
	// Unchecked: it could not be read from the broker.
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
	// ChangePolicy: change the policy, not the object.
	ChangePolicy Remedy = "policy"
	// Unbind it.
	Unbind Remedy = "unbind"
	// Delete it.
	Delete Remedy = "delete"
	// ChangePlan: change the plan, or use another release of the broker.
	ChangePlan Remedy = "plan"
	// Ask the owner: another application declares it.
	Ask Remedy = "ask"
	// Check it yourself.
	Check Remedy = "check"
)

// Of returns the differences of some kinds.
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
		fmt.Fprintln(&s, x)
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

// shown is a value as readable text.
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
