package cli

import (
	"context"
	"errors"
	"fmt"
)

// The exit codes of the command, which docs/cli.md lists.
const (
	exitDone        = 0
	exitFailed      = 1   // something went wrong while it was done
	exitUsage       = 2   // the command line or a file is wrong; nothing was done
	exitFound       = 3   // what was looked for is there: a difference, an ailment, a fault in a file
	exitUnreachable = 4   // the broker or the database cannot be reached
	exitInterrupted = 130 // ended by ^C before it was done
)

// exitError is an error with the exit code that it means.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

// usage is a fault of the command line or of a file.
func usage(format string, args ...any) error {
	return &exitError{exitUsage, fmt.Errorf(format, args...)}
}

// found says that a command has found what it looks for; what that is has been printed already.
func found(format string, args ...any) error {
	return &exitError{exitFound, fmt.Errorf(format, args...)}
}

// unreachable says that nothing could be done because the other side is not there.
func unreachable(err error) error { return &exitError{exitUnreachable, err} }

// codeOf is the exit code of a command that has ended with err.
func codeOf(ctx context.Context, err error) int {
	var with *exitError
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &with):
		return with.code
	case ctx.Err() != nil:
		return exitInterrupted
	}
	return exitFailed
}
