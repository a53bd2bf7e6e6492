//go:build unix

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rehop/rehop"
)

// When rehop is killed, and can do nothing any more, the programs of its flows are killed with all that they have started, unless that has
// left their process group. All of them hold a pipe for writing, whose end shows that none is left. rehop reads the output of a program when its second process knows of it, and
// the output is more than fits into a pipe unread.
func TestProgramsDieWithRehop(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	const script = `exec 3> pipe 0< /dev/null; sh -c "sleep 1000 & exec sleep 1000" & sleep 1000 & head -c 1000000 /dev/zero; echo $$ >&3; wait`
	text := "flows:\n  stuck: {keys: [k], exchange: order, target: {command: {run: [sh, -c, '" + script + "'], timeout: 1h}}, timeout: 2h}\n"
	if err := os.WriteFile(filepath.Join(dir, "rehop.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	up := exec.CommandContext(t.Context(), path, "up", "--no-follow", "--memory", "--listen-amqp", "127.0.0.1:0", "--listen-management", "none", "--listen-http", "none", "--ready-file", "ready")
	up.Args[0] = "rehop" // see TestMain
	up.Dir, up.Env = dir, append(os.Environ(), "REHOP_BROKER=", "GORACE=atexit_sleep_ms=0")
	r := startUp(t, up)
	client, err := rehop.Open(t.Context(), rehop.Config{URL: r.amqp})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		ended, end := context.WithCancel(t.Context())
		end()
		_ = client.Close(ended) // the broker has been killed
	}()
	if err := client.Publish(t.Context(), rehop.Message{Exchange: "order", Key: "k"}); err != nil {
		t.Fatal(err)
	}
	held, err := os.Open(pipe) // waits for the program
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	group := 0
	if _, err := fmt.Fscanln(held, &group); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(-group, syscall.SIGKILL) }) // nothing is left, unless the test fails
	if err := up.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = held.SetReadDeadline(time.Now().Add(2 * time.Minute))
	if rest, err := io.ReadAll(held); err != nil || len(rest) > 0 {
		t.Errorf("read the pipe: %q, %v", rest, err)
	}
	if err := <-r.ended; err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("rehop: got %v, want that it was killed", err)
	}
}
