package inbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/dialect"
	"github.com/rehop/rehop/internal/rabbit"
)

// handler runs another one in a transaction.
type handler struct {
	inbox    Inbox
	consumer string
	insert   string
	next     rehop.Handler
	cleaner  *cleaner
}

// conflictTries is how often a handler runs whose transaction conflicts with others, before that counts as an attempt.
const conflictTries = 5

var conflictBackoff = rabbit.Backoff{Min: 10 * time.Millisecond, Max: 500 * time.Millisecond}

// Handle handles a message unless it has been handled.
func (h *handler) Handle(ctx context.Context, d *rehop.Delivery) error {
	if err := checkID(d.ID); err != nil {
		return err
	}
	for try := 1; ; try++ {
		err := h.handleOnce(ctx, d)
		if err == nil {
			h.cleaner.tidy(ctx)
			return nil
		}
		if try == conflictTries || !h.repeats(err) || rabbit.Pause(ctx, conflictBackoff.Delay(try)) != nil {
			return err
		}
	}
}

func checkID(id string) error {
	switch {
	case id == "":
		return rehop.Permanent(errors.New("inbox: the message has no message_id, so its copies cannot be recognized; set it where the message is published"))
	case len(id) > maxName:
		return rehop.Permanent(fmt.Errorf("inbox: the message_id is %d bytes long, the limit is %d", len(id), maxName))
	}
	return nil
}

// repeats reports whether a handler runs again because its transaction conflicted with another one. An error that decides about the
// message, such as rehop.Permanent, is final.
func (h *handler) repeats(err error) bool {
	var decided interface{ Instruction() }
	return !errors.As(err, &decided) && h.inbox.sql().Retryable(err)
}

func (h *handler) handleOnce(ctx context.Context, d *rehop.Delivery) error {
	consumer := cmp.Or(h.consumer, d.Queue)
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
		// The changes of the copy may be visible and not on disk yet. When this commit returns, they are.
		if err := tx.Commit(); err != nil {
			return h.blame(ctx, fmt.Errorf("inbox: copy of message %q: commit: %w", d.ID, err))
		}
		if h.inbox.OnDuplicate != nil {
			h.inbox.OnDuplicate(ctx, consumer, d)
		}
		return nil
	}
	err = h.next.Handle(context.WithValue(ctx, transactionKey{}, tx), d)
	failed := err != nil
	if !failed {
		err = h.confirm(ctx, tx, row)
	}
	ended = true
	if err != nil {
		if lost := tx.Rollback(); lost != nil {
			return h.blame(ctx, err)
		}
		if failed && h.committed(ctx, row) {
			return errCommitted(err)
		}
		return err
	}
	if err := tx.Commit(); err != nil {
		// It may have been committed anyway. Then the next attempt is recognized as a copy.
		return h.blame(ctx, fmt.Errorf("inbox: commit the transaction of message %q: %w", d.ID, err))
	}
	return nil
}

// confirm checks that the transaction still has what the handler did.
func (h *handler) confirm(ctx context.Context, tx Transaction, row int64) error {
	query := h.inbox.sql().StillThere()
	if query == "" {
		return nil
	}
	n, err := affected(tx.ExecContext(ctx, query, row))
	switch {
	case err != nil:
		return fmt.Errorf("inbox: check that the transaction is still there: %w", err)
	case n == 0:
		err := errors.New("inbox: the database rolled the transaction back (a deadlock or a canceled statement), and the handler returned nil; return the error of the statement")
		if h.inbox.Dialect == dialect.SQLite { // what the handler did afterwards is committed already, and must not be repeated
			return rehop.Permanent(err)
		}
		return err
	}
	return nil
}

// committed reports whether the row of a transaction is there although that was rolled back. On MySQL a statement that changes a table's
// definition commits what came before it, and the message's id with it: the next attempt would be taken for a copy.
func (h *handler) committed(ctx context.Context, row int64) bool {
	if h.inbox.Dialect != dialect.MySQL || ctx.Err() != nil {
		return false
	}
	n, err := affected(h.inbox.DB.ExecContext(ctx, h.inbox.sql().StillThere(), row))
	return err == nil && n > 0
}

// errCommitted is the error of a handler that has committed its transaction.
func errCommitted(err error) error {
	return rehop.Permanent(fmt.Errorf("inbox: a statement of the handler has committed its transaction (CREATE, ALTER and the like do that), so it cannot run again; the handler's error: %w", err))
}

// answerLimit is how long a database may take to answer a ping.
const answerLimit = 5 * time.Second

// blame returns the error of a transaction that could not be ended. If the database does not answer, the message is not to blame.
func (h *handler) blame(ctx context.Context, err error) error {
	if h.isDown(ctx) {
		return rehop.Unavailable(err)
	}
	return err
}

// isDown reports whether the database does not answer. False also if the context has ended.
func (h *handler) isDown(ctx context.Context) bool {
	if ctx.Err() != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	return h.inbox.DB.PingContext(ctx) != nil
}

// Databases roll back transactions that wait for each other, or for too long. Nothing was done yet, so the handler tries again.
const beginTries = 3

var beginBackoff = rabbit.Backoff{Min: 20 * time.Millisecond, Max: 200 * time.Millisecond}

// known, in place of a row, means that the message was recorded before.
const known = -1

// errBusy means that another transaction is handling the message.
var errBusy = errors.New("a copy of the message is being handled")

// begin begins a transaction and records the message in a row. While a copy is being handled it waits, up to MaxWait.
func (h *handler) begin(ctx context.Context, consumer, id string) (tx Transaction, row int64, err error) {
	until := h.waitUntil(ctx)
	for try, pauses := 1, 1; ; pauses++ {
		if tx, row, err = h.tryBegin(ctx, consumer, id); err == nil {
			return tx, row, nil
		}
		busy := errors.Is(err, errBusy) || h.inbox.sql().IsLocked(err)
		err = fmt.Errorf("inbox: record message %q for consumer %q: %w", id, consumer, h.inbox.sql().Explain(err))
		switch {
		case busy && !time.Now().Before(until):
			return nil, 0, rehop.Postpone(2*h.inbox.MaxWait, err)
		case ctx.Err() != nil:
			return nil, 0, err
		case !busy:
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

// waitUntil is how long a message waits while a copy of it is being handled.
func (h *handler) waitUntil(ctx context.Context) time.Time {
	until := time.Now().Add(h.inbox.MaxWait)
	if deadline, ok := ctx.Deadline(); ok { // the handler needs some of its time
		if half := time.Now().Add(time.Until(deadline) / 2); half.Before(until) {
			return half
		}
	}
	return until
}

func (h *handler) tryBegin(ctx context.Context, consumer, id string) (tx Transaction, row int64, err error) {
	if tx, err = h.inbox.Begin(ctx); err != nil {
		return nil, 0, err
	}
	if row, err = h.record(ctx, tx, consumer, id); err == nil && row != known {
		err = restoreLockWait(ctx, tx)
	}
	if err != nil {
		_ = tx.Rollback()
		return nil, 0, err
	}
	return tx, row, nil
}

func (h *handler) record(ctx context.Context, tx Transaction, consumer, id string) (row int64, err error) {
	args := []any{consumer, []byte(id)}
	if h.inbox.Dialect == dialect.Postgres {
		args = append(args, lockNumber(h.inbox.sql().Table("inbox"), consumer, id))
	}
	result, err := tx.ExecContext(ctx, h.insert, args...)
	n, err := affected(result, err)
	switch {
	case err != nil:
		return 0, err
	case n == 0:
		n, err := affected(tx.ExecContext(ctx, h.inbox.sql().Known(), consumer, []byte(id)))
		if err == nil && n == 0 {
			err = errBusy
		}
		return known, err
	}
	if h.inbox.sql().StillThere() == "" { // nobody needs the row's number, and PostgreSQL does not return it
		return 0, nil
	}
	return result.LastInsertId()
}

// lockNumber is the number of the advisory lock that PostgreSQL holds while a message is being handled.
func lockNumber(table, consumer, id string) int64 {
	h := fnv.New64a()
	for _, part := range []string{table, consumer, id} {
		h.Write([]byte(part))
		h.Write([]byte{0})
	}
	return int64(h.Sum64())
}
