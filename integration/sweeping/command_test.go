package sweeping

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/rehop/rehop/integration/kit"
)

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "rehop-sweeping-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Setenv(workshop, dir)
	kit.AtOnce(4)
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// workshop is the variable with the directory in which the program is made.
const workshop = "REHOP_SWEEPING_WORKSHOP"

// build makes the program, once.
var build = sync.OnceValues(func() (string, error) {
	path := filepath.Join(os.Getenv(workshop), "rehop")
	out, err := exec.Command("go", "build", "-o", path, "github.com/rehop/rehop/cmd/rehop").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return path, nil
})

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
	path, err := build()
	if err != nil {
		s.t.Fatal(err)
	}
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
