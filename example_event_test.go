package rehop_test

import (
	"context"
	"fmt"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/broker"
)

// Order is a value that the examples publish.
type Order struct {
	Number int    `json:"number"`
	Buyer  string `json:"buyer"`
}

// OrderPlaced is declared once, for those who publish it and those who handle it.
var OrderPlaced = rehop.Event[Order]{Exchange: "orders", Key: "order.placed", Type: "order.placed.v1"}

// An event has values published and handled instead of bytes. A body that cannot be decoded is not
// retried: it goes to the failed queue at once, with the reason.
func ExampleEvent() {
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

	orders := make(chan Order, 1)
	failed := make(chan struct{})
	_, err = client.Subscribe(ctx, rehop.Subscriber{
		Queue: "order-summary", Exchange: OrderPlaced.Exchange, Keys: []string{OrderPlaced.Key},
		Middleware: []rehop.Middleware{func(next rehop.Handler) rehop.Handler {
			return rehop.HandlerFunc(func(ctx context.Context, d *rehop.Delivery) error {
				err := next.Handle(ctx, d)
				if err != nil {
					close(failed)
				}
				return err
			})
		}},
		Handler: OrderPlaced.Handler(func(ctx context.Context, o Order) error {
			orders <- o
			return nil
		}),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := OrderPlaced.Publish(ctx, client, Order{Number: 7, Buyer: "Ada"}); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%+v\n", <-orders)

	// A program in another language has made a mistake.
	bad := rehop.Message{Exchange: "orders", Key: "order.placed", Body: []byte(`{"number": "seven"}`)}
	if err := client.Publish(ctx, bad); err != nil {
		fmt.Println(err)
		return
	}
	<-failed
	if err := client.Close(ctx); err != nil { // waits until the message is in the failed queue
		fmt.Println(err)
	}
	operator, err := admin.Open(ctx, admin.Config{Dial: server.Dial})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer operator.Close()
	messages, err := operator.Failed(ctx, "order-summary", 10, admin.Filter{})
	for _, m := range messages {
		fmt.Println(m.Kind, m.Error)
	}
	fmt.Println(err)
	// Output:
	// {Number:7 Buyer:Ada}
	// decode decode body as rehop_test.Order: json: cannot unmarshal string into Go struct field Order.number of type int
	// <nil>
}
