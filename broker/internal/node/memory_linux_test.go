package node

import (
	"testing"
	"testing/fstest"
)

// Without /proc/meminfo and control groups, as in a service with ProcSubset=pid, the memory of the machine is known.
func TestInstalledMemory(t *testing.T) {
	n, known := installedMemory()
	if !known || n < 64<<20 || n > 1<<50 {
		t.Errorf("got %d, %v, want the memory of this machine", n, known)
	}
	if got := availableMemory(fstest.MapFS{}, installedMemory); got != n {
		t.Errorf("got %d, want %d", got, n)
	}
}
