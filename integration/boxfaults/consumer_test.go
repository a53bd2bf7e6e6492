package boxfaults

import (
	"context"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/inbox"
	"github.com/rehop/rehop/outbox"
)

// consumer has an inbox, and its handler publishes to the outbox.
func (c *child) consumer(ctx context.Context) error {
	db, err := c.openDB(c.Load.Workers)
	if err != nil {
		return err
	}
	defer db.Close()
	client, err := c.openClient(ctx)
	if err != nil {
		return err
	}
	box, in := outbox.New(c.Dialect), inbox.Inbox{DB: db, Dialect: c.Dialect}
	stop := func(next rehop.Handler) rehop.Handler {
		return rehop.HandlerFunc(func(ctx context.Context, d *rehop.Delivery) error {
			err := next.Handle(ctx, d)
			if err == nil && c.hang.Load() { // it is committed, and not acked
				c.stopHere()
			}
			return err
		})
	}
	retries := make([]time.Duration, 60) // enough that no message goes to the failed queue
	for i := range retries {
		retries[i] = 100 * time.Millisecond
	}
	_, err = client.Subscribe(ctx, rehop.Subscriber{
		Queue: "work", Exchange: exchange, Concurrency: c.Load.Workers, CrashLimit: 40, Retry: rehop.Steps(retries...),
		ProbeMin: 50 * time.Millisecond, ProbeMax: 200 * time.Millisecond,
		Middleware: []rehop.Middleware{stop, in.Middleware("work")},
		Handler: rehop.HandlerFunc(func(ctx context.Context, d *rehop.Delivery) error {
			tx := inbox.Tx(ctx)
			if _, err := tx.ExecContext(ctx, c.Dialect.Bind("INSERT INTO effect (name) VALUES (?)"), d.ID); err != nil {
				return err
			}
			return box.Publish(ctx, tx, rehop.Message{Key: "out", CorrelationID: d.ID})
		}),
	})
	if err != nil {
		return err
	}
	c.write(wordReady)
	<-ctx.Done()
	return closeClient(client)
}
