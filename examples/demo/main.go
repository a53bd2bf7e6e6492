// Command demo shows the life of a message: it is published and confirmed, fails, waits, comes back to its own queue, fails for good,
// rests, and is replayed. The broker is a part of this program; with -url it is a RabbitMQ.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync/atomic"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/broker"
)

var silent = slog.New(slog.DiscardHandler)

func main() {
	url := flag.String("url", "", "a RabbitMQ, as in amqp://guest:guest@localhost/ (default: a broker within this program)")
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := run(ctx, *url); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// dial opens connections to a broker.
type dial func(ctx context.Context, network, addr string) (net.Conn, error)

func run(ctx context.Context, url string) (err error) {
	if url != "" {
		return show(ctx, url, nil)
	}
	server := &broker.Server{Logger: silent}
	defer func() { err = errors.Join(err, server.Close()) }()
	return show(ctx, "", server.Dial)
}

func show(ctx context.Context, url string, connect dial) error {
	began := time.Now()
	say := func(format string, args ...any) {
		fmt.Printf("%5.2fs  %s\n", time.Since(began).Seconds(), fmt.Sprintf(format, args...))
	}
	failed := make(chan string, 1)
	client, err := rehop.Open(ctx, rehop.Config{URL: url, Dial: connect, Hooks: []rehop.Hook{&narrator{say: say, failed: failed}}, Logger: silent})
	if err != nil {
		return err
	}
	defer client.Close(ctx)

	var mended atomic.Bool
	done := make(chan struct{})
	_, err = client.Subscribe(ctx, rehop.Subscription{
		Queue: "demo-summary", Exchange: "demo", Keys: []string{"order.#"}, Concurrency: 4,
		Retry: rehop.Steps(500*time.Millisecond, time.Second),
		Handler: rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
			say("handle   %s, attempt %d of %d, replayed %d times", d.Key, d.Attempt, d.Attempts, d.Replays)
			if !mended.Load() {
				return errors.New("the database is read-only")
			}
			close(done)
			return nil
		}),
	})
	if err != nil {
		return err
	}
	if err := client.Publish(ctx, rehop.Message{Exchange: "demo", Key: "order.created", Body: []byte(`{"number": 7}`)}); err != nil {
		return err
	}
	say("publish  confirmed and routed")
	if err := client.Publish(ctx, rehop.Message{Exchange: "demo", Key: "customer.moved"}); errors.Is(err, rehop.ErrUnroutable) {
		say("publish  a message that nobody is bound for is an error: unroutable")
	}
	<-failed

	desk, err := admin.Open(ctx, admin.Config{URL: url, Dial: connect})
	if err != nil {
		return err
	}
	defer desk.Close()
	messages, err := desk.Failed(ctx, "demo-summary", 10, admin.Filter{})
	if err != nil {
		return err
	}
	for _, m := range messages {
		say("failed   %s: %s, %d attempts, last %q", m.Queue, m.Key, m.Attempts, m.Error)
	}
	mended.Store(true)
	say("mend     the database is writable again")
	progress, err := desk.Replay(ctx, "demo-summary", admin.Options{})
	if err != nil {
		return err
	}
	say("replay   %d message", progress.Done)
	<-done
	return nil
}

// narrator tells what becomes of each delivery.
type narrator struct {
	say    func(format string, args ...any)
	failed chan<- string
}

// OnHandled is called when the broker has a delivery's outcome safely.
func (n *narrator) OnHandled(_ context.Context, d *rehop.Delivery, r rehop.Result) {
	switch r.Outcome {
	case rehop.OutcomeRetry:
		n.say("wait     %v on the broker, because %v", r.Delay, r.Err)
	case rehop.OutcomeFailed:
		n.say("rest     in the failed queue")
		n.failed <- d.ID
	case rehop.OutcomeDone:
		n.say("done")
	}
}
