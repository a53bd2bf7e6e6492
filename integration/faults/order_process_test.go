package faults

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/internal/conformance/inorder"
)

// orderedRole is the variable by which this test binary knows that it is to handle messages in order by key.
const orderedRole = "REHOP_FAULTS_ORDERED_CHILD"

// orderedOrders are the instructions of a child that handles messages in order by key.
type orderedOrders struct {
	URLs   []string
	Script inorder.Script
	Name   string
}

// handleOrdered handles messages until its input ends, and writes its history to its output.
func handleOrdered() error {
	var o orderedOrders
	if err := ordersOf(orderedRole, &o); err != nil {
		return err
	}
	ctx := context.Background()
	lines := inorder.NewLines(os.Stdout)
	p := inorder.Process{Script: o.Script, Name: o.Name, Recorder: lines}
	client, err := rehop.Open(ctx, rehop.Config{URLs: o.URLs, Name: o.Name, Hooks: []rehop.Hooks{p.Hooks()}, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	if err := p.Subscribe(ctx, client); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	if err := client.Close(ctx); err != nil {
		return err
	}
	return lines.Err()
}

// spawn starts a child that handles messages in order by key, and returns its name.
func (x *orderTrial) spawn() (string, *worker) {
	x.t.Helper()
	x.joined++
	name := fmt.Sprint("process ", x.joined)
	w, err := startWorker(orderedRole, orderedOrders{x.rabbit.URLs, x.Script, name}, x.History.Import)
	if err != nil {
		x.t.Fatal(err)
	}
	return name, w
}

// killProcess kills processes with kill -9 while they handle messages.
func (x *orderTrial) killProcess() {
	children := make(map[string]*worker)
	x.t.Cleanup(func() {
		for _, p := range children {
			_ = p.cmd.Process.Kill()
			_, _ = p.wait()
		}
	})
	x.Elsewhere = func() {
		for name, p := range children {
			delete(children, name)
			_ = p.input.Close()
			if err := errors.Join(p.wait()); err != nil {
				x.t.Errorf("%s: %v", name, err)
			}
		}
	}
	spawn := func() {
		name, p := x.spawn()
		children[name] = p
	}
	x.Start(x.ctx)
	spawn()
	spawn()
	x.Run(x.ctx, 400+x.random.IntN(200))
	for range times(3, 40) {
		name := x.Handles(x.ctx, 1+x.random.IntN(50))
		x.strike(name, "process killed", func() {
			p := children[name]
			delete(children, name)
			if err := p.cmd.Process.Kill(); err != nil {
				x.t.Fatal(err)
			}
			if history, err := p.wait(); history != nil || err == nil {
				x.t.Errorf("%s was killed: got %v, and its history %v", name, err, history)
			}
			x.History.Record(inorder.Event{Kind: inorder.Killed, Process: name})
			spawn()
		})
	}
}
