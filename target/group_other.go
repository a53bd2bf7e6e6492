//go:build !unix

package target

import (
	"io"
	"os/exec"
	"strings"
	"time"
)

// group is a program. Its child processes are not known here.
type group struct{ program *exec.Cmd }

func newGroup(program *exec.Cmd, output io.Writer, _ func(int) func()) (*group, error) {
	program.Stdout, program.Stderr = output, output
	return &group{program}, nil
}

func (g *group) start() error { return g.program.Start() }

// end kills the program: it cannot be asked to end.
func (g *group) end(time.Duration) error { return g.program.Process.Kill() }

func (g *group) stop() {}

func keepThread() func() { return func() {} }

func sameName(a, b string) bool { return strings.EqualFold(a, b) }
