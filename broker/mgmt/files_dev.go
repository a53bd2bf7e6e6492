//go:build linux || darwin

package mgmt

import (
	"math"
	"os"
	"syscall"
)

// openFiles returns how many files and sockets the process has open, and how many it may have; not ok: unknown.
func openFiles() (open, limit int64, ok bool) {
	dir, err := os.Open("/dev/fd")
	if err != nil {
		return 0, 0, false
	}
	names, err := dir.Readdirnames(-1)
	_ = dir.Close()
	var most syscall.Rlimit
	if err != nil || syscall.Getrlimit(syscall.RLIMIT_NOFILE, &most) != nil {
		return 0, 0, false
	}
	return int64(len(names)) - 1, int64(min(uint64(most.Cur), math.MaxInt32)), true // without that of the directory itself
}
