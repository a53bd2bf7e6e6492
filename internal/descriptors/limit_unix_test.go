//go:build unix

package descriptors

import (
	"syscall"
	"testing"
)

// A share stays within its bounds, and all shares together within the limit.
func TestShare(t *testing.T) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if got := Share(8, 1, 1); got != 1 {
		t.Errorf("got %d, want the upper bound", got)
	}
	if got := Share(1<<30, 7, 1<<30); got != 7 {
		t.Errorf("got %d, want the lower bound", got)
	}
	if got := Share(8, 1, 1<<40); uint64(got) > uint64(limit.Cur)/8 {
		t.Errorf("got %d of %d, want an eighth", got, limit.Cur)
	}
}
