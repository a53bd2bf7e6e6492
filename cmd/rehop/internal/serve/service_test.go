package serve_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/cmd/rehop/internal/config"
	"github.com/rehop/rehop/cmd/rehop/internal/serve"
	"github.com/rehop/rehop/rehoptest"
)

// environment is what a test's service sees.
type environment map[string]string

func (e environment) lookup(name string) (string, bool) {
	value, ok := e[name]
	return value, ok
}

// running is a service with a broker of its own, until the test ends.
type running struct {
	serve.Report
	stop   context.CancelFunc
	ended  chan error
	reload chan struct{}
}

func run(t *testing.T, env environment, text string, args ...any) *running {
	t.Helper()
	return start(t, env, func() string { return fmt.Sprintf(text, args...) }, nil)
}

// start is run with a file that may change, and a service that is changed before it starts.
func start(t *testing.T, env environment, text func() string, change func(*serve.Service)) *running {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ready := make(chan serve.Report, 1)
	r := &running{stop: cancel, ended: make(chan error, 1), reload: make(chan struct{})}
	s := serve.Service{
		Load: func() (*config.File, error) {
			return config.Parse("rehop.yaml", []byte(text()), env.lookup)
		},
		Embedded: &serve.Embedded{AMQP: "127.0.0.1:0", Management: "127.0.0.1:0"}, HTTP: "127.0.0.1:0", Drain: 10 * time.Second,
		Env: env.lookup, Logger: slog.New(slog.NewTextHandler(t.Output(), nil)), Reload: r.reload,
		Ready: func(report serve.Report) error { ready <- report; return nil },
	}
	if change != nil {
		change(&s)
	}
	go func() { r.ended <- s.Run(ctx) }()
	select {
	case r.Report = <-ready:
	case err := <-r.ended:
		t.Fatalf("the service has ended: %v", err)
	}
	t.Cleanup(func() {
		cancel()
		if err := <-r.ended; err != nil {
			t.Error(err)
		}
	})
	return r
}

func get(t *testing.T, url string) (code int, body string) {
	t.Helper()
	response, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

// A service reports that it is alive, whether it is ready, and what it has done.
func TestHealthAndMetrics(t *testing.T) {
	t.Parallel()
	arrived := make(chan struct{}, 1)
	endpoint := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { arrived <- struct{}{} }))
	defer endpoint.Close()
	r := run(t, nil, "flows: {work: {target: {http: '%s'}}}", endpoint.URL)
	if code, body := get(t, r.HTTP+"/healthz"); code != http.StatusOK || body != "ok\n" {
		t.Errorf("/healthz: got %d %q, want 200 ok", code, body)
	}
	var status struct {
		Ready  bool
		Broker string
		Flows  []struct {
			Flow      string
			Consuming bool
		}
	}
	code, body := get(t, r.HTTP+"/readyz")
	if err := json.Unmarshal([]byte(body), &status); err != nil {
		t.Fatal(err)
	}
	if code != http.StatusOK || !status.Ready || status.Broker != "OPEN" || len(status.Flows) != 1 || !status.Flows[0].Consuming {
		t.Errorf("/readyz: got %d %s, want that work consumes", code, body)
	}
	if len(r.Flows) != 1 || r.Flows[0].Target != "POST "+endpoint.URL || !r.Memory {
		t.Errorf("got report %+v, want the flow, in memory", r.Report)
	}
	publish(t, r.AMQP, rehop.Message{Key: "work"})
	<-arrived
	await(t, "the message in the metrics", func() bool {
		_, body := get(t, r.HTTP+"/metrics")
		return strings.Contains(body, "messaging_client_consumed_messages_total{") && strings.Contains(body, "go_goroutines") &&
			strings.Contains(body, "rehop_queue_messages{") // from the management API
	})
}

// collector counts what is sent to it.
type collector struct{ traces, metrics atomic.Int64 }

func (c *collector) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/v1/traces":
		c.traces.Add(1)
	case "/v1/metrics":
		c.metrics.Add(1)
	}
	_, _ = io.Copy(io.Discard, r.Body)
}

// handleOne has a service handle a message, and end. It returns the context of the trace that has come with the request.
func handleOne(t *testing.T, env environment) (traceparent string) {
	t.Helper()
	arrived := make(chan string, 1)
	endpoint := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { arrived <- r.Header.Get("Traceparent") }))
	defer endpoint.Close()
	r := run(t, env, "flows: {work: {target: {http: '%s'}}}", endpoint.URL)
	publish(t, r.AMQP, rehop.Message{Key: "work"})
	traceparent = <-arrived
	r.stop()
	err := <-r.ended
	r.ended <- err // for the end of the test
	return traceparent
}

// Traces and metrics are sent to where the environment asks.
func TestExport(t *testing.T) {
	c := &collector{}
	server := httptest.NewServer(c)
	defer server.Close()
	env := environment{"OTEL_EXPORTER_OTLP_ENDPOINT": server.URL, "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}
	for name, value := range env {
		t.Setenv(name, value) // the exporters look there themselves
	}
	if got := handleOne(t, env); got == "" {
		t.Error("the endpoint was not told the trace")
	}
	if c.traces.Load() == 0 || c.metrics.Load() == 0 {
		t.Errorf("got %d sendings of traces and %d of metrics, want some of both", c.traces.Load(), c.metrics.Load())
	}
}

// A collector that does not take them is a matter for the log, as everything else is.
func TestExportFails(t *testing.T) {
	refuse := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }))
	defer refuse.Close()
	env := environment{"OTEL_EXPORTER_OTLP_ENDPOINT": refuse.URL, "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf", "OTEL_BSP_SCHEDULE_DELAY": "1"}
	for name, value := range env {
		t.Setenv(name, value)
	}
	log := &journal{}
	r := start(t, env, func() string { return "flows: {work: {target: {command: 'true'}}}" }, func(s *serve.Service) {
		s.Logger = slog.New(slog.NewJSONHandler(log, nil))
	})
	publish(t, r.AMQP, rehop.Message{Key: "work"})
	await(t, "the failure in the log", func() bool {
		return strings.Contains(log.String(), `"msg":"metrics or traces are not complete","err":"traces export`)
	})
}

// Without a word of the environment, or against it, nothing is sent.
func TestExportNothing(t *testing.T) {
	c := &collector{}
	server := httptest.NewServer(c)
	defer server.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.URL)
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
	for _, env := range []environment{{}, {"OTEL_EXPORTER_OTLP_ENDPOINT": server.URL, "OTEL_SDK_DISABLED": "true"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT": server.URL, "OTEL_TRACES_EXPORTER": "none", "OTEL_METRICS_EXPORTER": "none"}} {
		if got := handleOne(t, env); got != "" {
			t.Errorf("%v: the endpoint was told the trace %s, and there is none", env, got)
		}
		if c.traces.Load()+c.metrics.Load() != 0 {
			t.Errorf("%v: got %d sendings of traces and %d of metrics, want none", env, c.traces.Load(), c.metrics.Load())
		}
	}
}

func publish(t *testing.T, url string, m rehop.Message) {
	t.Helper()
	client, err := rehop.Open(t.Context(), rehop.Config{URL: url, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close(t.Context())
	if err := client.Publish(t.Context(), m); err != nil {
		t.Fatal(err)
	}
}

func await(t *testing.T, what string, is func() bool) {
	t.Helper()
	limit := time.After(2 * time.Minute)
	for !is() {
		select {
		case <-limit:
			t.Fatalf("after 2 minutes still not: %s", what)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// A file that has changed is loaded without a signal. One with errors is reported, and changes nothing.
func TestFollow(t *testing.T) {
	t.Parallel()
	arrived := make(chan string, 1)
	endpoint := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { arrived <- r.URL.Path }))
	defer endpoint.Close()
	path := filepath.Join(t.TempDir(), "rehop.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
	write("flows: {work: {target: {http: '" + endpoint.URL + "/old'}}}")
	log := &journal{}
	r := start(t, nil, nil, func(s *serve.Service) {
		s.Load, s.Follow = func() (*config.File, error) { return config.Load(path) }, path
		s.Logger = slog.New(slog.NewJSONHandler(log, nil))
	})
	write("flows: {work: {tarket: {}}}")
	await(t, "the errors in the log", func() bool {
		return strings.Contains(log.String(), "the file was not loaded; everything continues as before")
	})
	publish(t, r.AMQP, rehop.Message{Key: "work"})
	if got := <-arrived; got != "/old" {
		t.Errorf("got a request to %s, want that the old flow runs", got)
	}
	write("flows: {work: {target: {http: '" + endpoint.URL + "/new'}}}")
	await(t, "the change in the log", func() bool { return strings.Contains(log.String(), `"the file was loaded"`) })
	publish(t, r.AMQP, rehop.Message{Key: "work"})
	if got := <-arrived; got != "/new" {
		t.Errorf("got a request to %s, want that the new flow runs", got)
	}
}

// A flow that the broker refuses is in readiness and metrics, and the service reports that it runs.
func TestRefusedFlow(t *testing.T) {
	t.Parallel()
	b := rehoptest.Open(t)
	sub, err := b.Client.Subscribe(t.Context(), rehop.Subscriber{Queue: "taken", MaxLength: 5, Handler: rehop.HandlerFunc(func(context.Context, *rehop.Delivery) error { return nil })})
	if err != nil {
		t.Fatal(err)
	}
	if err := sub.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	r := start(t, nil, func() string {
		return "flows:\n  free: {target: {command: 'true'}}\n  taken: {target: {command: 'true'}}\n"
	}, func(s *serve.Service) {
		s.Embedded = nil
		s.Connect = func(*config.File) (rehop.Config, error) { return b.Config(), nil }
		s.Management = func(*config.File) (string, *http.Client, error) { return "", nil, nil }
	})
	if len(r.Flows) != 2 || r.Flows[0].Error != "" || !strings.Contains(r.Flows[1].Error, "rehop topology migrate taken") {
		t.Errorf("got report %+v, want that taken is refused, with the cure", r.Flows)
	}
	if code, body := get(t, r.HTTP+"/readyz"); code != http.StatusServiceUnavailable || !strings.Contains(body, `"flow":"taken","queue":"taken","consuming":false,"refused":true,"error":"queue \"taken\" already exists with x-max-length = 5, not none (406)`) {
		t.Errorf("/readyz: got %d %s, want 503 and why", code, body)
	}
	if code, body := get(t, r.HTTP+"/healthz"); code != http.StatusOK {
		t.Errorf("/healthz: got %d %s, want 200: a restart would not help", code, body)
	}
	_, metrics := get(t, r.HTTP+"/metrics")
	for _, want := range []string{`rehop_flows{rehop_flow="free",rehop_state="consuming"} 1`, `rehop_flows{rehop_flow="free",rehop_state="refused"} 0`,
		`rehop_flows{rehop_flow="taken",rehop_state="consuming"} 0`, `rehop_flows{rehop_flow="taken",rehop_state="refused"} 1`} {
		if !strings.Contains(metrics, want) {
			t.Errorf("the metrics do not have %s", want)
		}
	}
}
