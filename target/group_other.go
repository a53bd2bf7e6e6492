//go:build !unix

package target

import (
	"os/exec"
	"time"
)

// group is a program. What it has started is not known here.
type group struct{ program *exec.Cmd }

func newGroup(program *exec.Cmd) *group { return &group{program} }

// end kills the program: there is no way to ask it.
func (g *group) end(time.Duration) error { return g.program.Process.Kill() }

func (g *group) stop() {}
