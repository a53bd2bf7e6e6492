//go:build unix

package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// A service can be asked to reload as soon as it runs: SIGHUP does not end it while it reads its file for the first time, and the file is
// read again. The file is a pipe here, so that the service waits for its content.
func TestHangupAtTheStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	pipe := filepath.Join(dir, "flows.yaml")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	up := exec.CommandContext(t.Context(), path, "up", "flows.yaml", "--no-follow", "--memory", "--listen-amqp", "none", "--listen-management", "none", "--listen-http", "none", "--ready-file", "ready")
	up.Args[0] = "rehop" // see TestMain
	var output bytes.Buffer
	up.Dir, up.Env, up.Stdout, up.Stderr = dir, append(os.Environ(), "REHOP_BROKER=", "GORACE=atexit_sleep_ms=0"), &output, &output
	if err := up.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- up.Wait() }()
	file, err := os.OpenFile(pipe, os.O_WRONLY, 0) // waits until the service reads
	if err != nil {
		t.Fatal(err)
	}
	const text = "flows: {}\n"
	if err := os.WriteFile(pipe+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(pipe+".new", pipe); err != nil {
		t.Fatal(err)
	}
	if err := up.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	_, _ = file.WriteString(text) // fails if the service has ended
	_ = file.Close()
	for tick := time.Tick(5 * time.Millisecond); ; {
		if _, err := os.Stat(filepath.Join(dir, "ready")); err == nil {
			break
		}
		select {
		case <-tick:
		case err := <-ended:
			t.Fatalf("the service has ended: %v\n%s", err, &output)
		}
	}
	if err := up.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("got %v, want the exit code 0\n%s", err, &output)
	}
}
