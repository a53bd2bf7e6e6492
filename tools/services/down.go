package main

import (
	"fmt"
	"os"

	"github.com/rehop/rehop/tools/services/internal/daemon"
	"github.com/rehop/rehop/tools/services/internal/network"
	"github.com/rehop/rehop/tools/services/internal/state"
)

// down stops everything and deletes the state directory. What is stopped is deleted, so nothing is lost by not asking it to stop
// nicely.
func (h *host) down() error {
	if !h.dir.Exists() {
		if _, err := os.Lstat(h.dir.Path); err == nil {
			return fmt.Errorf("%s is not a state directory of this program", h.dir.Path)
		}
		return nil
	}
	unlock, err := h.dir.Lock()
	if err != nil {
		return err
	}
	defer unlock()
	return h.remove(h.dir)
}

// remove stops what runs in a state directory, which is locked, and deletes it.
func (h *host) remove(dir state.Dir) error {
	if err := daemon.KillAll(dir); err != nil {
		return err
	}
	if err := network.Of(dir).Remove(); err != nil {
		return err
	}
	return dir.Remove()
}

// removeOrphans removes what belongs to checkouts of this user that no longer exist, and to tests that were killed.
func (h *host) removeOrphans() {
	for _, dir := range state.Orphans() {
		h.logf("the checkout %s or the test of %s is gone: removing its services", dir.Checkout(), dir.Path)
		unlock, err := dir.Lock()
		if err == nil {
			err = h.remove(dir)
			unlock()
		}
		if err != nil {
			h.report(err)
		}
	}
}
