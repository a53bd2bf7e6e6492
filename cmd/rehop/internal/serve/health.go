package serve

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/rehop/rehop/cmd/rehop/internal/config"
	"github.com/rehop/rehop/cmd/rehop/internal/flow"
	"github.com/rehop/rehop/internal/hosts"
)

func (r *running) startHTTP(t *telemetry) (end func() error, err error) {
	handler, err := r.healthHandler(t.metrics)
	if err != nil {
		return nil, err
	}
	encryption, err := r.listenerTLS(config.ListenerHTTP, "h2", "http/1.1")
	if err != nil {
		return nil, err
	}
	handler, endConsole, err := r.withConsole(handler)
	if err != nil {
		return nil, err
	}
	listener, err := listen(r.HTTP, "the console, health and metrics", config.ListenerHTTP)
	if err != nil {
		return nil, errors.Join(err, endConsole())
	}
	r.report.HTTP, end = r.serve(listener, "the console, health and metrics", handler, encryption)
	r.reportListener(listener, config.ListenerHTTP, false)
	r.report.Console.URL = cmp.Or(r.file.Console.URL, r.report.HTTP+consolePath)
	return closers{end, endConsole}.close, nil // event streams end before the server does
}

// healthRoutes are the routes of health and metrics, which need no login.
func (r *running) healthRoutes(metrics http.Handler) map[string]http.Handler {
	return map[string]http.Handler{"GET /healthz": http.HandlerFunc(r.healthz), "GET /readyz": http.HandlerFunc(r.readyz), "GET /metrics": metrics}
}

// healthHandler serves these routes, for the hosts that the program is reached by.
func (r *running) healthHandler(metrics http.Handler) (http.Handler, error) {
	mux := http.NewServeMux()
	for pattern, handler := range r.healthRoutes(metrics) {
		mux.Handle(pattern, handler)
	}
	names, err := hosts.New(r.hosts(r.HTTP)...)
	if err != nil {
		return nil, fmt.Errorf("serve health and metrics: %w", err)
	}
	return names.Handler(mux), nil
}

// healthz reports that the process is alive, unless its broker has failed, which only a restart can fix.
func (r *running) healthz(w http.ResponseWriter, _ *http.Request) {
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

func (r *running) readyz(w http.ResponseWriter, _ *http.Request) {
	status := r.runner.Status()
	answer := readiness{Ready: status.Ready() && !r.ending.Load() && r.brokerFailure() == nil, Draining: r.ending.Load(), Status: status}
	w.Header().Set("Content-Type", "application/json")
	if !answer.Ready {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = json.NewEncoder(w).Encode(answer)
}
