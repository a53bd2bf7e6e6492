package rehop_test

import (
	"context"
	"fmt"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/broker"
)

// An API allows ten calls per second, and three at once after a pause. Messages wait for their turn
// unacked, and their handlers have their whole Timeout from then on.
func Example_rate() {
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

	called := make(chan time.Time)
	_, err = client.Subscribe(ctx, rehop.Subscriber{
		Queue: "calls",
		Rate:  10,
		Burst: 3,
		Handler: rehop.HandlerFunc(func(context.Context, *rehop.Delivery) error {
			called <- time.Now()
			return nil
		}),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 6 {
		if err := client.Publish(ctx, rehop.Message{Key: "calls"}); err != nil {
			fmt.Println(err)
			return
		}
	}
	first := <-called
	last := first
	for range 5 {
		last = <-called
	}
	fmt.Println("three at once, and three within the rate:", last.Sub(first) >= 300*time.Millisecond)
	// Output:
	// three at once, and three within the rate: true
}
