package inbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/internal/rabbit"
)

// handler runs another one in a transaction.
type handler struct {
	inbox    Inbox
	consumer string
	insert   string
	next     rehop.Handler
}

// Handle handles a message unless it has been handled.
func (h *handler) Handle(ctx context.Context, d *rehop.Delivery) error {
	consumer := h.consumer
	if consumer == "" {
		consumer = d.Queue
	}
	switch {
	case d.ID == "":
		return rehop.Permanent(errors.New("inbox: the message has no id, by which copies of it could be told"))
	case len(d.ID) > maxName:
		return rehop.Permanent(fmt.Errorf("inbox: the message's id has %d bytes, %d are possible", len(d.ID), maxName))
	}
	tx, first, err := h.begin(ctx, consumer, d.ID)
	if err != nil {
		return err
	}
	ended := false
	defer func() {
		if !ended { // a panic, or runtime.Goexit
			_ = tx.Rollback()
		}
	}()
	if first {
		err = h.next.Handle(context.WithValue(ctx, transactionKey{}, tx), d)
	}
	ended = true
	if !first || err != nil {
		// If this fails, the connection is lost, and the database rolls back by itself.
		_ = tx.Rollback()
		if !first {
			h.tellDuplicate(ctx, consumer, d)
		}
		return err
	}
	if err := tx.Commit(); err != nil {
		// It may have been committed all the same. Then the next attempt finds it so.
		return fmt.Errorf("inbox: commit what was done for message %q: %w", d.ID, err)
	}
	return nil
}

func (h *handler) tellDuplicate(ctx context.Context, consumer string, d *rehop.Delivery) {
	for _, hook := range h.inbox.Hooks {
		if hook, ok := hook.(DuplicateHook); ok {
			hook.OnDuplicate(ctx, consumer, d)
		}
	}
}

// Databases end transactions that wait for each other, and those that have waited for too long. As nothing was done yet, it costs
// nothing to try again.
const beginTries = 3

var beginBackoff = rabbit.Backoff{Min: 20 * time.Millisecond, Max: 200 * time.Millisecond}

// begin begins a transaction in which the message is written down, and reports whether it was not before.
func (h *handler) begin(ctx context.Context, consumer, id string) (tx Transaction, first bool, err error) {
	for try := 1; ; try++ {
		if tx, first, err = h.tryBegin(ctx, consumer, id); err == nil {
			return tx, first, nil
		}
		err = fmt.Errorf("inbox: write down message %q of %q: %w", id, consumer, err)
		if ctx.Err() != nil {
			return nil, false, err
		}
		if try == beginTries {
			return nil, false, rehop.Unavailable(err)
		}
		if rabbit.Pause(ctx, beginBackoff.Delay(try)) != nil {
			return nil, false, err
		}
	}
}

func (h *handler) tryBegin(ctx context.Context, consumer, id string) (Transaction, bool, error) {
	tx, err := h.inbox.Begin(ctx)
	if err != nil {
		return nil, false, err
	}
	n := int64(0)
	result, err := tx.ExecContext(ctx, h.insert, consumer, []byte(id))
	if err == nil {
		n, err = result.RowsAffected()
	}
	if err != nil {
		_ = tx.Rollback()
		return nil, false, err
	}
	return tx, n > 0, nil
}
