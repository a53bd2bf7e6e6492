//go:build unix

package cli

import (
	"context"
	"path/filepath"
	"syscall"
	"testing"
)

// To open a pipe takes until somebody writes to it, and an interruption does not wait for that.
func TestInterruptedAtAPipe(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	for _, args := range [][]string{{"publish", "--key", "mail", "--file", pipe}, {"failed", "import", "--dry-run", pipe}} {
		s, _, errs := program(nil, "amqp://127.0.0.1:1/")
		if code := Run(ctx, args, s); code != exitInterrupted || errs.String() != "rehop: interrupted\n" {
			t.Errorf("%q: got code %d and %q, want that it was interrupted", args, code, errs)
		}
	}
}
