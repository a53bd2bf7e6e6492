//go:build unix

package target

import (
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// group is a program with its child processes.
type group struct {
	program *exec.Cmd

	mu    sync.Mutex
	timer *time.Timer
	over  bool
}

// newGroup gives a program that has not started yet a process group of its own.
func newGroup(program *exec.Cmd) *group {
	program.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return &group{program: program}
}

// end sends SIGTERM to the group, and SIGKILL after grace.
func (g *group) end(grace time.Duration) error {
	if grace == 0 {
		return g.signal(syscall.SIGKILL)
	}
	g.mu.Lock()
	if !g.over {
		g.timer = time.AfterFunc(grace, func() { _ = g.signal(syscall.SIGKILL) })
	}
	g.mu.Unlock()
	return g.signal(syscall.SIGTERM)
}

// stop is called when the program has ended. If it was asked to end, the rest of its group is killed.
func (g *group) stop() {
	g.mu.Lock()
	g.over = true
	asked := g.timer != nil && g.timer.Stop()
	g.mu.Unlock()
	if asked {
		_ = g.signal(syscall.SIGKILL)
	}
}

func (g *group) signal(s syscall.Signal) error { return syscall.Kill(-g.program.Process.Pid, s) }
