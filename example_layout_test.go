package rehop_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/broker"
	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/layout"
)

// A fleet that was there before rehop has its own exchanges, queues and way to count failures. With its layout
// a rehop consumer declares the same and shares the queues; here that of Sneakers.
func Example_layout() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	server := &broker.Server{} // or a RabbitMQ: then Config has its URL, and no Dial
	defer server.Close()
	client, err := rehop.Open(ctx, rehop.Config{Dial: server.Dial})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close(context.Background())

	sneakers := layout.Sneakers{Delay: 200 * time.Millisecond, Retries: 1}
	repaired := make(chan struct{})
	_, err = client.Subscribe(ctx, rehop.Subscriber{
		Queue: "invoices", Layout: sneakers,
		Handler: rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
			fmt.Printf("%s: attempt %d of %d\n", d.Body, d.Attempt, d.MaxAttempts)
			if d.Replays > 0 {
				close(repaired)
				return nil
			}
			return errors.New("the printer is out of paper")
		}),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	err = client.Publish(ctx, rehop.Message{Exchange: layouts.SneakersExchange, Key: "invoices", Body: []byte("invoice 1")})
	if err != nil {
		fmt.Println(err)
		return
	}

	// Failed messages are in invoices-error, in the document that the fleet's own tools read.
	operator, err := admin.Open(ctx, admin.Config{Dial: server.Dial, Layout: sneakers})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer operator.Close()
	for {
		p, err := operator.Replay(ctx, "invoices", admin.Options{})
		if err != nil {
			fmt.Println(err)
			return
		}
		if p.Done == 1 {
			break
		}
	}
	<-repaired
	// Output:
	// invoice 1: attempt 1 of 2
	// invoice 1: attempt 2 of 2
	// invoice 1: attempt 1 of 2
}
