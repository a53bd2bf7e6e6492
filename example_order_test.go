package rehop_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/broker"
)

// Events of an order are handled in their order. When one fails, those of the same order wait for its retry, and
// other orders do not.
func Example_order() {
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

	handled := make(chan string)
	_, err = client.Subscribe(ctx, rehop.Subscriber{
		Queue:   "order-events",
		OrderBy: func(d *rehop.Delivery) string { return d.Type },
		Retry:   rehop.Steps(200 * time.Millisecond),
		Handler: rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
			if string(d.Body) == "placed" && d.Type == "order 1" && d.Attempt == 1 {
				return errors.New("the database is busy")
			}
			handled <- d.Type + " " + string(d.Body)
			return nil
		}),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, event := range []string{"placed", "paid"} {
		for _, order := range []string{"order 1", "order 2"} {
			if err := client.Publish(ctx, rehop.Message{Key: "order-events", Type: order, Body: []byte(event)}); err != nil {
				fmt.Println(err)
				return
			}
		}
	}
	for range 4 {
		fmt.Println(<-handled)
	}
	// Output:
	// order 2 placed
	// order 2 paid
	// order 1 placed
	// order 1 paid
}
