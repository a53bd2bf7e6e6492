package sweeping

import (
	"bytes"
	"os"
	"os/exec"
	"testing"

	"github.com/rehop/rehop/integration/kit"
)

func TestMain(m *testing.M) {
	kit.AtOnce(4)
	os.Exit(kit.MainWithProgram(m))
}

// command is a run of rehop.
type command struct {
	*exec.Cmd
	out, errs bytes.Buffer
	ended     chan struct{}
	err       error // read after ended
}

// command prepares a run of rehop on the scene's broker.
func (s *scene) command(args ...string) *command {
	s.t.Helper()
	path := kit.Program(s.t)
	c := &command{Cmd: exec.Command(path, args...), ended: make(chan struct{})}
	c.Env = append(os.Environ(), "REHOP_BROKER="+s.rabbit.URL)
	c.Dir = s.t.TempDir()
	c.Stdout, c.Stderr = &c.out, &c.errs
	return c
}

// start starts it. It is killed when the test ends before it does.
func (c *command) start(t testing.TB) {
	t.Helper()
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		c.err = c.Wait()
		close(c.ended)
	}()
	t.Cleanup(func() { c.kill() })
}

// kill kills it, as kill -9 does, and reports whether it was running until then.
func (c *command) kill() bool {
	_ = c.Process.Kill()
	<-c.ended
	return !c.ProcessState.Exited()
}

// run runs it to its end, which must be a good one.
func (c *command) run(t testing.TB) {
	t.Helper()
	if err := c.Run(); err != nil {
		t.Fatalf("%v: got %v\n%s%s", c.Args, err, c.out.String(), c.errs.String())
	}
}
