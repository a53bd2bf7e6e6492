package crashes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/rehop/rehop/internal/node"
	"github.com/rehop/rehop/internal/node/store"
)

// brokerRole is the variable by which this test binary knows that it is to be the broker.
const brokerRole = "REHOP_CRASHES_BROKER"

// orders are what the broker's process is told.
type orders struct {
	Dir         string
	Addr        string
	SegmentSize int64
	DiskReserve int64
	// Point is where the process is to exit, at the Hit-th time it comes by. Empty: nowhere.
	Point string
	Hit   int64
}

// How the broker's process ends, and what it writes when it serves.
const (
	exitStopped = 0
	exitFailed  = 1
	exitAtPoint = 3
	ready       = "ready\n"
)

// beBroker is the main function of the broker's process.
func beBroker(text string) int {
	var o orders
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		fmt.Fprintln(os.Stderr, "orders of the broker:", err)
		return exitFailed
	}
	go func() { // who gave the orders holds the other end
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(exitFailed)
	}()
	if err := o.serve(); err != nil {
		fmt.Fprintln(os.Stderr, "broker:", err)
		return exitFailed
	}
	return exitStopped
}

func (o orders) serve() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	n, err := node.Open(node.Config{
		Dir: o.Dir, Store: store.Options{SegmentSize: o.SegmentSize, DiskReserve: o.DiskReserve, Crash: o.pass()},
		Name: "crashes", Version: node.RabbitMQ310.Release(),
		Users: []node.User{{Name: "guest", Password: "guest", Tags: []string{"administrator"}, LoopbackOnly: true,
			Permissions: map[string]node.Permission{"*": node.Everything()}}},
		FrameMax: 128 << 10, ChannelMax: 2047, Heartbeat: time.Minute, HandshakeLimit: 10 * time.Second, MaxMessage: 16 << 20,
		MemoryLimit: 1 << 30, Resident: 1 << 20, // so little that messages are read back from disk
		Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	if err != nil {
		return err
	}
	ln, err := net.Listen("tcp", o.Addr)
	if err != nil {
		return errors.Join(err, n.Close())
	}
	if _, err := os.Stdout.WriteString(ready); err != nil {
		return errors.Join(err, n.Close())
	}
	if err := n.Serve(ctx, ln); ctx.Err() == nil {
		return errors.Join(err, n.Close())
	}
	return n.Close()
}

// pass is called at each point of the log. It ends the process at the one that was ordered, with nothing in between.
func (o orders) pass() func(string) {
	if o.Point == "" {
		return nil
	}
	var hits atomic.Int64
	return func(point string) {
		if point == o.Point && hits.Add(1) == o.Hit {
			os.Exit(exitAtPoint)
		}
	}
}
