package brokers

import (
	"bufio"
	"context"
	"fmt"
	"log"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime/pprof"
	"strings"
	"syscall"
	"testing"

	"github.com/rehop/rehop/broker"
)

// serveIn names the variable that makes this program the embedded broker, with its value as directory: a process
// of its own, as RabbitMQ is.
const serveIn = "REHOP_BENCH_SERVE"

// profileTo names the variable with the directory for CPU profiles of such processes; empty: none are made.
const profileTo = "REHOP_BENCH_PROFILE"

func serve(dir string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if to := os.Getenv(profileTo); to != "" {
		f, err := os.Create(filepath.Join(to, fmt.Sprintf("broker-%d.prof", os.Getpid())))
		if err == nil {
			err = pprof.StartCPUProfile(f)
		}
		if err != nil {
			log.Print(err)
			return 1
		}
		defer pprof.StopCPUProfile()
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Print(err)
		return 1
	}
	server := &broker.Server{Dir: dir}
	if err := server.Start(); err != nil {
		log.Print(err)
		return 1
	}
	fmt.Println(ln.Addr())
	if err := server.Serve(ctx, ln); err != nil && ctx.Err() == nil {
		log.Print(err)
		return 1
	}
	if err := server.Close(); err != nil {
		log.Print(err)
		return 1
	}
	return 0
}

// child is the embedded broker, or another, as a process of its own.
type child struct {
	role string   // the variable that makes it what it is
	env  []string // more of those
	dir  string
	cmd  *exec.Cmd
	url  string
}

// start starts the embedded broker in a fresh directory, until the end of the test.
func start(t *testing.T) *child {
	t.Helper()
	c := &child{role: serveIn, dir: t.TempDir()}
	c.run(t)
	t.Cleanup(func() {
		if err := c.stop(syscall.SIGTERM); err != nil {
			t.Errorf("the embedded broker: %v", err)
		}
	})
	return c
}

// begin starts a process that has nothing to end in order.
func (c *child) begin(t *testing.T) {
	t.Helper()
	c.run(t)
	t.Cleanup(func() { _ = c.stop(syscall.SIGKILL) })
}

// run starts the process and returns when it listens.
func (c *child) run(t *testing.T) {
	t.Helper()
	c.cmd = exec.Command(os.Args[0])
	c.cmd.Env = append(append(os.Environ(), c.env...), c.role+"="+c.dir)
	c.cmd.Stderr = os.Stderr
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	addr, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the process by %s has not started: %v", c.role, err)
	}
	c.url = "amqp://guest:guest@" + strings.TrimSpace(addr) + "/"
}

// stop ends the process by a signal.
func (c *child) stop(how syscall.Signal) error {
	if err := c.cmd.Process.Signal(how); err != nil {
		return err
	}
	err := c.cmd.Wait()
	if how == syscall.SIGKILL {
		return nil
	}
	return err
}

// resident is how much memory the process uses, in bytes.
func (c *child) resident(t *testing.T) int64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.cmd.Process.Pid))
	if err != nil {
		t.Error(err)
		return 0
	}
	var kib int64
	for line := range strings.Lines(string(status)) {
		if n, _ := fmt.Sscanf(line, "VmRSS: %d kB", &kib); n == 1 {
			return kib << 10
		}
	}
	t.Error("the system does not say how much memory the process uses")
	return 0
}
