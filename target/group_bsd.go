//go:build unix && !linux

package target

import "syscall"

// attributes give a program a process group of its own.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func keepThread() func() { return func() {} }
