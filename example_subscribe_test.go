package rehop_test

import (
	"context"
	"fmt"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/broker"
)

// A subscription handles messages with bounded concurrency. Drain lets what was received finish.
func Example_subscribe() {
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

	handled := make(chan string, 1)
	sub, err := client.Subscribe(ctx, rehop.Subscriber{
		Queue: "invoices", Exchange: "billing", Keys: []string{"invoice.#"},
		Concurrency: 8, Timeout: time.Minute,
		Handler: rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
			handled <- fmt.Sprintf("%s from %s: %s", d.Key, d.Exchange, d.Body)
			return nil
		}),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	err = client.Publish(ctx, rehop.Message{Exchange: "billing", Key: "invoice.sent", Body: []byte("no. 7")})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(<-handled)
	fmt.Println("drained:", sub.Drain(ctx))
	// Output:
	// invoice.sent from billing: no. 7
	// drained: <nil>
}
