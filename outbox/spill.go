package outbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/rehop/rehop"
)

// Spill publishes messages directly, and writes those that the broker does not accept to the outbox of a database. A relay publishes
// them later. Use it for messages that belong to no transaction. No order is kept between the two ways. It is safe for concurrent use.
type Spill struct {
	// Client publishes, such as a *rehop.Client. Required.
	Client interface {
		Publish(ctx context.Context, m rehop.Message) error
		State() rehop.State
	}
	// Box and DB are the outbox. Required.
	Box Box
	DB  *sql.DB
	// ConfirmTimeout is how long the broker may take to confirm. If the context has a deadline, the broker gets at most half of the time
	// that is left, so that there is time to write to the database. Default: 2 s.
	ConfirmTimeout time.Duration
	// Hooks receive events: OnSpill is called for each message that is written to the outbox. Default: none.
	Hooks []Hooks
}

// spilled is the message for the outbox. A message with an order key cannot be delayed there, so the key becomes a header.
func spilled(m rehop.Message) rehop.Message {
	if m.OrderKey == "" || m.Delay <= 0 && time.Until(m.At) <= 0 {
		return m
	}
	m.Headers = maps.Clone(m.Headers)
	if m.Headers == nil {
		m.Headers = make(map[string]any, 1)
	}
	m.Headers[rehop.OrderKeyHeader], m.OrderKey = m.OrderKey, ""
	return m
}

// Publish returns nil when the broker has confirmed the message, or when the message is in the outbox. It writes the message to the
// outbox if the broker is blocked, cannot be reached, or does not answer in time. In the last case the broker may have the message too,
// with the same id. Other errors are those of rehop.Client.Publish. If writing to the database fails too, the error wraps both.
func (s Spill) Publish(ctx context.Context, m rehop.Message) error {
	if m.ID == "" {
		m.ID = rehop.NewID()
	}
	err := s.direct(ctx, m)
	if err == nil || !spills(err) {
		return err
	}
	if putErr := s.Box.PublishNow(ctx, s.DB, spilled(m)); putErr != nil {
		return fmt.Errorf("%w; writing it to the outbox failed too: %w", err, putErr)
	}
	for _, hooks := range s.Hooks {
		if hooks.OnSpill != nil {
			hooks.OnSpill(ctx, &m, err)
		}
	}
	return nil
}

func (s Spill) direct(ctx context.Context, m rehop.Message) error {
	switch s.Client.State() { // without waiting for the timeout
	case rehop.StateBlocked:
		return fmt.Errorf("publish message %s: %w", m.ID, rehop.ErrBlocked)
	case rehop.StateRecovering:
		return fmt.Errorf("publish message %s: %w", m.ID, rehop.ErrDisconnected)
	}
	timeout := s.ConfirmTimeout
	if timeout <= 0 {
		timeout = 2 * time.Second
	}
	if deadline, ok := ctx.Deadline(); ok {
		timeout = min(timeout, time.Until(deadline)/2)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return s.Client.Publish(ctx, m)
}

// spills reports whether the broker may accept the message later.
func spills(err error) bool {
	return errors.Is(err, rehop.ErrBlocked) || errors.Is(err, rehop.ErrDisconnected) || errors.Is(err, rehop.ErrUnknown)
}
