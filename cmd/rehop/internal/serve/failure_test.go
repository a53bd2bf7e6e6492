package serve

import (
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/broker"
	"github.com/rehop/rehop/broker/brokertest"
	"github.com/rehop/rehop/cmd/rehop/internal/config"
)

// failDisk does to a broker what a disk that fails does.
func failDisk(t *testing.T, server *broker.Server) {
	t.Helper()
	control, err := brokertest.Open(server)
	if err != nil {
		t.Fatal(err)
	}
	control.FailDisk(syscall.EIO)
}

// When the disk of the embedded broker fails, the service ends with an error at once, whether or not others can connect to the broker.
func TestFailedDisk(t *testing.T) {
	for name, address := range map[string]string{"with a listener": "127.0.0.1:0", "without": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			handling, release := make(chan struct{}, 1), make(chan struct{})
			endpoint := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
				handling <- struct{}{}
				<-release
			}))
			defer endpoint.Close()
			defer close(release)
			ready := make(chan struct{})
			s := Service{
				Load: func() (*config.File, error) {
					return config.Parse("rehop.yaml", []byte("flows: {work: {target: {http: '"+endpoint.URL+"'}}}"), func(string) (string, bool) { return "", false })
				},
				Embedded: &Embedded{Data: t.TempDir(), AMQP: address}, HTTP: "127.0.0.1:0", Drain: time.Hour,
				Env:    func(string) (string, bool) { return "", false },
				Logger: slog.New(slog.NewTextHandler(t.Output(), nil)), Ready: func(Report) error { close(ready); return nil },
			}
			ended := make(chan error, 1)
			go func() { ended <- s.Run(t.Context()) }()
			<-ready
			client, err := rehop.Open(t.Context(), rehop.Config{Dial: s.Embedded.server.Dial, Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			if err := client.Publish(t.Context(), rehop.Message{Key: "work"}); err != nil {
				t.Fatal(err)
			}
			<-handling
			if err := client.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			failDisk(t, s.Embedded.server)
			if err := <-ended; !errors.Is(err, syscall.EIO) || !strings.Contains(err.Error(), s.Embedded.Data) {
				t.Errorf("got %v, want %v and the directory", err, syscall.EIO)
			}
		})
	}
}

// A service whose broker has failed is neither well nor ready.
func TestHealthOfFailedDisk(t *testing.T) {
	server := &broker.Server{Dir: t.TempDir(), Logger: slog.New(slog.DiscardHandler)}
	r := &running{Service: Service{Embedded: &Embedded{server: server}}}
	ask := func() (int, string) {
		w := httptest.NewRecorder()
		r.healthz(w, nil)
		return w.Code, w.Body.String()
	}
	if code, body := ask(); code != http.StatusOK || body != "ok\n" {
		t.Errorf("got %d %q before the failure, want 200 ok", code, body)
	}
	failDisk(t, server)
	if code, body := ask(); code != http.StatusServiceUnavailable || !strings.Contains(body, "input/output error") {
		t.Errorf("got %d %q after the failure, want 503 and why", code, body)
	}
	if err := server.Close(); !errors.Is(err, syscall.EIO) {
		t.Errorf("got %v from Close, want %v", err, syscall.EIO)
	}
}
