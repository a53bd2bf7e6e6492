//go:build !linux

package tty

import "golang.org/x/term"

func isTerminal(fd int) bool { return term.IsTerminal(fd) }

// makeRaw sets a terminal to raw mode, which restore ends.
func makeRaw(fd int) (restore func() error, err error) {
	before, err := term.MakeRaw(fd)
	if err != nil {
		return nil, err
	}
	return func() error { return term.Restore(fd, before) }, nil
}

// sizeOf returns the columns and lines of a terminal.
func sizeOf(fd int) (width, height int, err error) { return term.GetSize(fd) }
