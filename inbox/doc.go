// Package inbox applies a handler's database changes once per message: the handler runs in a transaction that first records its
// consumer and the message's id, so that copies of the message are recognized.
//
//	in := inbox.Inbox{DB: db, Dialect: dialect.Postgres}
//	sub, err := client.Subscribe(ctx, rehop.Subscriber{
//		Queue:      "order-summary", Exchange: "order", Keys: []string{"order.#"},
//		Middleware: []rehop.Middleware{in.Middleware("order-summary")},
//		Handler: OrderPlaced.Handler(func(ctx context.Context, o Order) error {
//			_, err := inbox.Tx(ctx).ExecContext(ctx, "INSERT INTO summaries …")
//			return err
//		}),
//	})
//
// What the handler does through the transaction happens once for each message. That includes messages that it writes to the outbox
// there. What it does by other means can happen more than once.
//
// [Inbox.BatchHandler] does the same for the messages of a [rehop.Batch].
//
// The tables come from [dialect.Dialect.Migrate], or from the SQL that [dialect.Dialect.SQL] prints.
package inbox
