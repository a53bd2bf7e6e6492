package binary

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
)

// TestExampleEndpoint runs examples/notify: an endpoint in Python behind rehop up.
func TestExampleEndpoint(t *testing.T) {
	dir := filepath.Join("..", "..", "examples", "notify")
	lines, url := python(t, filepath.Join(dir, "notify.py"), "0")
	text, err := os.ReadFile(filepath.Join(dir, "rehop.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	flows := strings.Replace(string(text), "http://127.0.0.1:8000/orders", url, 1)
	if flows == string(text) {
		t.Fatal("examples/notify/rehop.yaml does not name the endpoint's address")
	}
	p := up(t, anyPort("--memory", write(t, "%s", flows))...)
	ch := dial(t, p.AMQP)
	for _, body := range []string{`{"number": 7, "email": "ada@example.com"}`, `{"number": 8}`} {
		err := ch.PublishWithContext(t.Context(), "orders", "order.placed", true, false, amqp.Publishing{Body: []byte(body), ContentType: "application/json"})
		if err != nil {
			t.Fatal(err)
		}
	}
	if got, want := lines(), "order 7: notified ada@example.com"; got != want {
		t.Errorf("the endpoint printed %q, want %q", got, want)
	}
	failed, err := ch.Consume("notify.failed", "", true, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	if m := <-failed; string(m.Body) != `{"number": 8}` {
		t.Errorf("failed: %s, want the order without an email address", m.Body)
	}
	if code := p.end(); code != 0 {
		t.Errorf("rehop up ended with %d, want 0", code)
	}
}

// python runs a program that prints its address first. It returns a function that waits for the next line, and the address.
func python(t *testing.T, program string, args ...string) (next func() string, url string) {
	t.Helper()
	cmd := exec.Command("python3", append([]string{program}, args...)...)
	cmd.Stderr = t.Output()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	lines := bufio.NewReader(out)
	next = func() string {
		t.Helper()
		line, err := lines.ReadString('\n')
		if err != nil && err != io.EOF {
			t.Fatal(err)
		}
		return strings.TrimSpace(line)
	}
	return next, strings.TrimPrefix(next(), "listening on ")
}
