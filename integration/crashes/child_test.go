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

	rehopbroker "github.com/rehop/rehop/broker"
	"github.com/rehop/rehop/broker/brokertest"
)

// brokerRole is the variable by which this test binary knows that it is to be the broker.
const brokerRole = "REHOP_CRASHES_BROKER"

// orders are the instructions of the broker's process.
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
	server := &rehopbroker.Server{
		Dir: o.Dir, DiskReserve: o.DiskReserve, Name: "crashes", Compat: rehopbroker.RabbitMQ310, ConsumerTimeout: -1,
		MemoryLimit: 1 << 30, MessageCache: 1 << 20, // so little that messages are read back from disk
		Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	}
	if _, err := brokertest.OpenWithLog(server, brokertest.Log{SegmentSize: o.SegmentSize, Reached: o.pass()}); err != nil {
		return err
	}
	ln, err := net.Listen("tcp", o.Addr)
	if err != nil {
		return errors.Join(err, server.Close())
	}
	if _, err := os.Stdout.WriteString(ready); err != nil {
		return errors.Join(err, server.Close())
	}
	if err := server.Serve(ctx, ln); ctx.Err() == nil {
		return errors.Join(err, server.Close())
	}
	return server.Close()
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
