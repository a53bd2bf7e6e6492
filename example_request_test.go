package rehop_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/broker"
)

// GetPrice asks for a price, and Price is the reply to it.
var (
	GetPrice = rehop.Event[string]{Key: "prices", Type: "price.get.v1"}
	Price    = rehop.Event[int]{Type: "price.v1"}
)

// Request sends a message and waits for the reply that a handler sends with Reply.
func ExampleClient_Request() {
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

	request, err := GetPrice.Message("tea")
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = client.Request(ctx, request)
	fmt.Println("nobody is there:", errors.Is(err, rehop.ErrUnroutable))

	_, err = client.Subscribe(ctx, rehop.Subscriber{
		Queue: GetPrice.Key,
		Handler: GetPrice.Handler(func(ctx context.Context, item string) error {
			reply, err := Price.Message(len(item) * 100)
			if err != nil {
				return err
			}
			return client.Reply(ctx, reply)
		}),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	reply, err := client.Request(ctx, request)
	if err != nil {
		fmt.Println(err)
		return
	}
	price, err := Price.Decode(reply)
	fmt.Println("price:", price, err)
	// Output:
	// nobody is there: true
	// price: 300 <nil>
}
