package rehop_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/broker"
)

// A batch handles many messages with one call, for example to write them to a database with one
// statement. Each message can have its own outcome.
func ExampleBatch() {
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

	rows := make(chan Order, 4)
	_, err = client.Subscribe(ctx, rehop.Subscriber{
		Queue: "order-report", Exchange: OrderPlaced.Exchange, Keys: []string{OrderPlaced.Key},
		Batch: rehop.Batch{
			Size: 100, Wait: 100 * time.Millisecond,
			Handle: OrderPlaced.BatchHandler(func(ctx context.Context, orders []Order, all []*rehop.Delivery) error {
				outcome := &rehop.BatchError{Errors: make([]error, len(orders))}
				for i, o := range orders {
					if o.Buyer == "" {
						outcome.Errors[i] = rehop.Permanent(errors.New("the order has no buyer"))
						continue
					}
					rows <- o // here: add the order to the statement
				}
				return outcome
			}),
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for i, buyer := range []string{"Ada", "", "Grace"} {
		if err := OrderPlaced.Publish(ctx, client, Order{Number: i + 1, Buyer: buyer}); err != nil {
			fmt.Println(err)
			return
		}
	}
	fmt.Printf("%+v\n", <-rows)
	fmt.Printf("%+v\n", <-rows)
	// Output:
	// {Number:1 Buyer:Ada}
	// {Number:3 Buyer:Grace}
}
