package brokers

import (
	"bufio"
	"context"
	"fmt"
	"log"
	"net"
	"net/http"
	_ "net/http/pprof"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	"github.com/rehop/rehop/broker"
)

// serveIn names the variable that makes this program the embedded broker, with its value as directory: a process
// of its own, as RabbitMQ is.
const serveIn = "REHOP_BENCH_SERVE"

func serve(dir string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Print(err)
		return 1
	}
	if addr := os.Getenv("REHOP_BENCH_PPROF"); addr != "" {
		go func() { log.Print(http.ListenAndServe(addr, nil)) }()
	}
	server := &broker.Server{Dir: dir}
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

// start starts the embedded broker and returns its URL.
func start(t *testing.T) string {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), serveIn+"="+t.TempDir())
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			t.Errorf("the embedded broker: %v", err)
		}
	})
	addr, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the embedded broker has not started: %v", err)
	}
	return "amqp://guest:guest@" + strings.TrimSpace(addr) + "/"
}
