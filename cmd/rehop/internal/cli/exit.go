package cli

import (
	"context"
	"errors"
	"fmt"
)

// The exit codes of the command, which docs/cli.md lists.
const (
	exitDone        = 0
	exitFailed      = 1   // the command failed
	exitUsage       = 2   // the command line or a file is wrong; nothing was done
	exitFound       = 3   // a difference, a finding, an error in a file
	exitUnreachable = 4   // the broker or the database cannot be reached
	exitInterrupted = 130 // ended by ^C before it was done
)

type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

// usage is an error in the command line or in a file.
func usage(format string, args ...any) error {
	return &exitError{exitUsage, fmt.Errorf(format, args...)}
}

// found means that a command has found differences, problems or errors, which it has printed already.
func found(format string, args ...any) error {
	return &exitError{exitFound, fmt.Errorf(format, args...)}
}

// unreachable means that the broker or the database cannot be reached.
func unreachable(err error) error { return &exitError{exitUnreachable, err} }

// codeOf returns the exit code of a command that ended with err.
func codeOf(ctx context.Context, err error) int {
	coded, ok := errors.AsType[*exitError](err)
	switch {
	case err == nil:
		return exitDone
	case ok:
		return coded.code
	case ctx.Err() != nil:
		return exitInterrupted
	}
	return exitFailed
}
