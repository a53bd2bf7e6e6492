package node

import "syscall"

// installedMemory asks the kernel, because services are often started without /proc/meminfo (ProcSubset=pid of systemd).
func installedMemory() (int64, bool) {
	var info syscall.Sysinfo_t
	if err := syscall.Sysinfo(&info); err != nil {
		return 0, false
	}
	return int64(info.Totalram) * int64(max(info.Unit, 1)), true
}
