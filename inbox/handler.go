package inbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/internal/rabbit"
	"github.com/rehop/rehop/internal/sqltext"
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
	tx, row, err := h.begin(ctx, consumer, d.ID)
	if err != nil {
		return err
	}
	ended := false
	defer func() {
		if !ended { // a panic, or runtime.Goexit
			_ = tx.Rollback()
		}
	}()
	if row == known {
		ended = true
		_ = tx.Rollback() // if this fails, the connection is lost, and the database rolls back by itself
		h.tellDuplicate(ctx, consumer, d)
		return nil
	}
	err = h.next.Handle(context.WithValue(ctx, transactionKey{}, tx), d)
	if err == nil {
		err = h.confirm(ctx, tx, row)
	}
	ended = true
	if err != nil {
		if lost := tx.Rollback(); lost != nil {
			return h.blame(ctx, err)
		}
		return err
	}
	if err := tx.Commit(); err != nil {
		// It may have been committed all the same. Then the next attempt finds it so.
		return h.blame(ctx, fmt.Errorf("inbox: commit what was done for message %q: %w", d.ID, err))
	}
	return nil
}

// confirm finds out whether what was done is still there.
func (h *handler) confirm(ctx context.Context, tx Transaction, row int64) error {
	query := sqltext.StillThere(h.inbox.Dialect)
	if query == "" {
		return nil
	}
	n := int64(0)
	result, err := tx.ExecContext(ctx, query, row)
	if err == nil {
		n, err = result.RowsAffected()
	}
	switch {
	case err != nil:
		return fmt.Errorf("inbox: look whether the transaction is still there: %w", err)
	case n == 0:
		return errors.New("inbox: the database has rolled the handler's transaction back, as after a deadlock, and the handler has gone on: it must return such errors")
	}
	return nil
}

// answerLimit is how long a database may take to answer before it is taken for lost.
const answerLimit = 5 * time.Second

// blame says whose fault it is that a transaction could not be ended. If the database does not answer, it is not the message's.
func (h *handler) blame(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	if h.inbox.DB.PingContext(ctx) == nil {
		return err
	}
	return rehop.Unavailable(err)
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

// known in place of a row: the message was written down before.
const known = -1

// begin begins a transaction in which the message is written down, in a row. While a copy is being handled it waits, as long as ctx does.
func (h *handler) begin(ctx context.Context, consumer, id string) (tx Transaction, row int64, err error) {
	for try, pauses := 1, 1; ; pauses++ {
		if tx, row, err = h.tryBegin(ctx, consumer, id); err == nil {
			return tx, row, nil
		}
		locked := sqltext.IsLocked(h.inbox.Dialect, err)
		err = fmt.Errorf("inbox: write down message %q of %q: %w", id, consumer, err)
		if ctx.Err() != nil {
			return nil, 0, err
		}
		if !locked {
			if try == beginTries {
				return nil, 0, rehop.Unavailable(err)
			}
			try++
		}
		if rabbit.Pause(ctx, beginBackoff.Delay(pauses)) != nil {
			return nil, 0, err
		}
	}
}

func (h *handler) tryBegin(ctx context.Context, consumer, id string) (tx Transaction, row int64, err error) {
	if tx, err = h.inbox.Begin(ctx); err != nil {
		return nil, 0, err
	}
	if row, err = h.writeDown(ctx, tx, consumer, id); err != nil {
		_ = tx.Rollback()
		return nil, 0, err
	}
	return tx, row, nil
}

func (h *handler) writeDown(ctx context.Context, tx Transaction, consumer, id string) (row int64, err error) {
	result, err := tx.ExecContext(ctx, h.insert, consumer, []byte(id))
	if err != nil {
		return 0, err
	}
	n, err := result.RowsAffected()
	switch {
	case err != nil:
		return 0, err
	case n == 0:
		return known, nil
	case sqltext.StillThere(h.inbox.Dialect) == "": // the row's number is of no use, and PostgreSQL does not tell it
		return 0, nil
	}
	return result.LastInsertId()
}
