// Package rehop is reliable messaging for RabbitMQ.
//
// When a handler fails, rehop moves the message to a delay queue on the broker and returns it to
// the same queue, and only that queue, when the delay is over. After the last attempt the message
// goes to a failed queue, where you can inspect it, fix the cause and replay it. No confirmed message
// is lost, and docs/guarantees.md lists every case in which a message can be seen twice.
//
//	var OrderPlaced = rehop.Event[Order]{Exchange: "orders", Key: "order.placed", Type: "order.placed.v1"}
//
//	client, err := rehop.Open(ctx, rehop.Config{URL: "amqp://guest:guest@localhost/"})
//	sub, err := client.Subscribe(ctx, rehop.Subscriber{
//		Queue: "order-summary", Exchange: "orders", Keys: []string{"order.#"},
//		Retry:   rehop.Steps(10*time.Second, 100*time.Second, time.Hour),
//		Handler: OrderPlaced.Handler(func(ctx context.Context, o Order) error { … }),
//	})
//	err = OrderPlaced.Publish(ctx, client, order)
//
// What a handler returns decides: nil acks; an error is retried by the schedule; [Permanent] goes to
// the failed queue at once; [RetryAfter] waits for exactly the given duration; [Discard] drops the
// message; [Unavailable] pauses the subscription until the downstream is back, and uses no attempt.
package rehop
