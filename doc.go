// Package rehop is reliable messaging for RabbitMQ.
//
// A message whose handler fails leaves its queue, waits, and comes back to that queue alone; after
// its last attempt it rests in a failed queue until a person looks at it, mends the cause and
// replays it. Nothing that was confirmed is lost, and every window in which a message can be seen
// twice is written down in docs/guarantees.md.
//
//	client, err := rehop.Open(ctx, rehop.Config{URL: "amqp://guest:guest@localhost/"})
//	err = client.Publish(ctx, rehop.Message{Exchange: "order", Key: "order.created", Body: body})
//	sub, err := client.Subscribe(ctx, rehop.Subscription{
//		Queue: "order-summary", Exchange: "order", Keys: []string{"order.#"},
//		Retry:   rehop.Steps(10*time.Second, 100*time.Second, time.Hour),
//		Handler: rehop.JSON(func(ctx context.Context, o OrderCreated) error { … }),
//	})
//
// What a handler returns decides: nil acks; an error is retried by the schedule; [Permanent] goes to
// the failed queue at once; [RetryAfter] waits for exactly that long; [Discard] drops the message;
// [Unavailable] pauses the subscription until the downstream is back, and burns no attempt.
package rehop
