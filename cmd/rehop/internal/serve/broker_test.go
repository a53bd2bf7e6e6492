package serve_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/broker"
	"github.com/rehop/rehop/broker/mgmt"
	"github.com/rehop/rehop/cmd/rehop/internal/config"
	"github.com/rehop/rehop/cmd/rehop/internal/serve"
)

// Each outbox has its own numbers.
func TestMetricsOfOutboxes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := run(t, nil, "outboxes:\n  one: {database: 'sqlite:%s', migrate: true}\n  two: {database: 'sqlite:%s', migrate: true}\n",
		filepath.Join(dir, "one.db"), filepath.Join(dir, "two.db"))
	await(t, "the backlog of both", func() bool {
		_, body := get(t, r.HTTP+"/metrics")
		return strings.Contains(body, `rehop_outbox_messages{rehop_outbox="one",rehop_state="ready"}`) &&
			strings.Contains(body, `rehop_outbox_messages{rehop_outbox="two",rehop_state="ready"}`)
	})
}

// api is the URL of an endpoint of the management API, for guest.
func (r *running) api(t *testing.T, path string) string {
	t.Helper()
	u, err := url.Parse(r.Management)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword("guest", "guest")
	return u.String() + "/api/" + path
}

// The management API marks the connections of the service's own flows, and not those of other programs.
func TestOwnConnections(t *testing.T) {
	t.Parallel()
	r := run(t, nil, "flows: {work: {target: {http: 'http://127.0.0.1:1'}}}")
	other, err := rehop.Open(t.Context(), rehop.Config{URL: r.AMQP, Name: "other", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close(t.Context())
	if err := other.Publish(t.Context(), rehop.Message{Key: "nobody"}); !errors.Is(err, rehop.ErrUnroutable) {
		t.Fatalf("got %v, want ErrUnroutable", err)
	}
	var open []struct {
		Name     string `json:"user_provided_name"`
		Internal bool   `json:"internal"`
	}
	_, body := get(t, r.api(t, "connections"))
	if err := json.Unmarshal([]byte(body), &open); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	count := make(map[bool]int)
	for _, c := range open {
		count[c.Internal]++
		if others := strings.HasPrefix(c.Name, "other"); c.Internal == others {
			t.Errorf("%q: internal is %v, want %v", c.Name, c.Internal, !others)
		}
	}
	if count[true] == 0 || count[false] == 0 {
		t.Errorf("got %d connections of the service and %d others, want both", count[true], count[false])
	}
}

// The broker follows the release that the file or a flag names, and otherwise the usual one.
func TestRelease(t *testing.T) {
	t.Parallel()
	for release, want := range map[broker.Compat]string{broker.RabbitMQ310: "3.10", 0: broker.DefaultCompat.String()} {
		r := start(t, nil, func() string { return "flows: {}" }, func(s *serve.Service) { s.Embedded.RabbitMQ = release })
		if _, body := get(t, r.api(t, "overview")); !strings.Contains(body, `"rabbitmq_version":"`+want+`.`) {
			t.Errorf("release %v: got %.300s, want version %s", release, body, want)
		}
	}
}

// Users of the file may log in, with their own password. That guest may do so from this machine alone is the broker's own test.
func TestUsers(t *testing.T) {
	t.Parallel()
	r := start(t, nil, func() string { return "flows: {}" }, func(s *serve.Service) {
		s.Embedded.Users = []config.User{{Name: "shop", Password: "secret"}}
	})
	login := func(user *url.Userinfo) error {
		u, err := url.Parse(r.AMQP)
		if err != nil {
			t.Fatal(err)
		}
		u.User = user
		client, err := rehop.Open(t.Context(), rehop.Config{URL: u.String(), Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			return err
		}
		defer client.Close(t.Context())
		return client.Publish(t.Context(), rehop.Message{Key: "nobody"})
	}
	if err := login(url.UserPassword("shop", "secret")); !errors.Is(err, rehop.ErrUnroutable) {
		t.Errorf("shop: got %v, want that it may publish", err)
	}
	for user, password := range map[string]string{"nobody": "secret", "shop": "wrong"} {
		if err := login(url.UserPassword(user, password)); err == nil || errors.Is(err, rehop.ErrUnroutable) {
			t.Errorf("%s: got %v, want that it may not log in", user, err)
		}
	}
}

// The file sets the largest body, for the broker and for publishers. The error for a larger one names the key.
func TestMaxBody(t *testing.T) {
	t.Parallel()
	arrived := make(chan int64, 1)
	endpoint := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { arrived <- r.ContentLength }))
	defer endpoint.Close()
	log := &journal{}
	hand := func(limit string, size int) {
		r := start(t, nil, func() string {
			return fmt.Sprintf("max-body: %s\nflows: {a: {target: {forward: {key: b}}}, b: {target: {http: '%s'}}}", limit, endpoint.URL)
		}, func(s *serve.Service) { s.Embedded.MaxBody, s.Logger = 20<<20, slog.New(slog.NewTextHandler(log, nil)) })
		client, err := rehop.Open(t.Context(), rehop.Config{URL: r.AMQP, MaxBody: 20 << 20, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close(t.Context())
		if err := client.Publish(t.Context(), rehop.Message{Key: "a", Body: make([]byte, size)}); err != nil {
			t.Fatal(err)
		}
	}
	const large = 16<<20 + 1 // more than is usual
	hand("20MiB", large)
	if got := <-arrived; got != large {
		t.Errorf("got a body of %d bytes, want %d", got, large)
	}
	hand("1KiB", 2000)
	await(t, "the key in the log", func() bool { return strings.Contains(log.String(), "max-body in the file") })
}

// journal is a log that is read while it is written.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(b)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

// other is a broker that is not a part of the service.
type other struct{ amqp, management string }

func newOther(t *testing.T) other {
	t.Helper()
	server := &broker.Server{Logger: slog.New(slog.DiscardHandler)}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(context.Background(), listener) }()
	handler, err := mgmt.Handler(server)
	if err != nil {
		t.Fatal(err)
	}
	api := httptest.NewServer(handler)
	t.Cleanup(func() {
		api.Close()
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		<-ended
	})
	return other{"amqp://guest:guest@" + listener.Addr().String() + "/", api.URL}
}

// After a reload to another broker, the metrics of queues are that broker's. The report names the broker, without its password.
func TestReloadToAnotherBroker(t *testing.T) {
	t.Parallel()
	first, second := newOther(t), newOther(t)
	var mu sync.Mutex
	text := func(o other, queue string) string {
		return fmt.Sprintf("broker: %s\nmanagement: %s\nflows: {%s: {target: {forward: {key: nobody}}}}", o.amqp, o.management, queue)
	}
	now := text(first, "one")
	r := start(t, nil, func() string { mu.Lock(); defer mu.Unlock(); return now }, func(s *serve.Service) {
		s.Embedded = nil
		s.Connect = func(f *config.File) (rehop.Config, error) { return rehop.Config{URLs: f.Broker}, nil }
		s.Management = func(f *config.File) (string, *http.Client, error) {
			return f.Management, &http.Client{Timeout: time.Minute}, nil
		}
	})
	if got, want := fmt.Sprint(r.Broker), "["+strings.Replace(first.amqp, ":guest@", "@", 1)+"]"; got != want {
		t.Errorf("got broker %s, want %s", got, want)
	}
	has := func(queue string) bool {
		_, body := get(t, r.HTTP+"/metrics")
		return strings.Contains(body, `rehop_queue_messages{rehop_queue="`+queue+`"`)
	}
	await(t, "the queue of the first broker", func() bool { return has("one") })
	mu.Lock()
	now = text(second, "two")
	mu.Unlock()
	r.reload <- struct{}{}
	await(t, "the queue of the second broker alone", func() bool { return has("two") && !has("one") })
}
