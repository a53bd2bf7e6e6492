package rehop_test

import (
	"context"
	"fmt"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/broker"
)

// OrderCreated is what publishers of the example send.
type OrderCreated struct {
	Number int    `json:"number"`
	Buyer  string `json:"buyer"`
}

// A typed handler gets the body decoded. A body that cannot be decoded is not retried: it goes to
// the failed queue at once, with the reason.
func Example_typedHandler() {
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

	orders := make(chan OrderCreated, 1)
	failed := make(chan struct{})
	_, err = client.Subscribe(ctx, rehop.Subscriber{
		Queue: "order-summary", Exchange: "orders",
		Middleware: []rehop.Middleware{func(next rehop.Handler) rehop.Handler {
			return rehop.HandlerFunc(func(ctx context.Context, d *rehop.Delivery) error {
				err := next.Handle(ctx, d)
				if err != nil {
					close(failed)
				}
				return err
			})
		}},
		Handler: rehop.JSON(func(ctx context.Context, o OrderCreated) error {
			orders <- o
			return nil
		}),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, body := range []string{`{"number": 7, "buyer": "Ada"}`, `{"number": "seven"}`} {
		if err := client.Publish(ctx, rehop.Message{Exchange: "orders", Key: "order.created", Body: []byte(body)}); err != nil {
			fmt.Println(err)
			return
		}
	}
	fmt.Printf("%+v\n", <-orders)
	<-failed
	if err := client.Close(ctx); err != nil { // waits until the broker has it
		fmt.Println(err)
	}

	desk, err := admin.Open(ctx, admin.Config{Dial: server.Dial})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer desk.Close()
	messages, err := desk.Failed(ctx, "order-summary", 10, admin.Filter{})
	for _, m := range messages {
		fmt.Println(m.Kind, m.Error)
	}
	fmt.Println(err)
	// Output:
	// {Number:7 Buyer:Ada}
	// decode decode body as rehop_test.OrderCreated: json: cannot unmarshal string into Go struct field OrderCreated.number of type int
	// <nil>
}
