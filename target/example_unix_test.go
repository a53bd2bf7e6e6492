//go:build unix

package target_test

import (
	"context"
	"fmt"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/broker"
	"github.com/rehop/rehop/target"
)

// A program handles each message. It exits with 3 for an order that it does not know, and such messages go to the failed queue.
func ExampleCommand() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	results := make(chan rehop.Result)
	server := &broker.Server{} // or RabbitMQ: then set Config.URL instead of Dial
	defer server.Close()
	client, err := rehop.Open(ctx, rehop.Config{Dial: server.Dial, Hooks: []rehop.Hooks{{
		OnResult: func(_ context.Context, _ *rehop.Delivery, r rehop.Result) { results <- r },
	}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close(context.Background())

	program := &target.Command{
		Path:     "sh",
		Args:     []string{"-c", `read order; test "$order" = 7 || { echo "unknown order $order, key $REHOP_KEY"; exit 3; }`},
		Outcomes: map[int]target.Outcome{3: target.Failed},
	}
	if _, err := client.Subscribe(ctx, rehop.Subscriber{Queue: "orders", Exchange: "order", Handler: program}); err != nil {
		fmt.Println(err)
		return
	}
	for _, order := range []string{"7\n", "8\n"} {
		if err := client.Publish(ctx, rehop.Message{Exchange: "order", Key: "order.created", Body: []byte(order)}); err != nil {
			fmt.Println(err)
			return
		}
		r := <-results
		fmt.Println(r.Outcome, r.Err)
	}
	// Output:
	// done <nil>
	// failed run sh: exit status 3: unknown order 8, key order.created
}
