//go:build unix

package broker_test

import (
	"syscall"
	"testing"
	"time"
)

// processorTime is how much processor time this process has used, which does not depend on other processes.
func processorTime(t testing.TB) time.Duration {
	t.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		t.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
