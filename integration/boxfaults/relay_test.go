package boxfaults

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"

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
		Hooks: []outbox.Hooks{{OnFault: c.OnFault}}, Logger: slog.New(slog.DiscardHandler),
	}
	if c.Dialect == dialect.Postgres {
		config, err := pgx.ParseConfig(c.Source)
		if err != nil {
			return err
		}
		relay.Waker = outboxpgx.Listener{Config: config}
	}
	c.write(wordReady)
	return errors.Join(relay.Run(ctx), closeClient(client))
}

// stopper is a publisher that stops as ordered. It marks each message with its sender.
type stopper struct {
	outbox.Publisher
	child    *child
	failures atomic.Int64
}

// headerSender has the process that has sent a message, and how many times it had failed to publish before. A relay does not send again what
// the broker has confirmed, so copies with the same value are a fault.
const headerSender = "test-sender"

func (s *stopper) sender() string { return fmt.Sprint(s.child.Name, "-", s.failures.Load()) }

func (s *stopper) PublishEach(ctx context.Context, messages []rehop.Message, settled func(int, error)) {
	messages = slices.Clone(messages)
	sender := s.sender()
	for i := range messages {
		headers := maps.Clone(messages[i].Headers)
		if headers == nil {
			headers = make(map[string]any)
		}
		headers[headerSender] = sender
		messages[i].Headers = headers
	}
	if s.child.half.Load() && len(messages) > 1 {
		messages = messages[:len(messages)/2]
		s.child.hang.Store(true)
	}
	if s.child.gate.CompareAndSwap(true, false) {
		s.child.write(wordHangs)
		<-s.child.goes
	}
	outcomes := make([]error, len(messages))
	s.Publisher.PublishEach(ctx, messages, func(i int, err error) { outcomes[i] = err })
	switch {
	case errors.Join(outcomes...) != nil:
		s.failures.Add(1)
		s.child.write(wordFailed)
	case s.child.hang.Load():
		s.child.stopHere()
	}
	for i, err := range outcomes {
		settled(i, err)
	}
}
