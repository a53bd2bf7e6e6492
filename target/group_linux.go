package target

import (
	"runtime"
	"syscall"
)

// attributes give a program a process group of its own, and have the kernel kill it when this process dies.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// keepThread keeps the thread that starts a program until the returned function is called: the kernel takes the end of that thread for the
// death of this process.
func keepThread() func() {
	runtime.LockOSThread()
	return runtime.UnlockOSThread
}
