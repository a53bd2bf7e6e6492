package binary

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
)

// When the disk of the embedded broker fails, rehop up ends with an error, so that a supervisor starts it again.
func TestFailedDiskEndsProcess(t *testing.T) {
	if _, err := exec.LookPath("strace"); err != nil {
		lab.Lack(t, "errors of the disk are injected by strace, run scripts/services up clients: %v", err)
	}
	data := filepath.Join(t.TempDir(), "data")
	args := anyPort("--data", data, "--listen-http", "127.0.0.1:0", write(t, "flows: {}\n"))
	trace := filepath.Join(t.TempDir(), "trace")
	// Syncs fail after the first ones of each thread, which are those of the start. The tracer is not the parent, so that its child's exit code is ours.
	cmd := exec.Command("strace", append([]string{"-D", "-f", "-qq", "-o", trace, "-e", "trace=fdatasync",
		"-e", "inject=fdatasync:error=EIO:when=10+", kit.Program(t), "--json"}, args...)...)
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "REHOP_BROKER=", "REHOP_MANAGEMENT=")
	p := launch(t, cmd)
	r, ok := <-p.ready
	if !ok {
		<-p.exited
		t.Fatalf("rehop up has ended before it was ready: %v", p.err)
	}
	conn, err := amqp.Dial(r.AMQP)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err == nil {
		err = ch.Confirm(false)
	}
	if err == nil {
		_, err = ch.QueueDeclare("q", true, false, false, false, amqp.Table{"x-queue-type": "quorum"})
	}
	if err != nil {
		t.Fatal(err)
	}
	for confirmed := true; confirmed; {
		c, err := ch.PublishWithDeferredConfirmWithContext(t.Context(), "", "q", true, false, amqp.Publishing{DeliveryMode: amqp.Persistent})
		if err != nil {
			break // the process has ended
		}
		select {
		case <-c.Done():
			confirmed = c.Acked()
		case <-p.exited:
			confirmed = false
		}
	}
	if code := p.await(); code != 1 {
		t.Errorf("rehop up ended with %d, want 1", code)
	}
	if log := p.log.String(); !strings.Contains(log, data) || !strings.Contains(log, "input/output error") {
		t.Errorf("the log does not name the directory and the error:\n%s", log)
	}
	if text, err := os.ReadFile(trace); err != nil || !strings.Contains(string(text), "INJECTED") {
		t.Errorf("inconclusive: no sync has failed: %v", err)
	}
}
