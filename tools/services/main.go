// Command services runs the real brokers and databases that rehop's tests use. scripts/services builds and calls it.
package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"

	"github.com/rehop/rehop/tools/services/internal/daemon"
	"github.com/rehop/rehop/tools/services/internal/database"
	"github.com/rehop/rehop/tools/services/internal/debian"
	"github.com/rehop/rehop/tools/services/internal/ports"
	"github.com/rehop/rehop/tools/services/internal/program"
	"github.com/rehop/rehop/tools/services/internal/rabbitmq"
	"github.com/rehop/rehop/tools/services/internal/state"
)

const manual = `scripts/services - the real brokers and databases that rehop's tests run against.

  scripts/services up [SERVICE...]   install what is missing, start the services named below without a
                                     release, or the named ones
  scripts/services down              stop all of them and delete the state directory
  scripts/services status            one line per node
  scripts/services env               shell export lines for the tests
  scripts/services start NODE        start a node and wait until it serves clients
  scripts/services stop NODE         stop a node gracefully
  scripts/services restart NODE      stop, then start
  scripts/services kill NODE         kill -9 the node's process, at once
  scripts/services pause NODE        stop the node's process where it is (SIGSTOP): nobody answers on its
                                     connections
  scripts/services resume NODE       let it continue (SIGCONT)
  scripts/services isolate NODE      take the network link of a node of "apart" down
  scripts/services reconnect NODE    take it up again
  scripts/services ctl NODE ARG...   rabbitmqctl, psql, mariadb or mysql against that node
                                     (psql on the admin console for pgbouncer)

Services and their nodes:
  rabbitmq   single        one broker, with TLS, management and prometheus
  cluster    c1 c2 c3      three brokers joined to one cluster
  apart      a1 a2 a3      the same, each broker in a network namespace of its own, joined by a bridge.
                           Needs root, and is started only by its name
  postgres   pg            PostgreSQL
  pgbouncer  pgbouncer     PgBouncer in front of pg, with transaction pooling
  mariadb    maria         MariaDB
  mysql      mysql         MySQL, from Debian unstable
  clients                  no server, but AMQP clients of other languages, and programs by which
                           tests check and break things
  browser                  no server, but Chromium and nginx, from Debian 13, which tests start

RabbitMQ has three releases: %s. Each has services and nodes of its own, as in rabbitmq-4.3 with
single-4.3 and cluster-4.3 with c1-4.3. Names without a release mean the one of REHOP_RABBITMQ. All
can run at a time.

Typical use:  scripts/services up && eval "$(scripts/services env)" && go test ./...

Environment:
  REHOP_RABBITMQ        the release of RabbitMQ that tests use (default %s)
  REHOP_SERVICES_DIR    state directory (default /tmp/rehop-services-UID-HASH, with a hash of the
                        checkout's path: each checkout has its own. "up" removes those of checkouts
                        that no longer exist)
  REHOP_SERVICES_PORT   first of the %d consecutive ports to use (default: the first block from 28600
                        on in which nothing listens)
  REHOP_RABBITMQ_HOME   a RabbitMQ unpacked elsewhere (the directory that has sbin/ and plugins/), used
                        in place of the release of REHOP_RABBITMQ. It needs Erlang on this machine
  REHOP_SERVICES_SYNC_DELAY
                        makes the disk slow for pg, maria or mysql if set when the node starts: each
                        sync of a file takes longer by this many milliseconds on average, at random
                        between 0 and twice that

Nothing here touches a server that the machine already has: the nodes have their own names, ports,
epmd, Erlang cookie, passwords, configuration and data, listen on the loopback interface (those of apart
on addresses of 198.18.0.0/15 that no other machine can reach), and run
as the current user (PostgreSQL and PgBouncer, which refuse root, as the user postgres then). RabbitMQ,
MySQL, Chromium and nginx are installed apart from the packages of the machine, below
/var/cache/rehop-services, once for all users and checkouts; they need the right to mount. Needs Linux (/proc).
`

// process is what the program gets from and gives to its surroundings.
type process struct {
	args   []string
	getenv func(string) string
	out    io.Writer
	log    io.Writer
}

func main() {
	p := process{args: os.Args[1:], getenv: os.Getenv, out: os.Stdout, log: os.Stderr}
	code, err := p.run()
	if err != nil {
		p.report(err)
		code = 1
	}
	os.Exit(code)
}

// logf writes a line for the user.
func (p process) logf(format string, args ...any) {
	fmt.Fprintf(p.log, "services: "+format+"\n", args...)
}

// report writes an error, and what a server has printed that did not start.
func (p process) report(err error) {
	var failed *daemon.NotServingError
	if errors.As(err, &failed) {
		fmt.Fprintln(p.log, failed.Console)
	}
	p.logf("failed: %v", err)
}

// claimCommand is the command that keeps a block of ports, by the listener that it inherits.
const claimCommand = "_claim"

// run runs the command in the arguments, and returns the exit code.
func (p process) run() (code int, err error) {
	checkout := ""
	if len(p.args) >= 2 && p.args[0] == "-checkout" {
		checkout, p.args = p.args[1], p.args[2:]
	}
	if len(p.args) == 0 {
		p.usage(p.log)
		return 2, nil
	}
	command, args := p.args[0], p.args[1:]
	switch command {
	case debian.InstallCommand:
		return 0, debian.InstallAsRoot(args, p.log)
	case debian.TreeCommand:
		return debian.InstallTree(args, p.log)
	case debian.TreeAloneCommand:
		return 0, debian.InstallTreeAlone(args, p.log)
	case program.EnterCommand:
		return 0, program.Enter(args[0], args[1:])
	case claimCommand:
		return 0, keepClaim()
	case "help", "-h", "-help", "--help":
		p.usage(p.out)
		return 0, nil
	}
	h, err := p.host(checkout)
	if err != nil {
		return 0, err
	}
	if len(args) > 0 && (command == "down" || command == "status" || command == "env") {
		return 0, fmt.Errorf("%s takes no arguments, got %s; to stop one node: stop NODE", command, strings.Join(args, " "))
	}
	switch command {
	case "up":
		return 0, h.up(args)
	case "down":
		return 0, h.down()
	case "status":
		return 0, h.status()
	case "env":
		return 0, h.env()
	case "start", "stop", "restart", "kill", "pause", "resume", "isolate", "reconnect", "ctl":
		if len(args) == 0 || len(args) > 1 && command != "ctl" {
			return 0, fmt.Errorf("%s needs the name of one node; the nodes are: %s", command, strings.Join(h.lineup.nodeNames(), " "))
		}
		return h.node(command, args[0], args[1:])
	}
	p.logf("there is no command %q", command)
	p.usage(p.log)
	return 2, nil
}

func (p process) usage(to io.Writer) {
	var releases []string
	for _, r := range rabbitmq.Releases() {
		releases = append(releases, r.Name)
	}
	fmt.Fprintf(to, manual, strings.Join(releases, ", "), rabbitmq.Default, ports.Size)
}

// host runs the services of one state directory.
type host struct {
	process
	dir    state.Dir
	wanted ports.Block // 0: any
	lineup lineup
}

// host reads the settings.
func (p process) host(checkout string) (*host, error) {
	if checkout == "" {
		return nil, errors.New("the checkout is not known; run scripts/services, which passes it on")
	}
	dir, err := state.New(p.getenv("REHOP_SERVICES_DIR"), checkout)
	if err != nil {
		return nil, err
	}
	wanted, err := ports.Parse(p.getenv("REHOP_SERVICES_PORT"))
	if err != nil {
		return nil, err
	}
	chosen, err := rabbitmq.Choose(p.getenv("REHOP_RABBITMQ"))
	if err != nil {
		return nil, err
	}
	slow := database.SlowSync{Delay: p.getenv("REHOP_SERVICES_SYNC_DELAY")}
	return &host{process: p, dir: dir, wanted: wanted, lineup: newLineup(dir, chosen, p.getenv("REHOP_RABBITMQ_HOME"), slow)}, nil
}

// keepClaim listens on the inherited listener until it is killed.
func keepClaim() error {
	l, err := net.FileListener(os.NewFile(3, "claim"))
	if err != nil {
		return err
	}
	for {
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		_ = conn.Close()
	}
}
