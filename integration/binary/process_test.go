package binary

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop/integration/kit"
)

func TestMain(m *testing.M) {
	if orders := os.Getenv(bareRole); orders != "" {
		os.Exit(beBare(orders))
	}
	os.Exit(kit.MainWithProgram(m))
}

// report is what the program prints when it is ready.
type report struct {
	AMQP, Management, HTTP, Data string
	Broker                       []string
}

// process is a running rehop.
type process struct {
	t testing.TB
	*exec.Cmd
	report
	log    kit.Log
	ready  chan report // gets one, or is closed
	exited chan struct{}
	err    error // of Wait; read after exited
}

// start runs rehop until the test ends.
func start(t testing.TB, args ...string) *process {
	t.Helper()
	cmd := exec.Command(kit.Program(t), append([]string{"--json"}, args...)...)
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "REHOP_BROKER=", "REHOP_MANAGEMENT=")
	return launch(t, cmd)
}

// launch runs a program until the test ends.
func launch(t testing.TB, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{t: t, Cmd: cmd, ready: make(chan report, 1), exited: make(chan struct{})}
	p.Stderr = &p.log
	out, err := p.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.exited)
		var r report
		if json.NewDecoder(out).Decode(&r) == nil {
			p.ready <- r
		}
		close(p.ready)
		p.err = p.Wait()
	}()
	t.Cleanup(func() {
		p.signal(syscall.SIGKILL)
		<-p.exited
		if t.Failed() {
			t.Logf("log of %v:\n%.20000s", cmd.Args[1:], p.log.String())
		}
	})
	return p
}

// up runs rehop, and waits until it is ready.
func up(t testing.TB, args ...string) *process {
	t.Helper()
	p := start(t, append(args, "--listen-http", "127.0.0.1:0")...)
	r, ok := <-p.ready
	if !ok {
		<-p.exited
		t.Fatalf("rehop %v has ended before it was ready: %v", args, p.err)
	}
	p.report = r
	return p
}

func (p *process) signal(s os.Signal) {
	p.t.Helper()
	if err := p.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.t.Fatal(err)
	}
}

// end asks the process to end, and returns its exit code.
func (p *process) end() int {
	p.t.Helper()
	p.signal(syscall.SIGTERM)
	return p.await()
}

func (p *process) await() int {
	p.t.Helper()
	select {
	case <-p.exited:
	case <-time.After(kit.Limit):
		p.t.Fatalf("rehop has not ended within %v", kit.Limit)
	}
	return p.ProcessState.ExitCode()
}

// anyPort are the flags for a broker of its own.
func anyPort(more ...string) []string {
	return append([]string{"up", "--listen-amqp", "127.0.0.1:0", "--listen-management", "none"}, more...)
}

// write writes a file of flows.
func write(t testing.TB, text string, args ...any) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "rehop.yaml")
	rewrite(t, path, text, args...)
	return path
}

func rewrite(t testing.TB, path, text string, args ...any) {
	t.Helper()
	if err := os.WriteFile(path, fmt.Appendf(nil, text, args...), 0o600); err != nil {
		t.Fatal(err)
	}
}

// dial is a channel with confirms.
func dial(t testing.TB, url string) *amqp.Channel {
	t.Helper()
	conn, err := amqp.Dial(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	ch, err := conn.Channel()
	if err == nil {
		err = ch.Confirm(false)
	}
	if err != nil {
		t.Fatal(err)
	}
	return ch
}

// publish sends messages with these ids to a queue, and waits for all confirms.
func publish(t testing.TB, ch *amqp.Channel, queue string, ids []string, body []byte) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), kit.Limit)
	defer cancel()
	var confirms []*amqp.DeferredConfirmation
	for i, id := range ids {
		c, err := ch.PublishWithDeferredConfirmWithContext(ctx, "", queue, true, false,
			amqp.Publishing{MessageId: id, Body: body, DeliveryMode: amqp.Persistent, ContentType: "application/json"})
		if err != nil {
			t.Fatal(err)
		}
		confirms = append(confirms, c)
		if len(confirms) < 200 && i < len(ids)-1 {
			continue
		}
		for _, c := range confirms {
			if ok, err := c.WaitContext(ctx); err != nil || !ok {
				t.Fatalf("a message was not confirmed: %t, %v", ok, err)
			}
		}
		confirms = confirms[:0]
	}
}

// depth is how many messages are ready in a queue.
func depth(t testing.TB, ch *amqp.Channel, queue string) int {
	t.Helper()
	q, err := ch.QueueDeclarePassive(queue, true, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	return q.Messages
}
