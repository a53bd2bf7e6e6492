package admin

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

// Only the embedded broker has the route. RabbitMQ answers that it does not exist.
func TestBackupOfRabbitMQ(t *testing.T) {
	for _, status := range []int{http.StatusNotFound, http.StatusMethodNotAllowed} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
		a := &Admin{management: managementAt(t, server.URL)}
		if _, err := a.Backup(t.Context()); !errors.Is(err, ErrNoBackup) {
			t.Errorf("status %d: got %v, want ErrNoBackup", status, err)
		}
		server.Close()
	}
}

func TestBackupStreams(t *testing.T) {
	more := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); r.URL.Path != "/api/rehop/backup" || user != "guest" || password != "guest" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		io.WriteString(w, "first")
		http.NewResponseController(w).Flush()
		<-more
		io.WriteString(w, " second")
	}))
	defer server.Close()
	a := &Admin{management: managementAt(t, server.URL)}
	backup, err := a.Backup(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer backup.Close()
	first := make([]byte, 5)
	if _, err := io.ReadFull(backup, first); err != nil {
		t.Fatal(err)
	}
	close(more)
	rest, err := io.ReadAll(backup)
	if err != nil || string(first)+string(rest) != "first second" {
		t.Errorf("got %q, %q and %v", first, rest, err)
	}
	a.management.base = ""
	if _, err := a.Backup(t.Context()); !errors.Is(err, ErrNoManagement) {
		t.Errorf("without management API: got %v, want ErrNoManagement", err)
	}
}
