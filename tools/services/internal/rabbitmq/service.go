package rabbitmq

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/rehop/rehop/tools/services/internal/daemon"
	"github.com/rehop/rehop/tools/services/internal/debian"
	"github.com/rehop/rehop/tools/services/internal/export"
	"github.com/rehop/rehop/tools/services/internal/network"
	"github.com/rehop/rehop/tools/services/internal/ports"
	"github.com/rehop/rehop/tools/services/internal/state"
)

// SingleNode, clusterNodes and apartNodes are the names of nodes without their release.
const SingleNode = "single"

var (
	clusterNodes = []string{"c1", "c2", "c3"}
	apartNodes   = []string{"a1", "a2", "a3"}
)

// ClusterNodes are the names of the nodes of clusters, without their release.
func ClusterNodes() []string { return slices.Concat(clusterNodes, apartNodes) }

// The shapes of services.
const (
	single  = "rabbitmq"
	cluster = "cluster"
	apart   = "apart"
)

// Service is a single node or a cluster of one release.
type Service struct {
	shape string
	epmd  *epmd
	dir   state.Dir
	Nodes []*Node
}

// Single is one broker with TLS. elsewhere is a RabbitMQ to use in place of the one that Debian has.
func Single(release Release, dir state.Dir, elsewhere string) *Service {
	s := newService(single, release, dir, elsewhere)
	s.add(SingleNode, ports.Single, s.epmd)
	return s
}

// Cluster is three brokers joined to one cluster.
func Cluster(release Release, dir state.Dir, elsewhere string) *Service {
	s := newService(cluster, release, dir, elsewhere)
	for i, name := range clusterNodes {
		s.add(name, ports.Node(i+1), s.epmd)
	}
	return s
}

// Apart is a cluster each of whose nodes has a network namespace of its own, with its own port mapper, so that tests can cut it off.
func Apart(release Release, dir state.Dir, elsewhere string) *Service {
	s := newService(apart, release, dir, elsewhere)
	for i, name := range apartNodes {
		mapper := *s.epmd
		mapper.Daemon = daemon.In(dir, "epmd-"+name+"-"+release.Name)
		mapper.apart, mapper.namespace = i+1, network.Of(dir).Namespace(name)
		s.add(name, ports.Node(i+1), &mapper)
	}
	return s
}

func newService(shape string, release Release, dir state.Dir, elsewhere string) *Service {
	mapper := &epmd{Daemon: daemon.In(dir, "epmd-"+release.Name), site: site{dir: dir}, release: release, elsewhere: elsewhere}
	return &Service{shape: shape, epmd: mapper, dir: dir}
}

func (s *Service) add(short string, which ports.Node, mapper *epmd) {
	name := short + "-" + s.epmd.release.Name
	s.Nodes = append(s.Nodes, &Node{Daemon: daemon.In(s.dir, name), site: mapper.site, service: s, epmd: mapper, short: short, which: which})
}

// Service is the service's name.
func (s *Service) Service() string { return s.shape + "-" + s.epmd.release.Name }

// Needs are services that must be up before.
func (s *Service) Needs() []string { return nil }

// Packages are packages of this machine's Debian that are missing.
func (s *Service) Packages() []string {
	var wants []debian.Want
	if s.shape == apart {
		wants = append(wants, debian.Want{Package: "iproute2", Brings: "ip"})
	}
	if s.epmd.elsewhere == "" {
		wants = append(wants, s.epmd.release.tree().Wants()...)
	}
	return debian.Missing(wants...)
}

// Prepare installs what is no package of this machine's Debian.
func (s *Service) Prepare(out io.Writer) error {
	if s.shape == apart {
		if reason := network.Lacks(); reason != "" {
			return errors.New(reason)
		}
	}
	return s.epmd.install(out)
}

// OnDemand reports whether the service is started only if it is named.
func (s *Service) OnDemand() bool { return s.shape == apart }

// Launch starts the nodes that do not run, without waiting.
func (s *Service) Launch() error {
	switch s.shape {
	case apart:
		if err := network.Of(s.dir).Make(apartNodes); err != nil {
			return err
		}
	case single:
		if err := makeCertificates(s.dir.File("certs")); err != nil {
			return err
		}
	}
	for _, n := range s.Nodes {
		if err := n.epmd.launch(); err != nil {
			return err
		}
		if err := n.launch(); err != nil {
			return err
		}
	}
	return nil
}

// Await waits until all nodes serve, and are joined to one cluster.
func (s *Service) Await() error {
	for _, n := range s.Nodes {
		if err := n.await(); err != nil {
			return err
		}
	}
	if len(s.Nodes) == 1 {
		return nil
	}
	deadline := time.Now().Add(time.Minute)
	for {
		err := s.joined()
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("the nodes of %s did not join to one cluster: %w; see: scripts/services ctl %s cluster_status",
				s.Service(), err, s.Nodes[0].Name)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// joined is nil when every node reports that all run in its cluster.
func (s *Service) joined() error {
	for _, n := range s.Nodes {
		running, err := n.running()
		if err != nil {
			return err
		}
		if running != len(s.Nodes) {
			return fmt.Errorf("%s knows of %d nodes that run", n.Name, running)
		}
	}
	return nil
}

// running is how many nodes run in this node's cluster, as it sees it.
func (n *Node) running() (count int, err error) {
	var nodes []struct{ Running bool }
	err = n.get("/api/nodes?columns=name,running", &nodes)
	for _, node := range nodes {
		if node.Running {
			count++
		}
	}
	return count, err
}

// InstalledVersion is that of what is installed, empty if nothing is.
func (s *Service) InstalledVersion() string {
	installed, err := s.epmd.installed()
	if err != nil {
		return ""
	}
	return installed.version()
}

// Env describes the nodes to tests.
func (s *Service) Env() []export.Variable {
	version := s.Nodes[0].Version()
	if s.shape == single {
		p := s.Nodes[0].ports()
		return []export.Variable{
			{Name: "REHOP_RABBITMQ_URL", Value: fmt.Sprintf("amqp://guest:guest@127.0.0.1:%d/", p.AMQP)},
			{Name: "REHOP_RABBITMQ_TLS_URL", Value: fmt.Sprintf("amqps://guest:guest@127.0.0.1:%d/", p.AMQPS)},
			{Name: "REHOP_RABBITMQ_CERTS", Value: s.dir.File("certs")},
			{Name: "REHOP_RABBITMQ_MANAGEMENT", Value: fmt.Sprintf("http://guest:guest@127.0.0.1:%d", p.Management)},
			{Name: "REHOP_RABBITMQ_PROMETHEUS", Value: fmt.Sprintf("http://127.0.0.1:%d/metrics", p.Prometheus)},
			{Name: "REHOP_RABBITMQ_RELEASE", Value: s.epmd.release.Name},
			{Name: "REHOP_RABBITMQ_VERSION", Value: version},
		}
	}
	var urls, management []string
	for _, n := range s.Nodes {
		urls = append(urls, fmt.Sprintf("amqp://guest:guest@%s:%d/", n.host(), n.ports().AMQP))
		management = append(management, fmt.Sprintf("http://guest:guest@%s:%d", n.host(), n.ports().Management))
	}
	name := "REHOP_" + strings.ToUpper(s.shape)
	return []export.Variable{
		{Name: name + "_URLS", Value: strings.Join(urls, ",")},
		{Name: name + "_MANAGEMENT", Value: strings.Join(management, ",")},
		{Name: name + "_RELEASE", Value: s.epmd.release.Name},
		{Name: name + "_VERSION", Value: version},
	}
}
