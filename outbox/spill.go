package outbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/rehop/rehop"
)

// Spill publishes messages directly, and puts those that the broker does not take into the outbox of a database, from which a relay
// publishes them later. It is for messages that belong to no transaction; no order is kept between those that go one way and those
// that go the other. It is safe for concurrent use.
type Spill struct {
	// Client publishes.
	Client interface {
		Publish(ctx context.Context, m rehop.Message) error
		State() rehop.State
	}
	// Box and DB are the outbox.
	Box Box
	DB  *sql.DB
	// Patience is how long the broker may take to confirm; at most half of the time that the context has left. Default: 2 s.
	Patience time.Duration
	// Hooks receive events: OnSpill is called for each message that went into the outbox. Default: none.
	Hooks []Hooks
}

// Publish returns nil when the broker has confirmed the message or the database has it. A message goes into the database if the broker is
// blocked or away, or does not answer in time; in the last case the broker may have it too, under the same id. Other errors are
// those of rehop.Client.Publish; if writing to the database fails too, the error has both.
func (s Spill) Publish(ctx context.Context, m rehop.Message) error {
	if m.ID == "" {
		m.ID = rehop.NewID()
	}
	err := s.direct(ctx, m)
	if err == nil || !spills(err) {
		return err
	}
	if putErr := s.put(ctx, m); putErr != nil {
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
	switch s.Client.State() { // do not wait for what is known
	case rehop.StateBlocked:
		return fmt.Errorf("publish message %s: %w", m.ID, rehop.ErrBlocked)
	case rehop.StateRecovering:
		return fmt.Errorf("publish message %s: %w", m.ID, rehop.ErrDisconnected)
	}
	patience := s.Patience
	if patience <= 0 {
		patience = 2 * time.Second
	}
	if deadline, ok := ctx.Deadline(); ok {
		patience = min(patience, time.Until(deadline)/2)
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return s.Client.Publish(ctx, m)
}

// spills reports whether the broker may take the message at another time.
func spills(err error) bool {
	for _, e := range []error{rehop.ErrBlocked, rehop.ErrDisconnected, rehop.ErrUnknown} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

func (s Spill) put(ctx context.Context, m rehop.Message) error {
	return s.Box.PublishNow(ctx, s.DB, Message{Message: m})
}
