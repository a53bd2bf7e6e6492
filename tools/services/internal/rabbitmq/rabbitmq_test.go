package rabbitmq

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rehop/rehop/tools/services/internal/program"
	"github.com/rehop/rehop/tools/services/internal/state/statetest"
)

func TestChoose(t *testing.T) {
	if r, err := Choose(""); err != nil || r.Name != Default {
		t.Errorf("got %v, %v, want the default release %s", r, err, Default)
	}
	for i, r := range Releases() {
		if got, err := Choose(r.Name); err != nil || got != r {
			t.Errorf("got %v, %v, want release %s", got, err, r.Name)
		}
		if r.index != i {
			t.Errorf("release %s has the ports of release number %d, want %d", r.Name, r.index, i)
		}
	}
	if r, err := Choose("4"); err == nil || !strings.Contains(err.Error(), "the releases are: 3.10 4.0 4.3") {
		t.Errorf("got %v, %v, want an error that names the releases", r, err)
	}
}

func TestVersions(t *testing.T) {
	for _, c := range []struct {
		version     string
		before, is4 bool // 3.13, and of 4.0
	}{
		{"3.10.8", true, false},
		{"3.13.0", false, false},
		{"4.0.5", false, true},
		{"4.0", false, true},
		{"4.10.1", false, false},
		{"", true, false},
	} {
		if got := before(c.version, 3, 13); got != c.before {
			t.Errorf("%q before 3.13: got %v, want %v", c.version, got, c.before)
		}
		if got := is(c.version, "4.0"); got != c.is4 {
			t.Errorf("%q is 4.0: got %v, want %v", c.version, got, c.is4)
		}
	}
}

func TestMoved(t *testing.T) {
	release, err := Choose("4.3")
	if err != nil {
		t.Fatal(err)
	}
	if err := release.compare("4.3.9"); err != nil {
		t.Errorf("got %v for a version of the release, want no error", err)
	}
	for _, version := range []string{"4.4.0", "4.30.1", ""} {
		var moved *MovedError
		if err := release.compare(version); !errors.As(err, &moved) || moved.Version != version {
			t.Errorf("version %q of 4.3: got %v, want a MovedError with it", version, err)
		}
	}
}

// A RabbitMQ elsewhere is used in place of the one that Debian has.
func TestElsewhere(t *testing.T) {
	home := t.TempDir()
	release, err := Choose("4.0")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := release.installed(home); err == nil || !strings.Contains(err.Error(), "REHOP_RABBITMQ_HOME") {
		t.Errorf("got %v, %v of an empty directory, want an error that names REHOP_RABBITMQ_HOME", got, err)
	}
	for _, name := range []string{"sbin/rabbitmq-server", "plugins/rabbit-4.1.2/ebin", "plugins/rabbit_common-4.1.2/ebin"} {
		if err := os.MkdirAll(filepath.Join(home, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	got, err := release.installed(home)
	if err != nil || got.home != home || got.tree != "" || got.version() != "4.1.2" {
		t.Errorf("got %v (version %s), %v, want %s on the machine, version 4.1.2", got, got.version(), err, home)
	}
	s := Single(release, statetest.Dir(t, statetest.Block), home)
	if s.InstalledVersion() != "4.1.2" || len(s.Packages()) > 0 {
		t.Errorf("got version %s and missing packages %v, want 4.1.2 and none", s.InstalledVersion(), s.Packages())
	}
}

func TestConfig(t *testing.T) {
	dir := statetest.Dir(t, statetest.Block)
	release, err := Choose("4.3")
	if err != nil {
		t.Fatal(err)
	}
	single, cluster := Single(release, dir, "").Nodes[0], Cluster(release, dir, "").Nodes
	expect := func(n *Node, version, line string, want bool) {
		t.Helper()
		lines := strings.Split(n.config(version), "\n")
		if got := slices.Contains(lines, line); got != want {
			t.Errorf("%s with RabbitMQ %s has the line %q: %v, want %v:\n%s", n.Name, version, line, got, want, strings.Join(lines, "\n"))
		}
	}
	// Debian's 4.3 permits what RabbitMQ's does not. Before, there was no such default.
	const transient = "deprecated_features.permit.transient_nonexcl_queues = false"
	expect(single, "4.3.6", transient, true)
	expect(cluster[0], "4.4.0", transient, true)
	expect(single, "4.0.5", transient, false)
	expect(single, "3.10.8", transient, false)

	const quick = "cluster_formation.discovery_retry_limit = 1"
	expect(cluster[0], "3.10.8", quick, true)
	expect(cluster[0], "4.0.5", quick, false)
	expect(single, "3.10.8", quick, false)

	expect(single, "4.3.6", fmt.Sprint("listeners.ssl.local = 127.0.0.1:", single.ports().AMQPS), true)
	expect(cluster[2], "4.3.6", fmt.Sprint("listeners.tcp.local = 127.0.0.1:", cluster[2].ports().AMQP), true)
	expect(cluster[0], "4.3.6", "cluster_formation.classic_config.nodes.3 = rehop-c3@localhost", true)
	expect(single, "4.3.6", "cluster_partition_handling = pause_minority", false)
	expect(cluster[0], "4.3.6", "loopback_users = none", false)
}

// Each node of apart has an address and a namespace of its own, in which its port mapper and rabbitmqctl are, too.
func TestApart(t *testing.T) {
	dir := statetest.Dir(t, statetest.Block)
	release, err := Choose("4.3")
	if err != nil {
		t.Fatal(err)
	}
	nodes := Apart(release, dir, "").Nodes
	seen := map[string]bool{}
	for _, n := range nodes {
		for _, own := range []string{n.host(), n.namespace, n.Dir, n.epmd.Dir, n.erlangName()} {
			if seen[own] {
				t.Errorf("%s shares %q with another node", n.Name, own)
			}
			seen[own] = true
		}
		config := n.config("4.3.6")
		for _, line := range []string{
			fmt.Sprintf("listeners.tcp.local = %s:%d", n.host(), n.ports().AMQP),
			"management.tcp.ip = " + n.host(),
			"loopback_users = none",
			"cluster_formation.classic_config.nodes.1 = rehop-a1@" + nodes[0].host(),
		} {
			if !strings.Contains(config, line+"\n") {
				t.Errorf("%s has no line %q:\n%s", n.Name, line, config)
			}
		}
		if strings.Contains(config, "127.0.0.1") {
			t.Errorf("%s listens on the loopback interface:\n%s", n.Name, config)
		}
		for _, want := range []string{"ERL_EPMD_ADDRESS=" + n.host(), "RABBITMQ_USE_LONGNAME=true", "RABBITMQ_NODENAME=" + n.erlangName()} {
			if !slices.Contains(n.environment(), want) {
				t.Errorf("%s: got environment %v, want %s in it", n.Name, n.environment(), want)
			}
		}
		if n.epmd.host() != n.host() || n.in(program.Program{}).Network != n.namespace || n.epmd.in(program.Program{}).Network != n.namespace {
			t.Errorf("%s and its port mapper are not at one place", n.Name)
		}
	}
	if err := Cluster(release, dir, "").Nodes[0].Isolate(); err == nil || !strings.Contains(err.Error(), "a1 a2 a3") {
		t.Errorf("isolate a node of cluster: got %v, want an error that names the nodes that can be isolated", err)
	}
}

// Nothing of a node is in a directory of the machine's own RabbitMQ, and nodes of other releases have another port mapper.
func TestEnvironment(t *testing.T) {
	dir := statetest.Dir(t, statetest.Block)
	mappers := map[string]string{}
	for _, release := range Releases() {
		for _, n := range append(Single(release, dir, "").Nodes, Cluster(release, dir, "").Nodes...) {
			for _, variable := range n.environment() {
				name, value, _ := strings.Cut(variable, "=")
				if strings.HasPrefix(value, "/") && !strings.HasPrefix(value, dir.Path+"/"+n.Name+"/") {
					t.Errorf("%s: %s is not below the node's directory", n.Name, variable)
				}
				if name == "ERL_EPMD_PORT" {
					if other, ok := mappers[value]; ok && other != release.Name {
						t.Errorf("releases %s and %s have the same port mapper", other, release.Name)
					}
					mappers[value] = release.Name
				}
			}
		}
	}
}

func TestDefinitions(t *testing.T) {
	var d struct {
		Users []struct {
			Name string
			Hash string `json:"password_hash"`
		}
	}
	if err := json.Unmarshal([]byte(definitions()), &d); err != nil {
		t.Fatal(err)
	}
	if len(d.Users) != 2 || d.Users[0].Name != "guest" {
		t.Fatalf("got users %v, want guest and one more", d.Users)
	}
	hash, err := base64.StdEncoding.DecodeString(d.Users[0].Hash)
	if err != nil || len(hash) != 4+sha256.Size {
		t.Fatalf("got hash %x, %v, want a salt of 4 bytes and a SHA-256", hash, err)
	}
	if want := sha256.Sum256(append(slices.Clone(hash[:4]), "guest"...)); !bytes.Equal(hash[4:], want[:]) {
		t.Errorf("got hash %x, want %x", hash[4:], want)
	}
	if d.Users[1].Hash != "" {
		t.Error("rehop-external has a password")
	}
}

// A client with the client's certificate and a server with the server's trust each other; a client without one is known, too.
func TestCertificates(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "certs")
	for range 2 { // once made they stay
		if err := makeCertificates(dir); err != nil {
			t.Fatal(err)
		}
	}
	ca, err := os.ReadFile(filepath.Join(dir, "ca.pem"))
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		t.Fatal("ca.pem has no certificate")
	}
	load := func(name string) []tls.Certificate {
		c, err := tls.LoadX509KeyPair(filepath.Join(dir, name+".pem"), filepath.Join(dir, name+".key"))
		if err != nil {
			t.Fatal(err)
		}
		return []tls.Certificate{c}
	}
	near, far := net.Pipe()
	server := tls.Server(far, &tls.Config{Certificates: load("server"), ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert})
	client := tls.Client(near, &tls.Config{Certificates: load("client"), RootCAs: pool, ServerName: "localhost"})
	served := make(chan error, 1)
	go func() { served <- server.Handshake() }()
	if err := client.Handshake(); err != nil {
		t.Error(err)
	}
	if err := <-served; err != nil {
		t.Fatal(err)
	}
	if got := server.ConnectionState().PeerCertificates[0].Subject.CommonName; got != "rehop-external" {
		t.Errorf("the client is %s, want rehop-external", got)
	}
}

func TestEnv(t *testing.T) {
	dir := statetest.Dir(t, statetest.Block)
	release, err := Choose("4.0")
	if err != nil {
		t.Fatal(err)
	}
	single, cluster, apart := Single(release, dir, ""), Cluster(release, dir, ""), Apart(release, dir, "")
	for _, n := range []*Node{single.Nodes[0], cluster.Nodes[0], apart.Nodes[0]} {
		unlock, err := n.Lock()
		if err != nil {
			t.Fatal(err)
		}
		unlock()
		if err := n.KeepVersion("4.0.5"); err != nil {
			t.Fatal(err)
		}
	}
	got := map[string]string{}
	for _, v := range slices.Concat(single.Env(), cluster.Env(), apart.Env()) {
		got[v.Name] = v.Value
	}
	for name, want := range map[string]string{
		"REHOP_RABBITMQ_URL":        fmt.Sprintf("amqp://guest:guest@127.0.0.1:%d/", single.Nodes[0].ports().AMQP),
		"REHOP_RABBITMQ_CERTS":      dir.Path + "/certs",
		"REHOP_RABBITMQ_RELEASE":    "4.0",
		"REHOP_RABBITMQ_VERSION":    "4.0.5",
		"REHOP_RABBITMQ_PROMETHEUS": fmt.Sprintf("http://127.0.0.1:%d/metrics", single.Nodes[0].ports().Prometheus),
		"REHOP_CLUSTER_VERSION":     "4.0.5",
		"REHOP_APART_RELEASE":       "4.0",
	} {
		if got[name] != want {
			t.Errorf("%s: got %q, want %q", name, got[name], want)
		}
	}
	if got := strings.Count(got["REHOP_CLUSTER_URLS"], "amqp://guest:guest@127.0.0.1:"); got != 3 {
		t.Errorf("REHOP_CLUSTER_URLS has %d URLs, want 3", got)
	}
	if got := strings.Count(got["REHOP_APART_URLS"], "amqp://guest:guest@198.18."); got != 3 {
		t.Errorf("REHOP_APART_URLS has %d URLs, want 3", got)
	}
}
