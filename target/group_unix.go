//go:build unix

package target

import (
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// group is a program with its child processes.
type group struct {
	program *exec.Cmd
	output  io.Writer
	started func(group int) (ended func()) // nil: nobody wants to know
	ended   func()
	// read and write are the ends of a pipe for the output. With a pipe of os/exec, Wait would wait for child processes that hold it open.
	read, write *os.File
	copied      chan struct{} // closed when the output has been read

	mu    sync.Mutex
	timer *time.Timer
	over  bool
}

// newGroup gives a program that has not started yet a process group of its own.
func newGroup(program *exec.Cmd, output io.Writer, started func(int) func()) (*group, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	program.SysProcAttr = attributes()
	program.Stdout, program.Stderr = write, write
	return &group{program: program, output: output, started: started, read: read, write: write, copied: make(chan struct{})}, nil
}

// start starts the program. After an error nothing is left.
func (g *group) start() error {
	err := g.program.Start()
	_ = g.write.Close() // the program has its own
	if err != nil {
		_ = g.read.Close()
		return err
	}
	if g.started != nil {
		g.ended = g.started(g.program.Process.Pid)
	}
	go func() { // stop waits for it
		defer close(g.copied)
		_, _ = io.Copy(g.output, g.read)
	}()
	return nil
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

// outputGrace is how long a process that has left the group may hold the output open.
const outputGrace = time.Second

// stop is called when the program has ended. It kills the rest of the group.
func (g *group) stop() {
	g.mu.Lock()
	g.over = true
	if g.timer != nil {
		g.timer.Stop()
	}
	g.mu.Unlock()
	_ = g.signal(syscall.SIGKILL) // an error means that nothing is left
	if g.ended != nil {
		g.ended()
	}
	_ = g.read.SetReadDeadline(time.Now().Add(outputGrace))
	<-g.copied
	_ = g.read.Close()
}

func (g *group) signal(s syscall.Signal) error { return syscall.Kill(-g.program.Process.Pid, s) }

func sameName(a, b string) bool { return a == b }
