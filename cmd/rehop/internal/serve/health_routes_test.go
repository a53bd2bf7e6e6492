package serve

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/rehop/rehop/broker"
	"github.com/rehop/rehop/cmd/rehop/internal/config"
	"github.com/rehop/rehop/cmd/rehop/internal/flow"
)

// healthTable has every route of health and metrics, and what it answers to anybody. A new route needs an entry.
var healthTable = map[string]int{"GET /healthz": http.StatusOK, "GET /readyz": http.StatusServiceUnavailable, "GET /metrics": http.StatusOK}

// Every route, as everybody, from every origin, for every host. Nobody needs to log in, and nothing can be changed.
func TestHealthRoutes(t *testing.T) {
	server := &broker.Server{Logger: slog.New(slog.DiscardHandler)}
	defer server.Close()
	file, err := config.Parse("rehop.yaml", []byte("hosts: [rehop.example]"), func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	r := &running{Service: Service{Embedded: &Embedded{server: server}, HTTP: "health.example:9419"}, file: file, runner: &flow.Runner{}}
	metrics := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	handler, err := r.healthHandler(metrics)
	if err != nil {
		t.Fatal(err)
	}
	routes := r.healthRoutes(metrics)
	for pattern := range healthTable {
		if routes[pattern] == nil {
			t.Errorf("the table has %s, which does not exist", pattern)
		}
	}
	callers := [][2]string{{}, {"guest", "guest"}, {"admin", "wrong"}}
	hosts := map[string]bool{"localhost:9419": true, "127.0.0.1:9419": true, "rehop.example": true, "health.example:9419": true, "evil.example": false}
	for pattern := range routes {
		answer, there := healthTable[pattern]
		if !there {
			t.Errorf("%s is not in the table: add what it answers", pattern)
		}
		_, path, _ := strings.Cut(strings.TrimSuffix(pattern, "{$}"), " ")
		for _, method := range []string{"GET", "POST", "PUT", "DELETE"} {
			for _, caller := range callers {
				for _, origin := range []string{"", "http://rehop.example", "http://evil.example"} {
					for host, allowed := range hosts {
						want := answer
						switch {
						case !allowed:
							want = http.StatusMisdirectedRequest
						case method != "GET" && origin != "" && origin != "http://"+host:
							want = http.StatusForbidden
						case method != "GET":
							want = http.StatusMethodNotAllowed
						}
						w, request := httptest.NewRecorder(), httptest.NewRequest(method, path, nil)
						request.Host = host
						if caller[0] != "" {
							request.SetBasicAuth(caller[0], caller[1])
						}
						if origin != "" {
							request.Header.Set("Origin", origin)
						}
						handler.ServeHTTP(w, request)
						if w.Code != want {
							t.Errorf("%s %s as %q from %q for %s: got %d %s, want %d", method, path, caller[0], origin, host, w.Code, w.Body, want)
						}
					}
				}
			}
		}
	}
}
