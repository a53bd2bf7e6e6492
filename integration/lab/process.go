package lab

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/rehop/rehop/broker"
	"github.com/rehop/rehop/broker/mgmt"
)

// processRole is the variable by which a test program knows that it is to be an embedded broker: its directory, its two addresses and its release.
const processRole = "REHOP_LAB_BROKER"

// Process is the embedded broker, on disk and in a process of its own, which can be killed and started again.
type Process struct {
	*Rabbit
	dir, address, api string
	running           *exec.Cmd
	input             io.Closer // the process ends when this is closed, or with the test program
}

// EmbeddedProcess starts one. The TestMain of the package must begin with ServeProcess.
func EmbeddedProcess(t testing.TB) *Process {
	t.Helper()
	p := &Process{dir: t.TempDir(), address: "127.0.0.1:0", api: "127.0.0.1:0"}
	p.Start(t)
	t.Cleanup(p.Kill)
	p.Rabbit = At(t, "amqp://guest:guest@"+p.address, "http://guest:guest@"+p.api)
	return p
}

// Start starts the process, with the same addresses each time, when it does not run.
func (p *Process) Start(t testing.TB) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p.running = exec.Command(self)
	p.running.Env = append(os.Environ(), processRole+"="+strings.Join([]string{p.dir, p.address, p.api, Release().String()}, "|"))
	p.running.Stderr = os.Stderr
	if p.input, err = p.running.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := p.running.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.running.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the embedded broker has not started: %v", err)
	}
	if _, err := fmt.Sscan(line, &p.address, &p.api); err != nil {
		t.Fatal(err)
	}
}

// Kill ends the process with kill -9.
func (p *Process) Kill() {
	_ = p.running.Process.Kill()
	_ = p.running.Wait()
	_ = p.input.Close()
}

// ServeProcess is the main function of such a process. In any other it returns at once.
func ServeProcess() {
	orders := os.Getenv(processRole)
	if orders == "" {
		return
	}
	if err := serveProcess(strings.Split(orders, "|")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func serveProcess(orders []string) error {
	server := &broker.Server{Dir: orders[0], Compat: compatOf(orders[3]), Logger: slog.New(slog.DiscardHandler)}
	if err := server.Start(); err != nil {
		return err
	}
	handler, err := mgmt.Handler(server)
	if err != nil {
		return err
	}
	amqp, err := net.Listen("tcp", orders[1])
	if err != nil {
		return err
	}
	api, err := net.Listen("tcp", orders[2])
	if err != nil {
		return err
	}
	ended := make(chan error, 3)
	go func() { ended <- server.Serve(context.Background(), amqp) }()
	go func() { ended <- http.Serve(api, handler) }()
	go func() {
		_, err := io.Copy(io.Discard, os.Stdin)
		ended <- err
	}()
	fmt.Println(amqp.Addr(), api.Addr())
	return <-ended
}
