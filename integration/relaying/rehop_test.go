package relaying

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/jackc/pgx/v5"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/dialect"
	"github.com/rehop/rehop/outbox"
	"github.com/rehop/rehop/outbox/outboxpgx"
)

// rehopLine is rehop's outbox with its relay.
type rehopLine struct {
	*bench
	queue string
	box   outbox.Box
	keys  int // among which the messages are divided; 0: they have no order
}

func openRehop(b *bench, queue string) (carrier, error) {
	l := &rehopLine{bench: b, queue: "rehop-" + queue, box: outbox.New(dialect.Postgres)}
	if err := dialect.Postgres.Migrate(context.Background(), b.db); err != nil {
		return nil, err
	}
	return l, b.declare(l.queue)
}

func (l *rehopLine) put(ctx context.Context, numbers []int) error {
	all := make([]rehop.Message, len(numbers))
	for i, n := range numbers {
		all[i] = rehop.Message{Key: l.queue, Body: body(n)}
		if l.keys > 0 {
			all[i].OrderKey = fmt.Sprint("key ", n%l.keys)
		}
	}
	return pgx.BeginFunc(ctx, l.pool, func(tx pgx.Tx) error { return l.box.Publish(ctx, outboxpgx.Tx(tx), all...) })
}

func (l *rehopLine) carry(ctx context.Context, got func(n int)) (func() error, error) {
	stopConsumer, err := l.consume(l.queue, got)
	if err != nil {
		return nil, err
	}
	client, err := rehop.Open(ctx, rehop.Config{URL: l.url, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, errors.Join(err, stopConsumer())
	}
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		ended <- outbox.Relay{
			Client: client, DB: l.db, Dialect: dialect.Postgres, Waker: outboxpgx.Listener{Config: l.pool.Config().ConnConfig},
			Logger: slog.New(slog.DiscardHandler),
		}.Run(running)
	}()
	return func() error {
		stop()
		return errors.Join(<-ended, client.Close(ctx), stopConsumer())
	}, nil
}
