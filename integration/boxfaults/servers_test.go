package boxfaults

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/rehop/rehop/integration/lab"
)

// own are the servers of these tests.
var own = &servers{}

// servers are databases and brokers that no other process uses.
type servers struct {
	slow sync.Mutex // held while slowDisk is set
	mu   sync.Mutex
	down func() error // nil: not started
}

// start starts servers, named as for scripts/services. The caller stops them at the end of the test.
func (s *servers) start(t testing.TB, services ...string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	down, err := lab.Own(services...)
	if err != nil {
		t.Fatal(err)
	}
	s.down = down
}

// slowDisk is the variable by which scripts/services makes the disk of servers slow.
const slowDisk = "REHOP_SERVICES_SYNC_DELAY"

// startSlow is start for servers whose disk is slow: each sync takes longer by this many milliseconds on average.
func (s *servers) startSlow(t testing.TB, delay int, services ...string) {
	t.Helper()
	s.slow.Lock()
	defer s.slow.Unlock()
	if err := os.Setenv(slowDisk, strconv.Itoa(delay)); err != nil {
		t.Fatal(err)
	}
	defer os.Unsetenv(slowDisk)
	s.start(t, services...)
}

// restart starts a server that was killed. With a delay, its disk is slow, unless others use the server too.
func (s *servers) restart(t testing.TB, delay int, node string) {
	t.Helper()
	script := os.Getenv("REHOP_SERVICES")
	if script == "" {
		script = filepath.Join("..", "..", "scripts", "services")
	}
	lab.Eventually(t, waitLimit, node+" starts", func() bool {
		command := exec.Command(script, "start", node)
		if command.Env = os.Environ(); delay > 0 && os.Getenv("REHOP_FAULTS_SERVICES") != "given" {
			command.Env = append(command.Env, slowDisk+"="+strconv.Itoa(delay))
		}
		out, err := command.CombinedOutput()
		// A process that PostgreSQL has forked at the moment of the kill has the port for a moment.
		if err != nil && !strings.Contains(string(out), "another process listens on port") {
			t.Fatalf("scripts/services start %s: %v\n%s", node, err, out)
		}
		return err == nil
	})
}

// stop stops all servers and removes their data.
func (s *servers) stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down == nil {
		return nil
	}
	err := s.down()
	s.down = nil
	return err
}

// stopAfter stops the servers when the test and its subtests have ended.
func (s *servers) stopAfter(t testing.TB) {
	t.Helper()
	t.Cleanup(func() {
		if err := s.stop(); err != nil {
			t.Error(err)
		}
	})
}

// stopWhenInterrupted stops the servers also if somebody interrupts the tests.
func (s *servers) stopWhenInterrupted() {
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-interrupted
		if err := s.stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(1)
	}()
}
