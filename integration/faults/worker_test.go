package faults

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
)

// worker is a process of this test binary with a role of its own, which writes its history to its output. It ends when its
// input does.
type worker struct {
	cmd   *exec.Cmd
	input io.WriteCloser
	read  chan error // one value: how reading its history ended
}

// startWorker starts a process whose role is the name of the variable with its orders.
func startWorker(role string, orders any, read func(io.Reader) error) (*worker, error) {
	text, err := json.Marshal(orders)
	if err != nil {
		return nil, fmt.Errorf("orders of a process: %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	w := &worker{cmd: exec.Command(self), read: make(chan error, 1)}
	w.cmd.Env, w.cmd.Stderr = append(os.Environ(), role+"="+string(text)), os.Stderr
	if w.input, err = w.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	output, err := w.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := w.cmd.Start(); err != nil {
		return nil, err
	}
	go func() { w.read <- read(output) }()
	return w, nil
}

// ordersOf reads the orders of this process.
func ordersOf(role string, orders any) error {
	if err := json.Unmarshal([]byte(os.Getenv(role)), orders); err != nil {
		return fmt.Errorf("orders in %s: %w", role, err)
	}
	return nil
}

// wait returns when the process has ended, and all that it had written is in the history.
func (w *worker) wait() (history, process error) {
	history = <-w.read
	return history, w.cmd.Wait()
}
