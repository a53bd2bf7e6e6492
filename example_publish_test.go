package rehop_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/broker"
)

// Publish returns nil only when the broker has confirmed that the message is in a queue. Everything
// else is an error with the reason.
func Example_publish() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	server := &broker.Server{} // or a RabbitMQ: then Config has its URL, and no Dial
	defer server.Close()
	client, err := rehop.Open(ctx, rehop.Config{
		Dial:      server.Dial,
		Exchanges: []rehop.Exchange{{Name: "shop"}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close(context.Background())

	err = client.Publish(ctx, rehop.Message{Exchange: "shop", Key: "order.created", Body: []byte("{}")})
	if errors.Is(err, rehop.ErrUnroutable) {
		fmt.Println("nobody listens yet")
	}

	sub, err := client.Subscribe(ctx, rehop.Subscriber{Queue: "shop-mail", Exchange: "shop", Keys: []string{"order.*"},
		Handler: rehop.HandlerFunc(func(context.Context, *rehop.Delivery) error { return nil })})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer sub.Stop()

	err = client.Publish(ctx, rehop.Message{Exchange: "shop", Key: "order.created", Body: []byte("{}")})
	fmt.Println("confirmed and routed:", err == nil)

	err = client.PublishBatch(ctx, []rehop.Message{
		{Exchange: "shop", Key: "order.paid"},
		{Exchange: "shop", Key: "customer.moved"},
	})
	var batch *rehop.BatchError
	if errors.As(err, &batch) {
		for i, err := range batch.Errors {
			fmt.Printf("message %d: unroutable: %t\n", i, errors.Is(err, rehop.ErrUnroutable))
		}
	}
	// Output:
	// nobody listens yet
	// confirmed and routed: true
	// message 0: unroutable: false
	// message 1: unroutable: true
}
