package outbox

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/rehop/rehop/dialect"
	"github.com/rehop/rehop/internal/sqltext"
)

// State is where a message of the outbox is.
type State string

// The states of a message.
const (
	StateReady    State = "ready"     // to be published now
	StateDelayed  State = "delayed"   // waiting until it is due, or for its next try
	StateSetAside State = "set aside" // waiting for a person
	StateKept     State = "kept"      // published
)

// numbers are a state's in the table.
func (s State) numbers() (string, error) {
	switch s {
	case StateReady:
		return "0, 1", nil
	case StateDelayed:
		return "2", nil
	case StateSetAside:
		return "3", nil
	case StateKept:
		return "4", nil
	}
	return "", fmt.Errorf("state %q must be %q, %q, %q or %q", string(s), StateReady, StateDelayed, StateSetAside, StateKept)
}

// Inspector looks into an outbox and mends it. It is safe for concurrent use.
type Inspector struct {
	DB      *sql.DB
	Dialect dialect.Dialect
}

// Entry is a message in the outbox.
type Entry struct {
	Row      int64 // for Retry and Drop
	State    State
	Message  Message
	Created  time.Time
	Due      time.Time // when its delay is over, or for how long it is kept
	Attempts int
	Error    string // why it was not published at its last attempt
}

// querier is a *sql.DB.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// Backlog counts what is in the outbox. It reads the whole table.
func (i Inspector) Backlog(ctx context.Context) (Backlog, error) {
	b, err := count(ctx, i.DB, i.Dialect)
	if err != nil {
		return Backlog{}, fmt.Errorf("outbox: count messages: %w", err)
	}
	return b, nil
}

// List returns messages in a state, by row, beginning behind the row after. At most limit are returned, and no more once they have
// 32 MiB together.
func (i Inspector) List(ctx context.Context, state State, after int64, limit int) ([]Entry, error) {
	numbers, err := state.numbers()
	if err != nil {
		return nil, fmt.Errorf("outbox: list: %w", err)
	}
	entries, rows, err := i.list(ctx, numbers, after, limit)
	if err == nil {
		err = loadBodies(ctx, i.DB, i.Dialect, rows)
	}
	if err != nil {
		return nil, fmt.Errorf("outbox: list: %w", err)
	}
	there := entries[:0]
	for n, e := range entries {
		if rows[n].body == nil {
			continue // it has just been deleted
		}
		e.State, e.Message.OrderKey = state, rows[n].orderKey
		if e.Message.Message, err = rows[n].message(); err != nil {
			e.Message.ID, e.Message.Exchange, e.Message.Key, e.Message.Body = rows[n].messageID, rows[n].exchange, rows[n].routingKey, rows[n].body
		}
		there = append(there, e)
	}
	return there, nil
}

const listBytes = 32 << 20

func (i Inspector) list(ctx context.Context, states string, after int64, limit int) (entries []Entry, rows []row, err error) {
	query := "SELECT " + columns + ", created, error FROM rehop_outbox WHERE state IN (" + states + ") AND id > ? ORDER BY id LIMIT ?"
	found, err := i.DB.QueryContext(ctx, i.Dialect.Bind(query), after, limit)
	if err != nil {
		return nil, nil, err
	}
	defer found.Close()
	for bytes := 0; bytes < listBytes && found.Next(); {
		var e Entry
		var created int64
		r, err := scan(found, &created, &e.Error)
		if err != nil {
			return nil, nil, err
		}
		e.Row, e.Attempts, e.Created = r.id, r.attempts, time.UnixMicro(created)
		if r.due > 0 {
			e.Due = time.UnixMicro(r.due)
		}
		entries, rows = append(entries, e), append(rows, r)
		bytes += r.size
	}
	return entries, rows, found.Err()
}

// Retry has messages published that were set aside, or once more that were kept. It returns how many there were.
func (i Inspector) Retry(ctx context.Context, rows ...int64) (int, error) {
	// Rows without an order become due now: a relay does not look for ready ones with ids of long ago so often.
	set := "due = CASE WHEN order_key = '' THEN " + i.Dialect.Now() + " ELSE 0 END, state = CASE WHEN order_key = '' THEN 2 ELSE 1 END, attempts = 0, error = ''"
	query, args := sqltext.UpdateRows(i.Dialect, "rehop_outbox", "id", rows, set, nil, "state IN (3, 4)")
	return i.change(ctx, "retry", query, args)
}

// Drop deletes messages that were set aside. It returns how many there were.
func (i Inspector) Drop(ctx context.Context, rows ...int64) (int, error) {
	query, args := sqltext.DeleteRows(i.Dialect, "rehop_outbox", "id", rows, "state = 3")
	return i.change(ctx, "drop", query, args)
}

func (i Inspector) change(ctx context.Context, verb, query string, args []any) (int, error) {
	err := i.Dialect.Check()
	n := 0
	if err == nil {
		n, err = execOn(ctx, i.DB, query, args)
	}
	if err != nil {
		return 0, fmt.Errorf("outbox: %s: %w", verb, err)
	}
	return n, nil
}
