package main

import (
	"fmt"
	"strings"
)

// status writes one line per node.
func (h *host) status() error {
	for _, e := range h.lineup.entries {
		if len(e.nodes) == 0 {
			word := "there"
			if missing := e.notServing(); len(missing) > 0 {
				word = "missing: " + strings.Join(missing, " ")
			}
			fmt.Fprintf(h.out, "%-13s %s  version %s\n", e.Service(), word, e.InstalledVersion())
		}
		for _, n := range e.nodes {
			h.statusOf(e, n)
		}
	}
	return nil
}

func (h *host) statusOf(e entry, n node) {
	word, pid, version := "down", "-", e.InstalledVersion()
	if id, runs := n.Pid(); runs {
		word, pid, version = "not serving", fmt.Sprint(id), n.Version()
		if n.Serving() {
			word = "up"
		}
	}
	if version == "" {
		version = "not installed"
	}
	var listens strings.Builder
	if h.dir.Block() != 0 {
		for _, p := range n.Ports() {
			fmt.Fprintf(&listens, " %s=%d", p.Protocol, p.Port)
		}
	}
	fmt.Fprintf(h.out, "%-13s %-11s %-11s pid %-7s %s  version %s\n", e.Service(), n.Node(), word, pid, listens.String(), version)
}
