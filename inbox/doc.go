// Package inbox has the effects of a message happen once: a handler runs in a transaction in which its consumer and the message's id
// are written first, so that a copy of the message finds them.
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
// What the handler does through the transaction happens once for each message, also if it publishes to the outbox there. What it does
// by other means can happen more than once.
//
// The tables come from [dialect.Dialect.Migrate], or from the SQL that [dialect.Dialect.SQL] prints.
package inbox
