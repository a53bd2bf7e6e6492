package rehop_test

import (
	"context"
	"fmt"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/broker"
)

// OrderV2 is an order of the second version: it can have several buyers.
type OrderV2 struct {
	Number int      `json:"number"`
	Buyers []string `json:"buyers"`
}

// OrderPlacedV2 has the exchange and the key of the first version, and a type of its own.
var OrderPlacedV2 = rehop.Event[OrderV2]{Exchange: "orders", Key: "order.placed", Type: "order.placed.v2"}

// A mux calls the handler for the type of a message, so that one queue can have messages of several
// types and versions. While publishers are upgraded, both versions are handled.
func ExampleMux() {
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

	lines := make(chan string)
	mux := &rehop.Mux{
		NotFound: rehop.HandlerFunc(func(ctx context.Context, d *rehop.Delivery) error {
			lines <- "unknown: " + d.Type
			return rehop.Discard(nil)
		}),
	}
	OrderPlaced.Register(mux, func(ctx context.Context, o Order) error {
		lines <- fmt.Sprintf("v1: order %d of %s", o.Number, o.Buyer)
		return nil
	})
	OrderPlacedV2.Register(mux, func(ctx context.Context, o OrderV2) error {
		lines <- fmt.Sprintf("v2: order %d of %s", o.Number, o.Buyers)
		return nil
	})
	mux.HandleKey("order.#", rehop.HandlerFunc(func(ctx context.Context, d *rehop.Delivery) error {
		lines <- "another event of an order: " + d.Key
		return nil
	}))
	_, err = client.Subscribe(ctx, rehop.Subscriber{Queue: "mail", Exchange: "orders", Keys: []string{"#"}, Handler: mux})
	if err != nil {
		fmt.Println(err)
		return
	}

	for _, publish := range []func() error{
		func() error { return OrderPlaced.Publish(ctx, client, Order{Number: 7, Buyer: "Ada"}) },
		func() error {
			return OrderPlacedV2.Publish(ctx, client, OrderV2{Number: 8, Buyers: []string{"Ada", "Bob"}})
		},
		func() error { return client.Publish(ctx, rehop.Message{Exchange: "orders", Key: "order.paid"}) },
		func() error {
			return client.Publish(ctx, rehop.Message{Exchange: "orders", Key: "stock", Type: "stock.low.v1"})
		},
	} {
		if err := publish(); err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(<-lines)
	}
	// Output:
	// v1: order 7 of Ada
	// v2: order 8 of [Ada Bob]
	// another event of an order: order.paid
	// unknown: stock.low.v1
}
