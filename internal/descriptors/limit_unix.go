//go:build unix

package descriptors

import "syscall"

// Share returns how many of the descriptors that this process can have open are one of the given number of parts, at least low and at most high.
func Share(parts, low, high int) int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return low
	}
	if uint64(limit.Cur) > uint64(high)*uint64(parts) {
		return high
	}
	return min(max(int(limit.Cur)/parts, low), high)
}
