package serve_test

import (
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rehop/rehop/cmd/rehop/internal/serve"
)

// A broker that is added to the file does not part the flows, which stay on the embedded one, from the commands, which would use the other: the file
// is not loaded. Other changes are, and the log has lists, also empty ones.
func TestReloadRefusesBroker(t *testing.T) {
	t.Parallel()
	log := &journal{}
	var text atomic.Pointer[string]
	write := func(s string) { text.Store(&s) }
	write("flows: {one: {target: {command: 'true'}}}")
	r := start(t, nil, func() string { return *text.Load() }, func(s *serve.Service) { s.Logger = slog.New(slog.NewJSONHandler(log, nil)) })
	write("broker: amqp://127.0.0.1:1/\nflows: {two: {target: {command: 'true'}}}")
	r.reload <- struct{}{}
	await(t, "the reason in the log", func() bool { return strings.Contains(log.String(), "broker was added") })
	if got := log.String(); strings.Contains(got, "the file was loaded") || !strings.Contains(got, "the file was not loaded; everything continues as before") || !strings.Contains(got, "docs/moving.md") {
		t.Errorf("got %s, want that the file is not loaded, and what to read", got)
	}
	write("flows: {one: {target: {command: 'true'}}, two: {target: {command: 'true'}}}")
	r.reload <- struct{}{}
	await(t, "the reload", func() bool {
		return strings.Contains(log.String(), `"msg":"the file was loaded","started":["two"],"changed":[],"stopped":[],"reconnected":false`)
	})
}
