//go:build !unix

package guard

import "log/slog"

// Asked reports whether this is the second process, which only Unix has.
func Asked() bool { return false }

// Run does nothing.
func Run() {}

// Guard does nothing where there are no process groups.
type Guard struct{}

// New returns a guard.
func New(*slog.Logger) *Guard { return &Guard{} }

// Begin returns nil.
func (*Guard) Begin() (started func(group int) (ended func())) { return nil }
