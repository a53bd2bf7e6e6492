package main

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/rehop/rehop/tools/services/internal/daemon"
	"github.com/rehop/rehop/tools/services/internal/ports"
	"github.com/rehop/rehop/tools/services/internal/program"
)

// TestMain lets this program start itself, as what keeps a block of ports is.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == claimCommand {
		main()
	}
	os.Exit(m.Run())
}

// newHost is a host with a state directory of its own, which is removed when the test has ended.
func newHost(t *testing.T, env map[string]string) (h *host, log *bytes.Buffer) {
	t.Helper()
	log = new(bytes.Buffer)
	dir := filepath.Join(t.TempDir(), "state")
	h, err := process{out: log, log: log, getenv: func(name string) string {
		if name == "REHOP_SERVICES_DIR" {
			return dir
		}
		return env[name]
	}}.host("/some/checkout")
	if err != nil {
		t.Fatal(err)
	}
	unlock, err := h.lock()
	if err != nil {
		t.Fatal(err)
	}
	unlock()
	t.Cleanup(func() {
		if err := h.down(); err != nil {
			t.Error(err)
		}
	})
	return h, log
}

func choose(t *testing.T, h *host) ports.Block {
	t.Helper()
	if err := h.choosePorts(); err != nil {
		t.Fatal(err)
	}
	return h.dir.Block()
}

// State directories that choose at the same time have different ports, although no server listens yet.
func TestChooseAtOnce(t *testing.T) {
	var hosts []*host
	var all sync.WaitGroup
	for range 6 {
		h, _ := newHost(t, nil)
		hosts = append(hosts, h)
	}
	for _, h := range hosts {
		all.Go(func() {
			if err := h.choosePorts(); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	users := map[ports.Block]string{}
	for _, h := range hosts {
		b := h.dir.Block()
		if other, ok := users[b]; ok || b == 0 {
			t.Errorf("%s and %s have the ports from %d on", other, h.dir.Path, b)
		}
		users[b] = h.dir.Path
	}
}

// A state directory keeps its ports while anything runs there, and no longer if somebody else has taken one.
func TestKeepPorts(t *testing.T) {
	h, log := newHost(t, nil)
	b := choose(t, h)
	if again := choose(t, h); again != b {
		t.Errorf("got the ports from %d on and then from %d on", b, again)
	}
	h.wanted = b + 1
	if again := choose(t, h); again != b || !strings.Contains(log.String(), "REHOP_SERVICES_PORT is ignored") {
		t.Errorf("got the ports from %d on, log %q, want %d and that REHOP_SERVICES_PORT is ignored", again, log, b)
	}
	h.wanted = 0

	// What keeps the block is started again if only that has ended.
	server := daemon.In(h.dir, "server")
	unlock, err := server.Lock()
	if err != nil {
		t.Fatal(err)
	}
	unlock()
	if err := server.Spawn(program.Program{Args: []string{"/bin/sleep", "600"}}); err != nil {
		t.Fatal(err)
	}
	// Its port, so that no other program on this machine chooses the block at this moment.
	l, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", b.At(ports.Postgres)))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	claim := daemon.In(h.dir, "claim")
	if err := claim.Kill(); err != nil {
		t.Fatal(err)
	}
	if again := choose(t, h); again != b || !claim.Runs() {
		t.Errorf("got the ports from %d on, claimed %v, want %d, true", again, claim.Runs(), b)
	}

	// The machine was started again, and another program has one of the ports.
	if err := daemon.KillAll(h.dir); err != nil {
		t.Fatal(err)
	}
	if again := choose(t, h); again == b {
		t.Errorf("got the ports from %d on again, of which another has one", b)
	}
}
