package lab

import (
	"bytes"
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// stateDir is the variable with the state directory of scripts/services.
const stateDir = "REHOP_SERVICES_DIR"

// own is the state directory of the servers that this process alone uses, empty if there are none.
var own struct {
	sync.Mutex
	dir string
}

// Own starts servers that only this process uses, for tests that kill them: other packages' tests run at the same time. Services
// are named as for scripts/services. From then on all functions of this package use these servers, so call it first. A further
// call adds services to them, and starts again those that tests have killed. down stops and removes all of them; after that, Own
// starts anew. Where REHOP_FAULTS_SERVICES=given, Own starts nothing, and the servers of the environment are used.
func Own(services ...string) (down func() error, err error) {
	if sharesServers() {
		return func() error { return nil }, nil
	}
	own.Lock()
	defer own.Unlock()
	if own.dir == "" {
		dir, err := ownDir()
		if err != nil {
			return nil, fmt.Errorf("directory for servers: %w", err)
		}
		for _, kv := range os.Environ() {
			if name, _, _ := strings.Cut(kv, "="); ofServers(name) {
				if err := os.Unsetenv(name); err != nil {
					return nil, err
				}
			}
		}
		if err := os.Setenv(stateDir, dir); err != nil {
			return nil, err
		}
		own.dir = dir
	}
	if _, err := run(own.dir, append([]string{"up"}, services...)...); err != nil {
		// Setting is what is missing, and whether that fails or skips a test.
		fmt.Fprintln(os.Stderr, err)
	}
	environments.Delete(own.dir)
	return removal(own.dir), nil
}

// ownDir creates a state directory whose name has this process: if it is killed, the next scripts/services up removes the servers.
func ownDir() (string, error) {
	stat, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return "", err
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	began := strings.Fields(rest)[19]
	return os.MkdirTemp("/tmp", fmt.Sprintf("rehop-services-%d-own-%d-%s-", os.Getuid(), os.Getpid(), began))
}

// removal returns a function that stops and removes the servers of Own, unless that has happened already.
func removal(dir string) func() error {
	return func() error {
		own.Lock()
		defer own.Unlock()
		if own.dir != dir {
			return nil
		}
		if _, err := run(dir, "down"); err != nil {
			return err
		}
		environments.Delete(dir)
		own.dir = ""
		return nil
	}
}

// ofServers reports whether a variable describes servers of scripts/services or where it starts them.
func ofServers(name string) bool {
	switch name {
	case "REHOP_RABBITMQ_HOME":
		return false
	case "REHOP_SERVICES_PORT", "REHOP_SERVICES_MISSING":
		return true
	}
	// Not REHOP_RABBITMQ, which sets what release to start.
	for _, prefix := range []string{"REHOP_RABBITMQ_", "REHOP_CLUSTER_", "REHOP_APART_", "REHOP_POSTGRES_", "REHOP_PGBOUNCER_", "REHOP_MARIADB_", "REHOP_MYSQL_"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// RunOwning runs a package's tests with servers that Own starts, and returns their exit code when these are down again.
func RunOwning(m *testing.M, services ...string) int {
	down, err := Own(services...)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	// Whoever interrupts the tests does not want the servers to stay.
	interrupted, over := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(interrupted, os.Interrupt, syscall.SIGTERM)
	var watch sync.WaitGroup
	watch.Go(func() {
		select {
		case <-interrupted:
			if err := down(); err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
			os.Exit(1)
		case <-over:
		}
	})
	code := m.Run()
	signal.Stop(interrupted)
	close(over)
	watch.Wait()
	if err := down(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// Leader is the node, by its name for Services, that leads a quorum queue.
func (r *Rabbit) Leader(queue string) (string, error) {
	var q struct {
		Leader string `json:"leader"`
		Node   string `json:"node"`
	}
	if err := r.TryAPI("GET", "/api/queues/"+r.Vhost+"/"+url.PathEscape(queue), nil, &q); err != nil {
		return "", err
	}
	leader := q.Leader
	if leader == "" {
		leader = q.Node
	}
	name, _, _ := strings.Cut(strings.TrimPrefix(leader, "rehop-"), "@")
	for _, node := range r.nodes {
		if node == name {
			return name, nil
		}
	}
	return "", fmt.Errorf("queue %q is led by %q, which is none of %v", queue, leader, r.nodes)
}

// Dial opens a plain connection to the first node that answers; after a fault it may take a while
// until one does.
func (r *Rabbit) Dial(ctx context.Context) (*amqp.Connection, error) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		var last error
		for _, u := range r.URLs {
			conn, err := amqp.Dial(u)
			if err == nil {
				return conn, nil
			}
			last = err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, last
		}
	}
}

// TryServices is Services for goroutines other than the test's.
func (r *Rabbit) TryServices(args ...string) error {
	if r.dir == "" {
		return services(args...)
	}
	_, err := run(r.dir, args...)
	return err
}

// services runs scripts/services.
func services(args ...string) error {
	_, err := run(os.Getenv(stateDir), args...)
	return err
}

// run runs scripts/services with a state directory, or with the default one if dir is empty, and returns what it prints.
func run(dir string, args ...string) ([]byte, error) { return runFor("", dir, args...) }

// runFor is run for a release of RabbitMQ, "" being the one that the tests run on.
func runFor(release, dir string, args ...string) ([]byte, error) {
	command := exec.Command(script(), args...)
	environ := os.Environ()
	if dir != os.Getenv(stateDir) {
		environ = withoutServers(environ)
	}
	command.Env = append(environ, stateDir+"="+dir)
	if release != "" {
		command.Env = append(command.Env, "REHOP_RABBITMQ="+release)
	}
	var out, errs bytes.Buffer
	command.Stdout, command.Stderr = &out, &errs
	if err := command.Run(); err != nil {
		return nil, fmt.Errorf("scripts/services %s: %w\n%s%s", strings.Join(args, " "), err, &out, &errs)
	}
	return out.Bytes(), nil
}

// Ailing are quorum queues that do not do their work: those without a leader, and those in which
// messages are only waiting to be dead-lettered.
func (r *Rabbit) Ailing() (leaderless, stuck []string, err error) {
	var all []struct {
		Name, State string
		Ready       int `json:"messages_ready"`
		Dead        int `json:"messages_dlx"`
	}
	if err := r.TryAPI("GET", "/api/queues/"+r.Vhost, nil, &all); err != nil {
		return nil, nil, err
	}
	for _, q := range all {
		switch {
		case q.State != "running":
			leaderless = append(leaderless, q.Name)
		case q.Dead > 0 && q.Ready == 0:
			stuck = append(stuck, q.Name)
		}
	}
	return leaderless, stuck, nil
}

// Expendable reports whether every node could go without a queue losing its majority, as operators ask
// before they stop one: a node that runs again may not have all its queues yet.
func (r *Rabbit) Expendable() bool {
	for _, base := range r.management {
		if call("GET", base, "/api/health/checks/node-is-quorum-critical", nil, nil) != nil {
			return false
		}
	}
	return true
}

// eval runs Erlang on the first node that can.
func (r *Rabbit) eval(code string) (err error) {
	for _, node := range r.nodes {
		if err = r.TryServices("ctl", node, "eval", code); err == nil {
			return nil
		}
	}
	return err
}

// MoveLeader has another node lead a quorum queue.
func (r *Rabbit) MoveLeader(queue string) error {
	return r.eval(fmt.Sprintf(`
		{ok, Q} = rabbit_amqqueue:lookup(rabbit_misc:r(<<%q>>, queue, <<%q>>)),
		{Name, Leader} = amqqueue:get_pid(Q),
		[Other | _] = [N || N <- rabbit_nodes:all_running(), N =/= Leader],
		ok = ra:transfer_leadership({Name, Leader}, {Name, Other}).`, r.Vhost, queue))
}

// Settle has all nodes write down which quorum queues they have. By itself RabbitMQ does so when none has been declared or deleted for half
// a second (auto_save of names.dets in Ra, up to 3.1.9 at least), and a node that is killed sooner begins again with an empty queue that
// never has a leader.
func (r *Rabbit) Settle() {
	r.t.Helper()
	for _, node := range r.nodes {
		r.Services("ctl", node, "eval", "ok = dets:sync(ra_directory_reverse).")
	}
}

// Elect has a quorum queue without a leader choose one.
func (r *Rabbit) Elect(queue string) error {
	return r.eval(fmt.Sprintf(`
		{ok, Q} = rabbit_amqqueue:lookup(rabbit_misc:r(<<%q>>, queue, <<%q>>)),
		{Name, _} = amqqueue:get_pid(Q),
		ok = ra:trigger_election({Name, node()}).`, r.Vhost, queue))
}

// HoldLeader has the leader of a quorum queue answer nobody until release is called.
func (r *Rabbit) HoldLeader(queue string) (release func()) {
	r.t.Helper()
	do := func(action string) error {
		return r.eval(fmt.Sprintf(`
		{ok, Q} = rabbit_amqqueue:lookup(rabbit_misc:r(<<%q>>, queue, <<%q>>)),
		ok = sys:%s(amqqueue:get_pid(Q)).`, r.Vhost, queue, action))
	}
	if err := do("suspend"); err != nil {
		r.t.Fatalf("hold the leader of queue %q: %v", queue, err)
	}
	release = sync.OnceFunc(func() {
		if err := do("resume"); err != nil {
			r.t.Errorf("release the leader of queue %q: %v", queue, err)
		}
	})
	r.t.Cleanup(release)
	return release
}
