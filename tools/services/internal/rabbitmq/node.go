package rabbitmq

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/rehop/rehop/tools/services/internal/daemon"
	"github.com/rehop/rehop/tools/services/internal/network"
	"github.com/rehop/rehop/tools/services/internal/ports"
	"github.com/rehop/rehop/tools/services/internal/program"
	"github.com/rehop/rehop/tools/services/internal/state"
)

// Node is a broker, or one of those that make a cluster.
type Node struct {
	daemon.Daemon
	site
	service *Service
	epmd    *epmd
	short   string // its name without the release
	which   ports.Node
}

// site is where a server runs.
type site struct {
	dir state.Dir
	// apart is the number of the network namespace in which the server runs, from 1 on, and namespace its name; 0 and "" are the machine's.
	apart     int
	namespace string
}

// host is the address of the site.
func (s site) host() string {
	if s.apart == 0 {
		return ports.Loopback
	}
	return network.Of(s.dir).Address(s.apart)
}

// erlangName is the name by which nodes know each other. Those of other releases have the same, and another port mapper.
func (n *Node) erlangName() string {
	if n.apart == 0 {
		return "rehop-" + n.short + "@localhost"
	}
	return "rehop-" + n.short + "@" + n.host()
}

// Node is the node's name.
func (n *Node) Node() string { return n.Name }

func (n *Node) clustered() bool { return n.which != ports.Single }

func (n *Node) file(name string) string { return filepath.Join(n.Dir, name) }

func (n *Node) block() ports.Block { return n.dir.Block() }

func (n *Node) ports() ports.RabbitMQ { return n.block().RabbitMQ(n.epmd.release.index, n.which) }

// Ports are the node's ports, by what is spoken there.
func (n *Node) Ports() []ports.Named {
	p := n.ports()
	all := []ports.Named{{Protocol: "amqp", Port: p.AMQP}, {Protocol: "management", Port: p.Management},
		{Protocol: "prometheus", Port: p.Prometheus}, {Protocol: "dist", Port: p.Dist}}
	if p.AMQPS != 0 {
		all = append(all, ports.Named{Protocol: "amqps", Port: p.AMQPS})
	}
	return all
}

// Serving reports whether the node accepts clients. It opens its listeners last, after its plugins started and the definitions were
// loaded; a node whose application is stopped or paused has them closed.
func (n *Node) Serving() bool { return n.Runs() && ports.Accepts(n.host(), n.ports().AMQP) }

// launch starts the node unless it runs, and does not wait.
func (n *Node) launch() error {
	unlock, err := n.Lock()
	if err != nil {
		return err
	}
	defer unlock()
	if n.Runs() {
		return nil
	}
	installed, err := n.epmd.installed()
	if err != nil {
		return err
	}
	if err := ports.AwaitFree(n.host(), n.ports().AMQP, n.Name); err != nil {
		return err
	}
	version := installed.version()
	if err := n.configure(version); err != nil {
		return fmt.Errorf("configure %s: %w", n.Name, err)
	}
	if err := n.KeepVersion(version); err != nil {
		return err
	}
	// Under systemd the start script executes Erlang; otherwise it would stay as its parent, and the pid would be that of the script.
	env := program.Environment(n.dir.Home(), append(n.environment(), "RUNNING_UNDER_SYSTEMD=true")...)
	return n.Spawn(n.in(installed.program(env, "rabbitmq-server")))
}

// configure writes the configuration.
func (n *Node) configure(version string) error {
	for _, name := range []string{"data", "log", "conf.d"} {
		if err := os.MkdirAll(n.file(name), 0o700); err != nil {
			return err
		}
	}
	for name, content := range map[string]string{
		"rabbitmq-env.conf": "",
		"rabbitmq.conf":     n.config(version),
		"advanced.config":   advanced,
		"enabled_plugins":   n.plugins(),
		"definitions.json":  definitions(),
	} {
		if err := os.WriteFile(n.file(name), []byte(content), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// await waits for the node to serve, and for its management API, which with 4.3 answers "500 Internal Server Error" for a moment
// after the listeners are open. Nodes that boot at the same time may, rarely, fail each other (one asks the other for feature
// flags of a plugin that the other has not loaded yet, seen with 3.10); the next attempt succeeds.
func (n *Node) await() error {
	for attempt := 1; ; attempt++ {
		err := n.Await(func() bool { return n.Serving() && n.get("/api/overview", nil) == nil })
		var failed *daemon.NotServingError
		// A node that somebody killed meanwhile is not started again.
		if !errors.As(err, &failed) || !failed.Ended || attempt == 3 || !n.Printed("BOOT FAILED", "Boot failed") {
			return err
		}
		fmt.Fprintf(os.Stderr, "services: %s failed to boot; once more\n", n.Name)
		if err := n.launch(); err != nil {
			return err
		}
	}
}

// Start starts the node and waits until it serves.
func (n *Node) Start() error {
	if err := n.epmd.launch(); err != nil {
		return err
	}
	if err := n.launch(); err != nil {
		return err
	}
	return n.await()
}

// Stop sends SIGTERM, on which a node shuts down in order. With 3.x it takes the management plugin's event handler away before that:
// as part of the shutdown, which keeps Erlang's application controller busy, that handler calls the application controller, in vain,
// and every stop would take the 5 s until this call times out.
func (n *Node) Stop() error {
	if n.Runs() && before(n.Version(), 4, 0) {
		if p, err := n.ctl("-t", "10", "eval", "gen_event:delete_handler(rabbit_event, rabbit_mgmt_db_handler, stop)."); err == nil {
			_ = p.Command().Run() // without it stopping takes longer
		}
	}
	return n.Daemon.Stop(syscall.SIGTERM)
}

// Kill kills the node at once.
func (n *Node) Kill() error { return n.Daemon.Kill() }

// Ctl runs rabbitmqctl.
func (n *Node) Ctl(args []string) (code int, err error) {
	p, err := n.ctl(args...)
	if err != nil {
		return 0, err
	}
	return p.Attach()
}

func (n *Node) ctl(args ...string) (program.Program, error) {
	installed, err := n.epmd.installed()
	if err != nil {
		return program.Program{}, err
	}
	env := program.Environment(n.dir.Home(), n.environment()...)
	return n.in(installed.program(env, "rabbitmqctl", append([]string{"-n", n.erlangName()}, args...)...)), nil
}

// in is a program that runs at the site.
func (s site) in(program program.Program) program.Program {
	program.Network = s.namespace
	return program
}

// Isolate cuts the node off from the others and from the machine.
func (n *Node) Isolate() error {
	if n.apart == 0 {
		return n.notApart()
	}
	return network.Of(n.dir).Isolate(n.short)
}

// Reconnect ends that.
func (n *Node) Reconnect() error {
	if n.apart == 0 {
		return n.notApart()
	}
	return network.Of(n.dir).Reconnect(n.short)
}

func (n *Node) notApart() error {
	return fmt.Errorf("%s has no network of its own; those of apart-%s have: %s", n.Name, n.epmd.release.Name, strings.Join(apartNodes, " "))
}

// epmd is the Erlang port mapper of a release's nodes. A node would start one by itself, but then its pid would be unknown.
type epmd struct {
	daemon.Daemon
	site
	release   Release
	elsewhere string // REHOP_RABBITMQ_HOME
}

func (e *epmd) port() int { return e.dir.Block().Epmd(e.release.index) }

func (e *epmd) installed() (installation, error) { return e.release.installed(e.elsewhere) }

// launch starts the port mapper unless it runs, and waits for it.
func (e *epmd) launch() error {
	unlock, err := e.Lock()
	if err != nil {
		return err
	}
	defer unlock()
	if e.Runs() {
		return nil
	}
	installed, err := e.installed()
	if err != nil {
		return err
	}
	if err := makeCookie(e.dir.Home()); err != nil {
		return fmt.Errorf("make Erlang's cookie: %w", err)
	}
	name := "/usr/bin/epmd"
	if installed.tree == "" {
		name = "epmd"
	}
	if err := e.Spawn(e.in(program.Program{
		Args: []string{name, "-port", fmt.Sprint(e.port()), "-address", e.host()},
		Env:  program.Environment(e.dir.Home()), Tree: installed.tree,
	})); err != nil {
		return err
	}
	return e.Await(func() bool { return ports.Accepts(e.host(), e.port()) })
}

// makeCookie makes the secret by which Erlang's nodes trust each other, once per state directory.
func makeCookie(home string) error {
	if err := os.MkdirAll(home, 0o700); err != nil {
		return err
	}
	name := filepath.Join(home, ".erlang.cookie")
	if _, err := os.Stat(name); err == nil {
		return nil
	}
	return state.Write(name, rand.Text(), 0o400)
}

// install installs the release unless it is there. The error is a MovedError if its suite has another one by now.
func (e *epmd) install(out io.Writer) error {
	if e.elsewhere != "" {
		_, err := e.installed()
		return err
	}
	if err := e.release.tree().Install(out); err != nil {
		return err
	}
	installed, err := e.installed()
	if err != nil {
		return err
	}
	return e.release.compare(installed.version())
}
