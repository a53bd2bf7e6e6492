package rabbitmq

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/rehop/rehop/tools/services/internal/daemon"
	"github.com/rehop/rehop/tools/services/internal/debian"
	"github.com/rehop/rehop/tools/services/internal/export"
	"github.com/rehop/rehop/tools/services/internal/ports"
	"github.com/rehop/rehop/tools/services/internal/state"
)

// SingleNode and clusterNodes are the names of nodes without their release.
const SingleNode = "single"

var clusterNodes = []string{"c1", "c2", "c3"}

// ClusterNodes are the names of a cluster's nodes without their release.
func ClusterNodes() []string { return clusterNodes }

// Service is a single node or a cluster of one release.
type Service struct {
	shape string // rabbitmq or cluster
	epmd  *epmd
	dir   state.Dir
	Nodes []*Node
}

// Single is one broker with TLS. elsewhere is a RabbitMQ to use in place of the one that Debian has.
func Single(release Release, dir state.Dir, elsewhere string) *Service {
	s := newService("rabbitmq", release, dir, elsewhere)
	s.add(SingleNode, ports.Single)
	return s
}

// Cluster is three brokers joined to one cluster.
func Cluster(release Release, dir state.Dir, elsewhere string) *Service {
	s := newService("cluster", release, dir, elsewhere)
	for i, name := range clusterNodes {
		s.add(name, ports.Node(i+1))
	}
	return s
}

func newService(shape string, release Release, dir state.Dir, elsewhere string) *Service {
	mapper := &epmd{Daemon: daemon.In(dir, "epmd-"+release.Name), dir: dir, release: release, elsewhere: elsewhere}
	return &Service{shape: shape, epmd: mapper, dir: dir}
}

func (s *Service) add(short string, which ports.Node) {
	name := short + "-" + s.epmd.release.Name
	s.Nodes = append(s.Nodes, &Node{Daemon: daemon.In(s.dir, name), dir: s.dir, epmd: s.epmd, short: short, which: which})
}

// Service is the service's name.
func (s *Service) Service() string { return s.shape + "-" + s.epmd.release.Name }

// Needs are services that must be up before.
func (s *Service) Needs() []string { return nil }

// Packages are packages of this machine's Debian that are missing.
func (s *Service) Packages() []string {
	if s.epmd.elsewhere != "" {
		return nil
	}
	return debian.Missing(s.epmd.release.tree().Wants()...)
}

// Prepare installs what is no package of this machine's Debian.
func (s *Service) Prepare(out io.Writer) error { return s.epmd.install(out) }

// Launch starts the nodes that do not run, without waiting.
func (s *Service) Launch() error {
	if err := s.epmd.launch(); err != nil {
		return err
	}
	if s.shape == "rabbitmq" {
		if err := makeCertificates(s.dir.File("certs")); err != nil {
			return err
		}
	}
	for _, n := range s.Nodes {
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
	if s.shape == "rabbitmq" {
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
		urls = append(urls, fmt.Sprintf("amqp://guest:guest@127.0.0.1:%d/", n.ports().AMQP))
		management = append(management, fmt.Sprintf("http://guest:guest@127.0.0.1:%d", n.ports().Management))
	}
	return []export.Variable{
		{Name: "REHOP_CLUSTER_URLS", Value: strings.Join(urls, ",")},
		{Name: "REHOP_CLUSTER_MANAGEMENT", Value: strings.Join(management, ",")},
		{Name: "REHOP_CLUSTER_RELEASE", Value: s.epmd.release.Name},
		{Name: "REHOP_CLUSTER_VERSION", Value: version},
	}
}
