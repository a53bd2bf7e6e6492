package main

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/rehop/rehop/tools/services/internal/export"
)

// env writes what tests need to know about the services that they use.
func (h *host) env() error {
	lines := []export.Variable{
		{Name: "REHOP_SERVICES", Value: filepath.Join(h.dir.Checkout(), "scripts", "services")},
		{Name: "REHOP_SERVICES_DIR", Value: h.dir.Path},
		{Name: "REHOP_RABBITMQ", Value: h.lineup.release.Name},
	}
	var reasons []string
	for _, e := range h.lineup.entries {
		if !e.chosen {
			continue
		}
		if missing := h.missing(e); missing != "" {
			if e.onDemand() && h.dir.Missing(e.Service()) == "" {
				continue // nobody has asked for it
			}
			reasons = append(reasons, e.Service()+": "+missing)
			continue
		}
		lines = append(lines, e.Env()...)
	}
	if len(reasons) > 0 {
		lines = append(lines, export.Variable{Name: "REHOP_SERVICES_MISSING", Value: strings.Join(reasons, "; ")})
	}
	for _, line := range lines {
		if _, err := fmt.Fprintln(h.out, line); err != nil {
			return err
		}
	}
	return nil
}

// missing is why a service cannot be used, empty if it can.
func (h *host) missing(e entry) string {
	var nodes []string
	if h.dir.Block() == 0 { // nothing was started, so there are no ports to ask
		for _, n := range e.nodes {
			nodes = append(nodes, n.Node())
		}
	} else {
		nodes = e.notServing()
	}
	if len(e.nodes) == 0 {
		nodes = e.notServing()
	}
	if len(nodes) == 0 {
		return ""
	}
	if reason := h.dir.Missing(e.Service()); reason != "" {
		return reason
	}
	return fmt.Sprintf("not up: %s (run scripts/services up %s)", strings.Join(nodes, " "), e.Service())
}
