package serve_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/rehop/rehop/cmd/rehop/internal/serve"
)

// The report has addresses that can be used, and which listeners listen on all. A listener with passwords that other machines reach without TLS is
// worth a warning.
func TestListenersEverywhere(t *testing.T) {
	t.Parallel()
	log := &journal{}
	listening := func(s *serve.Service) {
		s.Embedded.AMQP, s.HTTP, s.Logger = "0.0.0.0:0", ":0", slog.New(slog.NewTextHandler(log, nil))
	}
	r := start(t, nil, func() string { return "flows: {}" }, listening)
	if !strings.HasPrefix(r.AMQP, "amqp://admin@localhost:") || !strings.HasPrefix(r.HTTP, "http://localhost:") || !strings.HasPrefix(r.Management, "http://127.0.0.1:") || fmt.Sprint(r.Everywhere) != "[amqp http]" {
		t.Errorf("got %+v, want localhost for AMQP and HTTP, which listen everywhere", r.Report)
	}
	if got := log.String(); strings.Count(got, "other machines can connect without TLS") != 1 || !strings.Contains(got, "listener=amqp") {
		t.Errorf("got %s, want one warning about AMQP", got)
	}
	if code, body := get(t, r.HTTP+"/"); code != 200 || !strings.Contains(body, "<title>Log in") {
		t.Errorf("GET /: got %d %s, want the console", code, body)
	}
	at, log2 := newFiles(t), &journal{}
	at.write(t, newAuthority(t).leaf(t, "server"))
	start(t, nil, func() string { return fmt.Sprintf("listen: {tls: {cert: '%s', key: '%s'}}", at.cert, at.key) }, func(s *serve.Service) {
		listening(s)
		s.Logger = slog.New(slog.NewTextHandler(log2, nil))
	})
	if strings.Contains(log2.String(), "without TLS") {
		t.Errorf("got %s, want no warning", log2)
	}
}
