//go:build unix

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/admin"
)

// goName matches names of Go code: two words in one, or with a dot between them. Names of products and of AMQP are none.
var (
	goName   = regexp.MustCompile(`\*?\b[a-z]+\.[A-Z]\w*|\b[A-Za-z][a-z]+[A-Z]\w*|\bfunc\b|%!`)
	products = strings.NewReplacer("RabbitMQ", "", "OpenID", "", "OpenTelemetry", "")
)

// Thousands of failures do not fill the disk: the log grows with the number of causes and with time, and not with the number of messages, however long the
// answers of an endpoint are. It has no names of Go code.
func TestLogOfManyFailures(t *testing.T) {
	t.Parallel()
	const (
		messages = 2000
		longest  = 1 << 10 // bytes of a line
	)
	endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.URL.Path == "/same" {
			http.Error(w, "no customer for order "+string(body)+strings.Repeat(" and more", 1000), http.StatusServiceUnavailable)
			return
		}
		http.Error(w, "no customer "+string(body)+strings.Repeat(" and more", 1000), http.StatusBadRequest)
	}))
	defer endpoint.Close()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	up := exec.CommandContext(t.Context(), path, "up", "--no-follow", "--memory", "--listen-amqp", "127.0.0.1:0", "--listen-management", "none", "--listen-http", "none", "--ready-file", "ready")
	up.Args[0] = "rehop" // see TestMain
	up.Dir, up.Env = t.TempDir(), append(os.Environ(), "REHOP_BROKER=", "GORACE=atexit_sleep_ms=0")
	text := fmt.Sprintf("flows:\n  same: {keys: [same], exchange: order, retry: [1s], concurrency: 32, target: {http: '%[1]s/same'}}\n"+
		"  varied: {keys: [varied], exchange: order, concurrency: 32, target: {http: '%[1]s/varied'}}\n", endpoint.URL)
	if err := os.WriteFile(filepath.Join(up.Dir, "rehop.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	process := startUp(t, up)
	failBoth(t, process.amqp, messages, process.until)
	if err := up.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := <-process.ended; err != nil {
		t.Errorf("got %v, want the exit code 0", err)
	}

	// What is logged of each kind of failure: 5 records, then one per period. 200 kinds are counted separately, and are forgotten after a period, which is
	// at least 10 s.
	periods := int(time.Since(began)/(10*time.Second)) + 1
	lines := strings.Split(strings.TrimSpace(process.output.String()), "\n")
	failures := map[string]int{}
	for _, line := range lines {
		var record struct{ Msg, Err, Queue string }
		if err := json.Unmarshal([]byte(line), &record); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		failures[record.Queue]++
		if len(line) > longest {
			t.Errorf("a line of %d bytes, want at most %d: %.2000s", len(line), longest, line)
		}
		if name := goName.FindString(products.Replace(record.Msg + " " + record.Err)); name != "" {
			t.Errorf("the log has %q: %.2000s", name, line)
		}
	}
	for queue, most := range map[string]int{"same": 2 * (5 + periods), "varied": (200 + 5 + 2) * periods, "": 50} {
		if n := failures[queue]; n > most || n == 0 {
			t.Errorf("queue %q: got %d lines, want at least one and at most %d", queue, n, most)
		}
	}
	t.Logf("%d failed messages: %d lines, %d bytes, %v", 2*messages, len(lines), process.output.Len(), failures)
}

// failBoth publishes messages to both flows, and waits until they have failed.
func failBoth(t *testing.T, at string, messages int, until func(string, func() bool)) {
	t.Helper()
	client, err := rehop.Open(t.Context(), rehop.Config{URL: at})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close(context.WithoutCancel(t.Context()))
	var batch []rehop.Message
	for i := range messages {
		word := make([]byte, 12)
		for j := range word {
			word[j] = 'g' + byte(rand.IntN(16)) // digits of hexadecimal numbers would be taken for ids
		}
		batch = append(batch, rehop.Message{Exchange: "order", Key: "same", Body: fmt.Append(nil, i)}, rehop.Message{Exchange: "order", Key: "varied", Body: word})
	}
	if err := client.PublishBatch(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	desk, err := admin.Open(t.Context(), admin.Config{URL: at})
	if err != nil {
		t.Fatal(err)
	}
	defer desk.Close()
	for _, queue := range []string{"same", "varied"} {
		until("messages of "+queue+" to fail", func() bool {
			q, err := desk.Queue(t.Context(), queue)
			return err == nil && q.Failed == messages
		})
	}
}
