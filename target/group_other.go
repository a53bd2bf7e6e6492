//go:build !unix

package target

import (
	"os/exec"
	"time"
)

// group is a program. Its child processes are not known here.
type group struct{ program *exec.Cmd }

func newGroup(program *exec.Cmd) *group { return &group{program} }

// end kills the program: it cannot be asked to end.
func (g *group) end(time.Duration) error { return g.program.Process.Kill() }

func (g *group) stop() {}
