//go:build linux || darwin

package mgmt

import (
	"math"
	"os"
	"syscall"
)

// openFiles counts them; not ok: the system does not tell.
func openFiles() (descriptors, bool) {
	dir, err := os.Open("/dev/fd")
	if err != nil {
		return descriptors{}, false
	}
	names, err := dir.Readdirnames(-1)
	_ = dir.Close()
	var limit syscall.Rlimit
	if err != nil || syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return descriptors{}, false
	}
	return descriptors{open: int64(len(names)) - 1, limit: int64(min(uint64(limit.Cur), math.MaxInt32))}, true // without that of the directory itself
}
