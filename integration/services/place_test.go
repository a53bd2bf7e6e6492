// Package services tests scripts/services: each kind of server is started, killed, restarted and stopped.
package services

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rehop/rehop/integration/lab"
)

var releases = flag.String("releases", os.Getenv("REHOP_RABBITMQ"), "releases of RabbitMQ to test, with commas between them; empty: the default one")

// place is a state directory that only one test uses.
type place struct {
	t   *testing.T
	dir string
	env []string
}

// newPlace stops and removes all servers of the place when the test has ended. release is that of RabbitMQ, empty for the default.
func newPlace(t *testing.T, release string) *place {
	t.Helper()
	root, err := os.MkdirTemp("", "rehop-place-") // t.TempDir may be too long for Unix sockets
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(root, 0o711); err != nil { // for the user postgres
		t.Fatal(err)
	}
	p := &place{t: t, dir: filepath.Join(root, "s")}
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "REHOP_") {
			p.env = append(p.env, variable)
		}
	}
	p.env = append(p.env, "REHOP_SERVICES_DIR="+p.dir, "REHOP_RABBITMQ="+release)
	t.Cleanup(func() {
		p.run("down")
		if left, err := os.ReadDir(root); err != nil || len(left) > 0 {
			t.Errorf("after down there are %v, %v, want nothing", left, err)
		}
		if err := os.RemoveAll(root); err != nil {
			t.Error(err)
		}
	})
	return p
}

func (p *place) command(args ...string) *exec.Cmd {
	c := exec.Command(filepath.Join("..", "..", "scripts", "services"), args...)
	c.Env = p.env
	return c
}

// run runs scripts/services, which must succeed, and returns what it prints.
func (p *place) run(args ...string) string {
	p.t.Helper()
	out, err := p.command(args...).Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w\n%s", err, exit.Stderr)
		}
		p.t.Fatalf("scripts/services %s: %v", strings.Join(args, " "), err)
	}
	return string(out)
}

// up starts services, or ends a test that lacks them.
func (p *place) up(services ...string) {
	p.t.Helper()
	if out, err := p.command(append([]string{"up"}, services...)...).CombinedOutput(); err != nil {
		lab.Lack(p.t, "scripts/services up %s: %v\n%s", strings.Join(services, " "), err, out)
	}
}

// variables is what env prints.
func (p *place) variables() map[string]string {
	p.t.Helper()
	all := make(map[string]string)
	for line := range strings.Lines(p.run("env")) {
		name, value, ok := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "export "), "=")
		if !ok {
			p.t.Fatalf("got line %q, want an export", line)
		}
		all[name] = strings.Trim(value, "'")
	}
	return all
}

// state is what status reports of a node, and its pid.
func (p *place) state(node string) (word, pid string) {
	p.t.Helper()
	for line := range strings.Lines(p.run("status")) {
		fields := strings.Fields(line)
		if len(fields) < 5 || fields[1] != node {
			continue
		}
		for i, field := range fields {
			if field == "pid" {
				return strings.Join(fields[2:i], " "), fields[i+1]
			}
		}
	}
	p.t.Fatalf("status has no line for node %s", node)
	return "", ""
}

func (p *place) wantState(node, want string) (pid string) {
	p.t.Helper()
	word, pid := p.state(node)
	if word != want {
		p.t.Errorf("node %s is %q, want %q", node, word, want)
	}
	return pid
}

// cycle kills, starts, restarts and stops a node. works is called each time that it serves again.
func (p *place) cycle(node string, works func()) {
	p.t.Helper()
	first := p.wantState(node, "up")
	p.run("start", node) // which it is already
	if again := p.wantState(node, "up"); again != first {
		p.t.Errorf("starting %s, which ran with pid %s, has started it again with pid %s", node, first, again)
	}
	works()
	p.run("kill", node)
	p.wantState(node, "down")
	p.run("kill", node)
	p.run("start", node)
	second := p.wantState(node, "up")
	works()
	p.run("restart", node)
	if third := p.wantState(node, "up"); third == second {
		p.t.Errorf("after a restart %s has the same pid %s", node, third)
	}
	works()
	p.run("stop", node)
	p.wantState(node, "down")
	p.run("start", node)
	works()
}

// limited is a context for what should take no time.
func limited(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}
