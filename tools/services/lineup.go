package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/rehop/rehop/tools/services/internal/browser"
	"github.com/rehop/rehop/tools/services/internal/clients"
	"github.com/rehop/rehop/tools/services/internal/database"
	"github.com/rehop/rehop/tools/services/internal/export"
	"github.com/rehop/rehop/tools/services/internal/ports"
	"github.com/rehop/rehop/tools/services/internal/rabbitmq"
	"github.com/rehop/rehop/tools/services/internal/state"
)

// service is what is started as a whole.
type service interface {
	Service() string             // its name
	Needs() []string             // services that must be up before
	Packages() []string          // packages of this machine's Debian that are missing
	Prepare(out io.Writer) error // installs what is no such package
	Launch() error               // starts its nodes that do not run, without waiting
	Await() error                // waits until they serve
	InstalledVersion() string    // empty if nothing is installed
	Env() []export.Variable      // describes it to tests, when all nodes serve
}

// node is a server.
type node interface {
	Node() string // its name
	Start() error // returns when it serves
	Stop() error  // in order
	Kill() error  // at once
	Pause() error // stops it where it is, until Resume
	Resume() error
	Ctl(args []string) (code int, err error)
	Serving() bool
	Pid() (pid int, runs bool)
	Version() string
	Ports() []ports.Named
}

// missing is what a service without nodes has in their place.
type missing interface{ Missing() []string }

// entry is a service and its nodes.
type entry struct {
	service
	nodes  []node
	chosen bool // tests use it: of the release of RabbitMQ that tests use, or not of RabbitMQ
}

// lineup is all services, each after those that it needs.
type lineup struct {
	entries []entry
	aliases map[string]string // names without a release, with what they mean
	release rabbitmq.Release
}

// newLineup is what can run in a state directory. RabbitMQ's chosen release may be elsewhere.
func newLineup(dir state.Dir, chosen rabbitmq.Release, elsewhere string, slow database.SlowSync) lineup {
	l := lineup{aliases: make(map[string]string), release: chosen}
	for _, r := range rabbitmq.Releases() {
		home := ""
		if r == chosen {
			home = elsewhere
		}
		l.add(rabbitmq.Single(r, dir, home), r == chosen)
		l.add(rabbitmq.Cluster(r, dir, home), r == chosen)
		l.add(rabbitmq.Apart(r, dir, home), r == chosen)
	}
	for _, name := range append([]string{"rabbitmq", "cluster", "apart", rabbitmq.SingleNode}, rabbitmq.ClusterNodes()...) {
		l.aliases[name] = name + "-" + chosen.Name
	}
	postgres := database.NewPostgres(dir, slow)
	pgbouncer := database.NewPgBouncer(dir, postgres)
	mariadb, mysql := database.NewMariaDB(dir, slow), database.NewMySQL(dir, slow)
	l.entries = append(l.entries,
		entry{postgres, []node{postgres}, true},
		entry{pgbouncer, []node{pgbouncer}, true},
		entry{mariadb, []node{mariadb}, true},
		entry{mysql, []node{mysql}, true},
		entry{clients.New(dir), nil, true},
		entry{browser.New(dir), nil, true},
	)
	return l
}

func (l *lineup) add(s *rabbitmq.Service, chosen bool) {
	e := entry{service: s, chosen: chosen}
	for _, n := range s.Nodes {
		e.nodes = append(e.nodes, n)
	}
	l.entries = append(l.entries, e)
}

// full is a name with its release.
func (l lineup) full(name string) string {
	if full, ok := l.aliases[name]; ok {
		return full
	}
	return name
}

// choose are the named services and those that they need, in the order in which they start; without names, all that tests use.
func (l lineup) choose(names []string) ([]entry, error) {
	wanted := make(map[string]bool)
	for _, name := range names {
		i := slices.IndexFunc(l.entries, func(e entry) bool { return e.Service() == l.full(name) })
		if i < 0 {
			return nil, fmt.Errorf("there is no service %q; the services are: rabbitmq cluster apart %s", name, strings.Join(l.names(), " "))
		}
		wanted[l.full(name)] = true
		for _, need := range l.entries[i].Needs() {
			wanted[need] = true
		}
	}
	var chosen []entry
	for _, e := range l.entries {
		if wanted[e.Service()] || len(names) == 0 && e.chosen && !e.onDemand() {
			chosen = append(chosen, e)
		}
	}
	return chosen, nil
}

func (l lineup) names() (names []string) {
	for _, e := range l.entries {
		names = append(names, e.Service())
	}
	return names
}

func (l lineup) nodeNames() []string {
	names := append([]string{rabbitmq.SingleNode}, rabbitmq.ClusterNodes()...)
	for _, e := range l.entries {
		for _, n := range e.nodes {
			names = append(names, n.Node())
		}
	}
	return names
}

// node is the node with a name, and its service.
func (l lineup) node(name string) (node, entry, error) {
	for _, e := range l.entries {
		for _, n := range e.nodes {
			if n.Node() == l.full(name) {
				return n, e, nil
			}
		}
	}
	return nil, entry{}, fmt.Errorf("there is no node %q; the nodes are: %s", name, strings.Join(l.nodeNames(), " "))
}

// onDemand reports whether the service is started only if it is named.
func (e entry) onDemand() bool {
	s, ok := e.service.(interface{ OnDemand() bool })
	return ok && s.OnDemand()
}

// notServing are the nodes that do not serve, or what else is missing.
func (e entry) notServing() []string {
	if m, ok := e.service.(missing); ok {
		return m.Missing()
	}
	var names []string
	for _, n := range e.nodes {
		if !n.Serving() {
			names = append(names, n.Node())
		}
	}
	return names
}
