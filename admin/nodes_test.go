package admin

import (
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
)

// Each trouble of a node is reported as such, and a user who may not see the nodes gets an error with the reason.
func TestNodes(t *testing.T) {
	status, text := http.StatusOK, `[{"name":"rabbit@b","running":true,"mem_alarm":true,"disk_free_alarm":false,"partitions":[]},
		{"name":"rabbit@a","running":true,"mem_alarm":false,"disk_free_alarm":true,"partitions":["rabbit@c"]},{"name":"rabbit@c","running":false}]`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/nodes" {
			t.Errorf("got a request for %s, want /api/nodes", r.URL)
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte(text))
	}))
	defer server.Close()
	m, err := newManagement(Config{URLs: []string{"amqp://localhost"}, Management: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	a := &Admin{management: m}
	nodes, err := a.Nodes(t.Context())
	want := []Node{{Name: "rabbit@a", Running: true, DiskAlarm: true, Partitions: []string{"rabbit@c"}}, {Name: "rabbit@b", Running: true, MemoryAlarm: true, Partitions: []string{}}, {Name: "rabbit@c"}}
	if err != nil || !reflect.DeepEqual(nodes, want) {
		t.Errorf("got %+v, %v, want %+v", nodes, err, want)
	}
	status, text = http.StatusUnauthorized, `{"error":"not_authorised","reason":"Not monitor user"}`
	if _, err := a.Nodes(t.Context()); err == nil || !strings.Contains(err.Error(), "list nodes") || !strings.Contains(err.Error(), "Not monitor user") {
		t.Errorf("got %v, want the reason of the broker", err)
	}
}
