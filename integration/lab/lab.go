// Package lab gives tests a real RabbitMQ: a virtual host of their own, the management API, and the
// means to stop, kill and start nodes; an embedded broker to compare it with; and clients of other languages.
package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop/internal/conformance/await"
)

// environments caches what scripts/services reports, by state directory, as functions that return a map.
var environments sync.Map

// environment is what scripts/services reports about the servers of its state directory. Own changes the directory.
func environment() map[string]string {
	read, _ := environments.LoadOrStore(os.Getenv(stateDir), sync.OnceValue(readEnvironment))
	return read.(func() map[string]string)()
}

func readEnvironment() map[string]string {
	env := make(map[string]string)
	for _, kv := range os.Environ() {
		if name, value, ok := strings.Cut(kv, "="); ok && strings.HasPrefix(name, "REHOP_") {
			env[name] = value
		}
	}
	if !ofRelease(env) {
		maps.DeleteFunc(env, func(name, _ string) bool { return ofServers(name) })
	}
	if env["REHOP_RABBITMQ_URL"] != "" {
		return env
	}
	out, err := exec.Command(script(), "env").Output()
	if err != nil {
		env["REHOP_SERVICES_MISSING"] = fmt.Sprintf("scripts/services env: %v", err)
		return env
	}
	readExports(env, out)
	return env
}

// ofRelease reports whether the environment describes servers of the release of RabbitMQ that REHOP_RABBITMQ asks for: somebody may
// have set that since.
func ofRelease(env map[string]string) bool {
	wanted, described := env["REHOP_RABBITMQ"], env["REHOP_RABBITMQ_RELEASE"]
	return wanted == "" || described == "" || wanted == described
}

func script() string {
	if s := os.Getenv("REHOP_SERVICES"); s != "" {
		return s
	}
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "..", "..", "scripts", "services")
}

// Lack ends a test that lacks something: it is skipped with the reason, or fails where
// REHOP_REQUIRE_SERVICES=1.
func Lack(t testing.TB, format string, args ...any) {
	t.Helper()
	if environment()["REHOP_REQUIRE_SERVICES"] == "1" {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}

// Setting is one of the variables of scripts/services, which the test lacks if it is not there.
func Setting(t testing.TB, name string) string {
	t.Helper()
	env := environment()
	if v := env[name]; v != "" {
		return v
	}
	reason := env["REHOP_SERVICES_MISSING"]
	if reason == "" {
		reason = "run scripts/services up"
	}
	Lack(t, "%s is not set: %s", name, reason)
	return ""
}

// Rabbit is a virtual host on a broker.
type Rabbit struct {
	t          testing.TB
	URL        string   // of the first node
	URLs       []string // of all nodes
	Vhost      string
	management []string
	nodes      []string // names for scripts/services
	dir        string   // its state directory, if that is not the one of all others
}

// Single is a fresh virtual host on the single node.
func Single(t testing.TB) *Rabbit {
	t.Helper()
	return fresh(t, []string{Setting(t, "REHOP_RABBITMQ_URL")}, []string{Setting(t, "REHOP_RABBITMQ_MANAGEMENT")}, []string{"single"})
}

// Cluster is a fresh virtual host on the three nodes.
func Cluster(t testing.TB) *Rabbit {
	t.Helper()
	split := func(s string) []string {
		return strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ' ' })
	}
	return fresh(t, split(Setting(t, "REHOP_CLUSTER_URLS")), split(Setting(t, "REHOP_CLUSTER_MANAGEMENT")), []string{"c1", "c2", "c3"})
}

func fresh(t testing.TB, urls, management, nodes []string) *Rabbit {
	t.Helper()
	vhost := fmt.Sprintf("t%x", time.Now().UnixNano())
	r := &Rabbit{t: t, Vhost: vhost, management: management, nodes: nodes}
	for _, u := range urls {
		r.URLs = append(r.URLs, strings.TrimSuffix(u, "/")+"/"+vhost)
	}
	r.URL = r.URLs[0]
	r.API("PUT", "/api/vhosts/"+vhost, nil, nil)
	r.API("PUT", "/api/permissions/"+vhost+"/guest", map[string]string{"configure": ".*", "write": ".*", "read": ".*"}, nil)
	t.Cleanup(func() { r.API("DELETE", "/api/vhosts/"+vhost, nil, nil) })
	return r
}

// Management is the URL of the management API, with user and password.
func (r *Rabbit) Management() string { return r.management[0] }

// ManagementOf is Management of a node, by its place in Nodes.
func (r *Rabbit) ManagementOf(node int) string { return r.management[node] }

// Version is the version that the broker reports, such as 4.3.6. Releases come from Debian, where they change.
func (r *Rabbit) Version() string {
	r.t.Helper()
	var overview struct {
		Version string `json:"rabbitmq_version"`
	}
	r.API("GET", "/api/overview", nil, &overview)
	return overview.Version
}

// API calls the management API of the first node that answers.
func (r *Rabbit) API(method, path string, in, out any) {
	r.t.Helper()
	if err := r.TryAPI(method, path, in, out); err != nil {
		r.t.Fatal(err)
	}
}

// TryAPI is API for calls that may fail.
func (r *Rabbit) TryAPI(method, path string, in, out any) error {
	var last error
	for _, base := range r.management {
		if last = call(method, base, path, in, out); last == nil {
			return nil
		}
	}
	return last
}

func call(method, base, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(b)
	}
	u, err := url.Parse(base)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, u.Scheme+"://"+u.Host+path, body)
	if err != nil {
		return err
	}
	password, _ := u.User.Password()
	req.SetBasicAuth(u.User.Username(), password)
	req.Header.Set("Content-Type", "application/json")
	req.Header["Idempotency-Key"] = []string{} // is not sent; PUT and DELETE are repeated when the server closed the idle connection
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	if res.StatusCode >= 300 {
		return fmt.Errorf("%s %s: %s: %s", method, path, res.Status, text)
	}
	if out != nil {
		return json.Unmarshal(text, out)
	}
	return nil
}

// Services runs scripts/services, as in Services("kill", "c1").
func (r *Rabbit) Services(args ...string) {
	r.t.Helper()
	if err := r.TryServices(args...); err != nil {
		r.t.Fatal(err)
	}
}

// Nodes are the names of the nodes for Services.
func (r *Rabbit) Nodes() []string { return r.nodes }

// Channel is a plain channel for what a test does by hand.
func (r *Rabbit) Channel() *amqp.Channel {
	r.t.Helper()
	conn, err := amqp.Dial(r.URL)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = conn.Close() })
	ch, err := conn.Channel()
	if err != nil {
		r.t.Fatal(err)
	}
	return ch
}

// Depth is how many messages are ready in a queue, as the queue itself reports.
func (r *Rabbit) Depth(ch *amqp.Channel, queue string) int {
	r.t.Helper()
	q, err := ch.QueueDeclarePassive(queue, true, false, false, false, nil)
	if err != nil {
		r.t.Fatalf("look at queue %q: %v", queue, err)
	}
	return q.Messages
}

// Eventually waits for a condition that no event announces, such as a counter of the broker's.
func Eventually(t testing.TB, limit time.Duration, what string, condition func() bool) {
	t.Helper()
	await.True(t, limit, 20*time.Millisecond, what, condition)
}
