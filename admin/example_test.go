package admin_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/broker"
	"github.com/rehop/rehop/broker/mgmt"
)

// openEmbedded starts an embedded broker with its management API, and connects to it. For RabbitMQ, only the URLs in admin.Config are needed.
func openEmbedded(ctx context.Context) (a *admin.Admin, server *broker.Server, stop func(), err error) {
	server = &broker.Server{Logger: slog.New(slog.DiscardHandler)}
	handler, err := mgmt.Handler(server)
	if err != nil {
		return nil, nil, nil, err
	}
	api := httptest.NewServer(handler)
	if a, err = admin.Open(ctx, admin.Config{Dial: server.Dial, Management: api.URL}); err != nil {
		return nil, nil, nil, err
	}
	return a, server, func() {
		a.Close()
		api.Close()
		server.Close()
	}, nil
}

// failOrders publishes two orders that fail, and returns when both are in the failed queue.
func failOrders(ctx context.Context, server *broker.Server) error {
	failed := make(chan struct{}, 2)
	client, err := rehop.Open(ctx, rehop.Config{Dial: server.Dial, Hooks: []rehop.Hooks{{
		OnResult: func(context.Context, *rehop.Delivery, rehop.Result) { failed <- struct{}{} },
	}}})
	if err != nil {
		return err
	}
	defer client.Close(ctx)
	_, err = client.Subscribe(ctx, rehop.Subscriber{
		Queue: "orders", Exchange: "shop", Retry: rehop.NoRetry(),
		Handler: rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
			if d.Key == "order.paid" {
				return rehop.Permanent(errors.New("no such customer"))
			}
			return errors.New("the mail server is down")
		}),
	})
	if err != nil {
		return err
	}
	for i, key := range []string{"order.created", "order.paid"} {
		if err := client.Publish(ctx, rehop.Message{ID: fmt.Sprint("m", i+1), Exchange: "shop", Key: key}); err != nil {
			return err
		}
		<-failed
	}
	return nil
}

// List the messages in the failed queue of a queue. They stay there.
func ExampleAdmin_Failed() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	a, server, stop, err := openEmbedded(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stop()
	if err := failOrders(ctx, server); err != nil {
		fmt.Println(err)
		return
	}

	messages, err := a.Failed(ctx, "orders", 100, admin.Filter{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, m := range messages {
		fmt.Printf("%s %s: %s: %s\n", m.ID, m.Key, m.Kind, m.Error)
	}
	// Output:
	// m1 order.created: error: the mail server is down
	// m2 order.paid: permanent: no such customer
}

// Return messages to their queue after you have fixed the cause, and leave the others in the failed queue.
func ExampleAdmin_Replay() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	a, server, stop, err := openEmbedded(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stop()
	if err := failOrders(ctx, server); err != nil {
		fmt.Println(err)
		return
	}

	progress, err := a.Replay(ctx, "orders", admin.Options{
		Filter: admin.Filter{Kinds: []rehop.Kind{rehop.KindError, rehop.KindTimeout}, Text: "mail server"},
		Rate:   100, // messages per second
	})
	fmt.Println(progress.Done, "replayed,", progress.Kept, "kept, error:", err)
	queue, err := a.Queue(ctx, "orders")
	fmt.Println(queue.Ready, "ready,", queue.Failed, "failed, error:", err)
	// Output:
	// 1 replayed, 1 kept, error: <nil>
	// 1 ready, 1 failed, error: <nil>
}

// Compare a plan with the broker, declare what is missing, and see what is left.
func ExampleAdmin_Apply() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	a, _, stop, err := openEmbedded(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stop()
	plan, err := rehop.Topology(rehop.Config{}, rehop.Subscriber{Queue: "orders", Exchange: "shop", Keys: []string{"order.*"}, Retry: rehop.NoRetry()})
	if err != nil {
		fmt.Println(err)
		return
	}

	diff, err := a.Diff(ctx, plan)
	fmt.Println("something is missing:", len(diff) > 0, err)
	done, err := a.Apply(ctx, plan, admin.ApplyOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, object := range done.Declared {
		if object.Name == "orders" || object.Name == "shop" {
			fmt.Println("declared", object)
		}
	}
	diff, err = a.Diff(ctx, plan)
	fmt.Println("something is missing:", len(diff) > 0, err)
	// Output:
	// something is missing: true <nil>
	// declared exchange "shop"
	// declared queue "orders"
	// declared binding of exchange "shop" to queue "orders" with key "order.*"
	// declared binding of exchange "rehop.return" to queue "orders" with key "orders"
	// something is missing: false <nil>
}

// Find settings and states of the broker that can lose or delay messages.
func ExampleAdmin_Doctor() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	a, server, stop, err := openEmbedded(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stop()
	if err := failOrders(ctx, server); err != nil {
		fmt.Println(err)
		return
	}

	findings, err := a.Doctor(ctx, admin.DoctorOptions{MaxFailed: 2})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, f := range findings.Above(admin.Info) {
		fmt.Printf("%s\n", f)
	}
	// Output:
	// warning: queue "orders.failed": it has 2 messages (queue.failed)
	//     a message in a failed queue has not been handled, and failed queues grow without limit
	//     fix: see why they failed (rehop failed ls), fix the cause, and replay or discard them
}
