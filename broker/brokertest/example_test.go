package brokertest_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/broker"
	"github.com/rehop/rehop/broker/brokertest"
)

// A test sees what queues hold, and breaks what it wants to.
func ExampleOpen() {
	ctx := context.Background()
	server := &broker.Server{Logger: slog.New(slog.DiscardHandler)}
	defer server.Close()
	control, err := brokertest.Open(server)
	if err != nil {
		log.Fatal(err)
	}
	client, err := rehop.Open(ctx, rehop.Config{Dial: server.Dial, Logger: slog.New(slog.DiscardHandler),
		KeepUnroutable: true, Exchanges: []rehop.Exchange{{Name: "orders"}}})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close(ctx)

	control.Refuse(func(exchange, key string) bool { return key == "order.refused" })
	err = client.Publish(ctx, rehop.Message{Exchange: "orders", Key: "order.refused"})
	fmt.Println(errors.Is(err, rehop.ErrRefused))

	if err := client.Publish(ctx, rehop.Message{ID: "m1", Exchange: "orders", Key: "order.placed"}); err != nil {
		log.Fatal(err)
	}
	fmt.Println(control.Queue("/", "rehop.unrouted").Counts().Ready)
	fmt.Println(control.DropConnections() > 0)
	// Output:
	// true
	// 1
	// true
}
