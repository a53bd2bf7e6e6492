package services

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
)

// each runs a test for each release of RabbitMQ.
func each(t *testing.T, test func(t *testing.T, p *place)) {
	for release := range strings.SplitSeq(*releases, ",") {
		t.Run("RabbitMQ "+release, func(t *testing.T) { test(t, newPlace(t, release)) })
	}
}

// version asks a broker for its version.
func version(t *testing.T, management string) string {
	t.Helper()
	var overview struct {
		Version string `json:"rabbitmq_version"`
	}
	get(t, management+"/api/overview", &overview)
	return overview.Version
}

func get(t *testing.T, address string, into any) {
	t.Helper()
	request, err := http.NewRequestWithContext(limited(t), "GET", address, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Fatalf("GET %s: %s", request.URL.Path, response.Status)
	}
	if into == nil {
		return
	}
	if err := json.NewDecoder(response.Body).Decode(into); err != nil {
		t.Fatal(err)
	}
}

// open opens a channel.
func open(t *testing.T, conn *amqp.Connection, err error) *amqp.Channel {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	return ch
}

func TestSingle(t *testing.T) {
	each(t, func(t *testing.T, p *place) {
		p.up("rabbitmq")
		env := p.variables()
		release, broker := env["REHOP_RABBITMQ"], version(t, env["REHOP_RABBITMQ_MANAGEMENT"])
		if got := env["REHOP_RABBITMQ_VERSION"]; got != broker {
			t.Errorf("env says that version %s runs, and the broker that it is %s", got, broker)
		}
		if !strings.HasPrefix(broker, release+".") {
			t.Logf("ATTENTION: release %s has version %s: Debian has another one now", release, broker)
		}
		get(t, env["REHOP_RABBITMQ_PROMETHEUS"], nil)
		keepsMessages(t, p, env)
		transientQueues(t, env["REHOP_RABBITMQ_URL"], broker)
		byCertificate(t, env)
		if got := p.run("ctl", "single", "eval", "1 + 1."); strings.TrimSpace(got) != "2" {
			t.Errorf("rabbitmqctl eval: got %q, want 2", got)
		}
		if err := p.command("ctl", "single", "no_such_command").Run(); err == nil {
			t.Error("an unknown command of rabbitmqctl succeeds")
		}
	})
}

// keepsMessages sees that a durable message survives all that is done to the node.
func keepsMessages(t *testing.T, p *place, env map[string]string) {
	t.Helper()
	conn, err := amqp.Dial(env["REHOP_RABBITMQ_URL"])
	ch := open(t, conn, err)
	if _, err := ch.QueueDeclare("kept", true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	if err := ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	confirm, err := ch.PublishWithDeferredConfirm("", "kept", false, false, amqp.Publishing{DeliveryMode: amqp.Persistent, Body: []byte("x")})
	if err != nil {
		t.Fatal(err)
	}
	if ok, err := confirm.WaitContext(limited(t)); err != nil || !ok {
		t.Fatalf("got confirm %v, %v", ok, err)
	}
	_ = conn.Close()
	// Mnesia writes down a moment later that the queue exists, and the first thing that is done to the node is to kill it.
	p.run("ctl", "single", "eval", "case whereis(mnesia_sup) of undefined -> ok; _ -> ok = mnesia:sync_log() end.")
	p.cycle("single-"+env["REHOP_RABBITMQ"], func() {
		t.Helper()
		conn, err := amqp.Dial(env["REHOP_RABBITMQ_URL"])
		ch := open(t, conn, err)
		defer conn.Close()
		q, err := ch.QueueDeclarePassive("kept", true, false, false, false, nil)
		if err != nil || q.Messages != 1 {
			t.Errorf("got %d messages, %v, want 1", q.Messages, err)
		}
	})
}

// transientQueues sees that the broker is as RabbitMQ ships it: from 4.3 on it refuses transient queues that are not exclusive.
func transientQueues(t *testing.T, address, version string) {
	t.Helper()
	conn, err := amqp.Dial(address)
	ch := open(t, conn, err)
	defer conn.Close()
	_, err = ch.QueueDeclare("transient", false, true, false, false, nil)
	old := strings.HasPrefix(version, "3.") || strings.HasPrefix(version, "4.0.")
	if accepted := err == nil; accepted != old {
		t.Errorf("RabbitMQ %s accepts a transient queue: %v, %v, want %v", version, accepted, err, old)
	}
}

// byCertificate logs in by the client's certificate.
func byCertificate(t *testing.T, env map[string]string) {
	t.Helper()
	file := func(name string) string { return filepath.Join(env["REHOP_RABBITMQ_CERTS"], name) }
	ca, err := os.ReadFile(file("ca.pem"))
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	certificate, err := tls.LoadX509KeyPair(file("client.pem"), file("client.key"))
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(env["REHOP_RABBITMQ_TLS_URL"])
	if err != nil {
		t.Fatal(err)
	}
	u.User = nil
	conn, err := amqp.DialConfig(u.String(), amqp.Config{
		SASL:            []amqp.Authentication{&amqp.ExternalAuth{}},
		TLSClientConfig: &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{certificate}, ServerName: "localhost"},
	})
	open(t, conn, err)
	_ = conn.Close()
}

func TestCluster(t *testing.T) {
	each(t, func(t *testing.T, p *place) {
		p.up("cluster")
		env := p.variables()
		management := strings.Split(env["REHOP_CLUSTER_MANAGEMENT"], ",")
		if got, want := env["REHOP_CLUSTER_VERSION"], version(t, management[0]); got != want {
			t.Errorf("env says that version %s runs, and the broker that it is %s", got, want)
		}
		running := func() (count int) {
			t.Helper()
			var nodes []struct{ Running bool }
			get(t, management[0]+"/api/nodes", &nodes)
			for _, n := range nodes {
				if n.Running {
					count++
				}
			}
			return count
		}
		if got := running(); got != 3 {
			t.Errorf("%d nodes run, want 3", got)
		}
		urls := strings.Split(env["REHOP_CLUSTER_URLS"], ",")
		conn, err := amqp.Dial(urls[2])
		ch := open(t, conn, err)
		if _, err := ch.QueueDeclare("quorum", true, false, false, false, amqp.Table{"x-queue-type": "quorum"}); err != nil {
			t.Fatal(err)
		}
		_ = conn.Close()
		p.cycle("c2-"+env["REHOP_RABBITMQ"], func() {
			t.Helper()
			for _, address := range urls {
				conn, err := amqp.Dial(address)
				ch := open(t, conn, err)
				if _, err := ch.QueueDeclarePassive("quorum", true, false, false, false, nil); err != nil {
					t.Errorf("by node %s: %v", address, err)
				}
				_ = conn.Close()
			}
		})
		p.run("up", "cluster") // waits until all are joined again
		if got := running(); got != 3 {
			t.Errorf("after all that %d nodes run, want 3", got)
		}
	})
}
