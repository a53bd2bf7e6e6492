package outboxpgx_test

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/dialect"
	"github.com/rehop/rehop/inbox"
	"github.com/rehop/rehop/outbox"
	"github.com/rehop/rehop/outbox/outboxpgx"
)

// A message is written in a transaction of pgx.
func ExampleTx() {
	store := func(ctx context.Context, pool *pgxpool.Pool, order []byte) error {
		box := outbox.New(dialect.Postgres)
		return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, "INSERT INTO orders (content) VALUES ($1)", order); err != nil {
				return err
			}
			return box.Publish(ctx, outboxpgx.Tx(tx), rehop.Message{Exchange: "order", Key: "order.created", Body: order})
		})
	}
	_ = store
}

// A relay is woken by PostgreSQL's notifications.
func ExampleListener() {
	relay := func(ctx context.Context, client *rehop.Client, pool *pgxpool.Pool) error {
		return outbox.Relay{
			Client: client, DB: outboxpgx.DB(pool), Dialect: dialect.Postgres,
			Waker: outboxpgx.Listener{Config: pool.Config().ConnConfig},
		}.Run(ctx)
	}
	_ = relay
}

// A handler gets its transaction from pgx.
func ExampleBegin() {
	subscribe := func(ctx context.Context, client *rehop.Client, pool *pgxpool.Pool) (*rehop.Subscription, error) {
		in := inbox.Inbox{DB: outboxpgx.DB(pool), Dialect: dialect.Postgres, Begin: outboxpgx.Begin(pool)}
		return client.Subscribe(ctx, rehop.Subscriber{
			Queue: "summaries", Middleware: []rehop.Middleware{in.Middleware("summaries")},
			Handler: rehop.HandlerFunc(func(ctx context.Context, d *rehop.Delivery) error {
				_, err := outboxpgx.From(ctx).Exec(ctx, "INSERT INTO summaries (content) VALUES ($1)", d.Body)
				return err
			}),
		})
	}
	_ = subscribe
}

// Without a transaction there is nothing to find.
func ExampleFrom() {
	fmt.Println(outboxpgx.From(context.Background()) == nil)
	// Output: true
}
