package serve

import (
	"encoding/json"
	"net/http"

	"github.com/rehop/rehop/cmd/rehop/internal/flow"
)

func (r *run) startHTTP(t *telemetry) (end func() error, err error) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", r.healthz)
	mux.HandleFunc("GET /readyz", r.readyz)
	mux.Handle("GET /metrics", t.metrics)
	at, end, err := r.serve(r.HTTP, "health and metrics", "http", mux)
	r.report.HTTP = at
	return end, err
}

// healthz reports that the process is alive, unless its broker has failed, which only a restart can fix.
func (r *run) healthz(w http.ResponseWriter, _ *http.Request) {
	if err := r.brokerFailure(); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	_, _ = w.Write([]byte("ok\n"))
}

// readiness is the answer of /readyz.
type readiness struct {
	Ready    bool `json:"ready"`
	Draining bool `json:"draining,omitempty"`
	flow.Status
}

func (r *run) readyz(w http.ResponseWriter, _ *http.Request) {
	status := r.runner.Status()
	answer := readiness{Ready: status.Ready() && !r.ending.Load() && r.brokerFailure() == nil, Draining: r.ending.Load(), Status: status}
	w.Header().Set("Content-Type", "application/json")
	if !answer.Ready {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = json.NewEncoder(w).Encode(answer)
}
