package outbox

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"strings"
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

// Inspector lists what is in an outbox, retries messages and discards them. It is safe for concurrent use.
type Inspector struct {
	DB *sql.DB
	// Dialect of the database.
	Dialect dialect.Dialect
	// Tables are the names of the tables. Default: rehop_outbox and so on.
	Tables dialect.Tables
}

func (i Inspector) sql() sqltext.SQL { return sqltext.SQL{Dialect: i.Dialect, Tables: i.Tables} }

// RowID names a row of the outbox. Its number alone does not: after a failover to a replica that was behind, or a restore, the database
// may give the number to another message.
type RowID struct {
	Number int64
	Nonce  int64 // random
}

// String returns the row as ParseRowID reads it.
func (r RowID) String() string { return fmt.Sprintf("%d-%x", r.Number, r.Nonce) }

// ParseRowID reads what RowID.String has returned.
func ParseRowID(text string) (RowID, error) {
	number, nonce, _ := strings.Cut(text, "-")
	n, err := strconv.ParseInt(number, 10, 64)
	if err == nil {
		var random int64
		if random, err = strconv.ParseInt(nonce, 16, 64); err == nil && n > 0 && random >= 0 {
			return RowID{n, random}, nil
		}
	}
	return RowID{}, fmt.Errorf("outbox: row %q: want a number, a hyphen and a hexadecimal number, as a list of the outbox has it", text)
}

// Entry is a message in the outbox.
type Entry struct {
	Row      RowID // for Retry and Discard
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

// Backlog counts what is in the outbox, up to MaxCounted messages of each kind.
func (i Inspector) Backlog(ctx context.Context) (b Backlog, err error) {
	if err = i.sql().Check(); err == nil {
		b, err = count(ctx, i.DB, i.sql())
	}
	if err != nil {
		return Backlog{}, fmt.Errorf("outbox: count messages: %w", err)
	}
	return b, nil
}

// List returns messages in a state, by row, beginning behind the row after. At most limit are returned, and no more once they have
// 32 MiB together.
func (i Inspector) List(ctx context.Context, state State, after RowID, limit int) ([]Entry, error) {
	numbers, err := state.numbers()
	if err == nil {
		err = i.sql().Check()
	}
	if err != nil {
		return nil, fmt.Errorf("outbox: list: %w", err)
	}
	entries, rows, err := i.list(ctx, numbers, after.Number, limit)
	if err == nil {
		err = loadBodies(ctx, i.DB, i.sql(), rows)
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
	query := "SELECT " + columns + ", created, error FROM " + i.sql().Table("outbox") + " WHERE state IN (" + states + ") AND id > ? ORDER BY id LIMIT ?"
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
		e.Row, e.Attempts, e.Created = RowID(r.identity()), r.attempts, time.UnixMicro(created)
		if r.due > 0 {
			e.Due = time.UnixMicro(r.due)
		}
		entries, rows = append(entries, e), append(rows, r)
		bytes += r.size
	}
	return entries, rows, found.Err()
}

// Retry has messages published that were set aside, or once more that were kept. It returns how many there were.
func (i Inspector) Retry(ctx context.Context, rows ...RowID) (int, error) {
	// Rows without an order become due now: a relay does not look for ready ones with ids of long ago so often.
	set := "due = CASE WHEN order_key = '' THEN " + i.Dialect.Now() + " ELSE 0 END, state = CASE WHEN order_key = '' THEN 2 ELSE 1 END, attempts = 0, error = ''"
	query, args := i.sql().UpdateRows(identities(rows), set, nil, "state IN (3, 4)")
	return i.change(ctx, "retry", query, args)
}

// Discard deletes messages that were set aside. It returns how many there were.
func (i Inspector) Discard(ctx context.Context, rows ...RowID) (int, error) {
	query, args := i.sql().DeleteRows(identities(rows), "state = 3")
	return i.change(ctx, "discard", query, args)
}

func identities(rows []RowID) []sqltext.Row {
	all := make([]sqltext.Row, len(rows))
	for i, r := range rows {
		all[i] = sqltext.Row(r)
	}
	return all
}

func (i Inspector) change(ctx context.Context, verb, query string, args []any) (int, error) {
	err := i.sql().Check()
	n := 0
	if err == nil {
		n, err = execOn(ctx, i.DB, query, args)
	}
	if err != nil {
		return 0, fmt.Errorf("outbox: %s: %w", verb, err)
	}
	return n, nil
}
