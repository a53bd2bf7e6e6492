//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// running is a process of rehop up with --ready-file ready.
type running struct {
	*exec.Cmd
	t      *testing.T
	output bytes.Buffer // complete when it has ended
	ended  chan error
	amqp   string // the address of its broker
}

// startUp starts a process, and waits until it is ready.
func startUp(t *testing.T, up *exec.Cmd) *running {
	t.Helper()
	r := &running{Cmd: up, t: t, ended: make(chan error, 1)}
	up.Stdout, up.Stderr = &r.output, &r.output
	if err := up.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { r.ended <- up.Wait() }()
	var report struct{ AMQP string }
	r.until("rehop to be ready", func() bool {
		text, err := os.ReadFile(filepath.Join(up.Dir, "ready"))
		return err == nil && json.Unmarshal(text, &report) == nil
	})
	r.amqp = report.AMQP
	return r
}

// until waits for something that happens while the process runs.
func (r *running) until(what string, is func() bool) {
	r.t.Helper()
	for tick := time.Tick(20 * time.Millisecond); !is(); {
		select {
		case <-tick:
		case err := <-r.ended:
			r.t.Fatalf("waiting for %s: rehop has ended: %v\n%s", what, err, &r.output)
		}
	}
}
