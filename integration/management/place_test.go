// Package management tests the HTTP API of the embedded broker with the tools that are made for RabbitMQ's, each on both.
package management

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop/broker"
	"github.com/rehop/rehop/broker/mgmt"
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
)

// The package has a RabbitMQ of its own: that counts for all who use it.
func TestMain(m *testing.M) {
	kit.AtOnce(4)
	os.Exit(lab.RunOwning(m, "rabbitmq"))
}

// place is a broker with its API, on which guest is administrator, and a virtual host that is the test's own.
type place struct {
	t     testing.TB
	api   *url.URL // without user and password
	vhost string

	prometheus string // address of the metrics
	dial       func(user, password, vhost string) (*amqp.Connection, error)
}

// each runs a test on both brokers.
func each(t *testing.T, test func(t *testing.T, p *place)) {
	for name, open := range map[string]func(testing.TB) *place{"rabbitmq": rabbitMQ, "embedded": embedded} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, open(t))
		})
	}
}

func rabbitMQ(t testing.TB) *place {
	t.Helper()
	rabbit := lab.Single(t)
	api, err := url.Parse(lab.Setting(t, "REHOP_RABBITMQ_MANAGEMENT"))
	if err != nil {
		t.Fatal(err)
	}
	server, err := amqp.ParseURI(rabbit.URL)
	if err != nil {
		t.Fatal(err)
	}
	api.User = nil
	return &place{t: t, api: api, vhost: rabbit.Vhost, prometheus: lab.Setting(t, "REHOP_RABBITMQ_PROMETHEUS"), dial: func(user, password, vhost string) (*amqp.Connection, error) {
		uri := server
		uri.Username, uri.Password, uri.Vhost = user, password, vhost
		return amqp.Dial(uri.String())
	}}
}

func embedded(t testing.TB) *place {
	t.Helper()
	server := &broker.Server{Compat: lab.Release(), Logger: slog.New(slog.DiscardHandler)}
	handler, err := mgmt.Handler(server)
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(handler)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(context.Background(), listener) // until the server is closed
	}()
	t.Cleanup(func() {
		web.Close()
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		<-served
	})
	api, err := url.Parse(web.URL)
	if err != nil {
		t.Fatal(err)
	}
	p := &place{t: t, api: api, vhost: "own", prometheus: web.URL + "/metrics", dial: func(user, password, vhost string) (*amqp.Connection, error) {
		return amqp.DialConfig("amqp://"+listener.Addr().String(), amqp.Config{Vhost: vhost, SASL: []amqp.Authentication{&amqp.PlainAuth{Username: user, Password: password}}})
	}}
	p.must("PUT", "/api/vhosts/own", "")
	return p
}

// channel is a channel of guest in the place's virtual host.
func (p *place) channel() *amqp.Channel {
	p.t.Helper()
	conn, err := p.dial("guest", "guest", p.vhost)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = conn.Close() })
	ch, err := conn.Channel()
	if err != nil {
		p.t.Fatal(err)
	}
	return ch
}

// request returns the status and the body of an answer.
func (p *place) request(user, password, method, path, body string) (int, string) {
	p.t.Helper()
	r, err := http.NewRequest(method, p.api.String()+path, strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	if user != "" {
		r.SetBasicAuth(user, password)
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		p.t.Fatal(err)
	}
	defer answer.Body.Close()
	content, err := io.ReadAll(answer.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return answer.StatusCode, string(content)
}

// must is a request of guest that has to succeed.
func (p *place) must(method, path, body string) string {
	p.t.Helper()
	status, content := p.request("guest", "guest", method, path, body)
	if status >= 300 {
		p.t.Fatalf("%s %s %s: got %d %s, want success", method, path, body, status, content)
	}
	return content
}
