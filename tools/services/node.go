package main

import (
	"fmt"
	"os"
)

// node runs a command that is about one node, and returns the exit code.
func (h *host) node(command, name string, args []string) (code int, err error) {
	n, e, err := h.lineup.node(name)
	if err != nil {
		return 0, err
	}
	if _, err := os.Stat(h.dir.File(n.Node())); err != nil || h.dir.Block() == 0 {
		return 0, fmt.Errorf("%s was never started; run: scripts/services up %s", n.Node(), e.Service())
	}
	switch command {
	case "start":
		return 0, n.Start()
	case "stop":
		return 0, n.Stop()
	case "kill":
		return 0, n.Kill()
	case "pause":
		return 0, n.Pause()
	case "resume":
		return 0, n.Resume()
	case "isolate", "reconnect":
		link, ok := n.(interface {
			Isolate() error
			Reconnect() error
		})
		if !ok {
			return 0, fmt.Errorf("%s has no network of its own", n.Node())
		}
		if command == "isolate" {
			return 0, link.Isolate()
		}
		return 0, link.Reconnect()
	case "restart":
		if err := n.Stop(); err != nil {
			return 0, err
		}
		return 0, n.Start()
	}
	return n.Ctl(args)
}
