package console

import "fmt"

// Role is what a user may do. Each role includes the ones before it.
type Role int

const (
	// Viewer sees everything, including the bodies of messages, and changes nothing.
	Viewer Role = iota + 1
	// Operator replays, edits, discards and skips messages, and decides about groups, too.
	Operator
	// Admin reads the audit and ends the sessions of other users, too.
	Admin
)

// String is the name of the role.
func (r Role) String() string {
	switch r {
	case Viewer:
		return "viewer"
	case Operator:
		return "operator"
	case Admin:
		return "admin"
	}
	return fmt.Sprintf("Role(%d)", int(r))
}

// User is who uses the console.
type User struct {
	Name string // is shown, and written to the log with what the user changes
	Role Role
}
