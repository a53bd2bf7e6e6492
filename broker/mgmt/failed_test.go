package mgmt

import (
	"errors"
	"fmt"
	"net"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"

	"github.com/rehop/rehop/broker"
	"github.com/rehop/rehop/broker/internal/access"
)

// When the disk has failed, no check reports success.
func TestHealthOfFailedDisk(t *testing.T) {
	server := &broker.Server{Dir: t.TempDir(), Logger: quiet()}
	handler, err := Handler(server)
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(handler)
	defer web.Close()
	engine, err := access.Start(server, nil)
	if err != nil {
		t.Fatal(err)
	}
	d := &testAPI{t: t, node: engine, server: server, http: web}
	engine.FailDisk(syscall.EIO)
	port := web.Listener.Addr().(*net.TCPAddr).Port
	for _, check := range []string{"aliveness-test/%2F", "health/checks/alarms", "health/checks/local-alarms", "health/checks/virtual-hosts",
		"health/checks/certificate-expiration/1/months", fmt.Sprint("health/checks/port-listener/", port), "health/checks/protocol-listener/http",
		"health/checks/node-is-quorum-critical"} {
		d.must(503, "GET", "/api/"+check, "")
	}
	want := `{"alarms":[{"node":"rehop","resource":"disk"}],"reason":"the disk has failed; fix the disk and restart the broker","status":"failed"}`
	if got := d.must(503, "GET", "/api/health/checks/alarms", "").body; got != want {
		t.Errorf("alarms: got %s, want %s", got, want)
	}
	if got := d.must(200, "GET", "/api/healthchecks/node", "").body; !strings.Contains(got, `"failed"`) {
		t.Errorf("the old check: got %s, want failed", got)
	}
	if got := d.must(200, "GET", "/metrics", "").body; !strings.Contains(got, "\nrabbitmq_alarms_free_disk_space_watermark 1\n") {
		t.Errorf("metrics: got %s, want the alarm", got)
	}
	if err := server.Close(); !errors.Is(err, syscall.EIO) {
		t.Errorf("got %v from Close, want %v", err, syscall.EIO)
	}
}
