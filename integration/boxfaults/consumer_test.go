package boxfaults

import (
	"context"
	"errors"
	"math/rand/v2"
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
	work := rehop.Subscriber{
		Queue: "work", Exchange: exchange, Concurrency: c.Load.Workers, CrashLimit: 40, Retry: rehop.Steps(retries...),
		ProbeMin: 50 * time.Millisecond, ProbeMax: 200 * time.Millisecond,
		Middleware: []rehop.Middleware{stop, in.Middleware("work")},
		Handler: rehop.HandlerFunc(func(ctx context.Context, d *rehop.Delivery) error {
			tx := inbox.Tx(ctx)
			if _, err := tx.ExecContext(ctx, c.Dialect.Bind("INSERT INTO effect (name) VALUES (?)"), d.ID); err != nil {
				return err
			}
			if c.Load.Failing {
				if err := fails(); err != nil {
					return err
				}
			}
			return box.Publish(ctx, tx, rehop.Message{Key: "out", CorrelationID: d.ID})
		}),
	}
	if c.Load.Ordered {
		work.OrderBy = rehop.OrderKey
	}
	if _, err = client.Subscribe(ctx, work); err != nil {
		return err
	}
	c.write(wordReady)
	<-ctx.Done()
	return closeClient(client)
}

// fails has some handlers fail, after they have written their effect. Messages that follow one which waits for more than 2 s are moved to the held queue.
func fails() error {
	switch rand.IntN(24) {
	case 0, 1:
		return errors.New("it fails now and then")
	case 2:
		return rehop.RetryAfter(2500*time.Millisecond, errors.New("it fails for a while"))
	}
	return nil
}
