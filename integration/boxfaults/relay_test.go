package boxfaults

import (
	"context"
	"errors"
	"log/slog"

	"github.com/jackc/pgx/v5"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/dialect"
	"github.com/rehop/rehop/outbox"
	"github.com/rehop/rehop/outbox/outboxpgx"
)

func (c *child) relay(ctx context.Context) error {
	db, err := c.openDB(4)
	if err != nil {
		return err
	}
	defer db.Close()
	client, err := c.openClient(ctx)
	if err != nil {
		return err
	}
	relay := outbox.Relay{
		Client: &stopper{Publisher: client, child: c}, DB: db, Dialect: c.Dialect, Name: "relay", BatchSize: c.Load.BatchSize,
		Hooks: []outbox.Hook{c}, Logger: slog.New(slog.DiscardHandler),
	}
	if c.Dialect == dialect.Postgres {
		config, err := pgx.ParseConfig(c.Source)
		if err != nil {
			return err
		}
		relay.Waker = outboxpgx.Listener{Config: config}
	}
	c.say(wordReady)
	return errors.Join(relay.Run(ctx), closeClient(client))
}

// stopper is a publisher that stops as ordered.
type stopper struct {
	outbox.Publisher
	child *child
}

func (s *stopper) PublishEach(ctx context.Context, messages []rehop.Message, settled func(int, error)) {
	if s.child.half.Load() && len(messages) > 1 {
		messages = messages[:len(messages)/2]
		s.child.hang.Store(true)
	}
	if s.child.gate.CompareAndSwap(true, false) {
		s.child.say(wordHangs)
		<-s.child.goes
	}
	outcomes := make([]error, len(messages))
	s.Publisher.PublishEach(ctx, messages, func(i int, err error) { outcomes[i] = err })
	switch {
	case errors.Join(outcomes...) != nil:
		s.child.say(wordFailed)
	case s.child.hang.Load():
		s.child.stopHere()
	}
	for i, err := range outcomes {
		settled(i, err)
	}
}
