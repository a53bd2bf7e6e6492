package rehoptest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/rehoptest"
)

// A test of what becomes of messages that a handler does not take. In a test, t is what the test was called with.
func ExampleOpen() {
	test := func(t testing.TB) {
		b := rehoptest.Open(t)
		_, err := b.Client.Subscribe(t.Context(), rehop.Subscriber{
			Queue: "orders", Exchange: "shop", Retry: rehop.Steps(10*time.Millisecond, 20*time.Millisecond),
			Handler: rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
				if d.Key == "order.bad" {
					return errors.New("an order without a number")
				}
				return nil
			}),
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{"order.good", "order.bad"} {
			if err := b.Client.Publish(t.Context(), rehop.Message{Exchange: "shop", Key: key}); err != nil {
				t.Fatal(err)
			}
		}
		b.AwaitEmpty("orders")
		for _, m := range b.Messages("orders.failed") {
			fmt.Printf("%s failed %d times: %s\n", m.Key, m.Attempts, m.Error)
		}
	}
	fmt.Printf("complaints: %q\n", observe(test))
	// Output:
	// order.bad failed 3 times: an order without a number
	// complaints: ""
}

// The broker is away while a message is published: Publish waits, and succeeds when the broker is back.
func ExampleBroker_Down() {
	test := func(t testing.TB) {
		b := rehoptest.Open(t)
		_, err := b.Client.Subscribe(t.Context(), rehop.Subscriber{Queue: "orders",
			Handler: rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
				fmt.Printf("handled %s\n", d.Body)
				return nil
			})})
		if err != nil {
			t.Fatal(err)
		}
		b.Down()
		published := make(chan error)
		go func() {
			published <- b.Client.Publish(t.Context(), rehop.Message{Key: "orders", Body: []byte("number 7")})
		}()
		b.Up()
		err = <-published
		b.AwaitEmpty("orders")
		fmt.Println("published:", err)
	}
	fmt.Printf("complaints: %q\n", observe(test))
	// Output:
	// handled number 7
	// published: <nil>
	// complaints: ""
}

// A queue behind the exchange is full, or so it seems to the publisher.
func ExampleBroker_Refuse() {
	test := func(t testing.TB) {
		b := rehoptest.Open(t, rehoptest.WithConfig(func(c *rehop.Config) {
			c.Exchanges = []rehop.Exchange{{Name: "shop"}}
		}))
		b.Refuse(func(exchange, key string) bool { return exchange == "shop" })
		err := b.Client.Publish(t.Context(), rehop.Message{Exchange: "shop", Key: "order.created"})
		fmt.Println("refused:", errors.Is(err, rehop.ErrRefused))
	}
	fmt.Printf("complaints: %q\n", observe(test))
	// Output:
	// refused: true
	// complaints: ""
}
