package console

import (
	"cmp"
	"fmt"
)

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
	Name string // is shown, and written to the log and the audit with what the user changes
	Role Role
	// ID is written after the name, if there is one. Set it if a name can change, or if two users can have the same.
	ID string
	// From is the address of the user, if a trusted proxy has reported one. The audit has it together with the address of the connection, which it
	// always has.
	From string
}

// recorded is the user as the log and the audit have it.
func (u User) recorded() string {
	name := cmp.Or(u.Name, u.Role.String())
	if u.ID == "" {
		return name
	}
	return name + " (" + u.ID + ")"
}
