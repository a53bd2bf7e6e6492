package rehop_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/broker"
)

// PublishAsync sends without waiting for the confirm of each message, so that one goroutine can publish
// many. The outcomes are looked at later.
func ExampleClient_PublishAsync() {
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

	_, err = client.Subscribe(ctx, rehop.Subscriber{Queue: "mail", Exchange: "orders", Keys: []string{"order.*"},
		Handler: rehop.HandlerFunc(func(context.Context, *rehop.Delivery) error { return nil })})
	if err != nil {
		fmt.Println(err)
		return
	}
	keys := []string{"order.placed", "order.paid", "stock"}
	var sent []*rehop.Confirmation
	for _, key := range keys {
		sent = append(sent, client.PublishAsync(ctx, rehop.Message{Exchange: "orders", Key: key}))
	}
	for i, c := range sent {
		err := c.Wait(ctx)
		fmt.Printf("%s: confirmed: %t, unroutable: %t\n", keys[i], err == nil, errors.Is(err, rehop.ErrUnroutable))
	}
	// Output:
	// order.placed: confirmed: true, unroutable: false
	// order.paid: confirmed: true, unroutable: false
	// stock: confirmed: false, unroutable: true
}
