package outbox

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/dialect"
	"github.com/rehop/rehop/internal/sqltext"
)

// State is the state of a message in the outbox.
type State string

// The states of a message.
const (
	StateReady    State = "ready"     // to be published now
	StateDelayed  State = "delayed"   // waits until it is due, or for its next attempt
	StateSetAside State = "set aside" // cannot be published: retry or discard it
	StateKept     State = "kept"      // published
)

// numbers returns the numbers of a state in the table.
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

// Inspector lists, retries and discards messages in an outbox. It is safe for concurrent use.
type Inspector struct {
	// DB is the database of the outbox. Required.
	DB *sql.DB
	// Dialect is the kind of database. Required.
	Dialect dialect.Dialect
	// Tables are the names of rehop's tables. Default: rehop_outbox and so on.
	Tables dialect.Tables
}

func (i Inspector) sql() sqltext.SQL { return sqltext.SQL{Dialect: i.Dialect, Tables: i.Tables} }

// RowID identifies a row of the outbox. The number alone is not enough: after a failover to a replica that was behind, or after a
// restore, the database may give the number to another message.
type RowID struct {
	Number int64
	Nonce  int64 // random
}

// String returns the row as text that ParseRowID reads, such as 12-3fa91c.
func (r RowID) String() string { return fmt.Sprintf("%d-%x", r.Number, r.Nonce) }

// ParseRowID reads the result of RowID.String.
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
	Message  rehop.Message
	Created  time.Time
	Due      time.Time // when its delay is over, or until when it is kept; zero if it is ready or set aside
	Attempts int       // how often it was tried without success
	Size     int       // of its body, headers and properties, in bytes
	Error    string    // of its last attempt
}

// querier is a *sql.DB.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// Backlog counts the messages in the outbox, up to MaxCounted of each kind.
func (i Inspector) Backlog(ctx context.Context) (b Backlog, err error) {
	if err = i.sql().Check(); err == nil {
		b, err = count(ctx, i.DB, i.sql())
	}
	if err != nil {
		return Backlog{}, fmt.Errorf("outbox: count messages: %w", err)
	}
	return b, nil
}

// List returns messages in a state in the order of their rows, starting after the given row; the zero RowID starts at the first. It
// returns at most limit messages, and fewer if they have more than 32 MiB together: the list has ended when it returns none.
func (i Inspector) List(ctx context.Context, state State, after RowID, limit int) ([]Entry, error) {
	for {
		entries, rows, err := i.list(ctx, state, after, limit, inline, listBytes)
		if err == nil {
			err = loadBodies(ctx, i.DB, i.sql(), rows)
		}
		if err != nil {
			return nil, fmt.Errorf("outbox: list: %w", err)
		}
		there := entries[:0:0]
		for n, e := range entries {
			if rows[n].body == nil {
				continue // it was just deleted
			}
			if m, err := rows[n].message(); err == nil {
				e.Message = m
			} else {
				e.Message.Body = rows[n].body
			}
			there = append(there, e)
		}
		if len(there) > 0 || len(entries) == 0 {
			return there, nil
		}
		after = entries[len(entries)-1].Row // none is there anymore, which is not the end of the list
	}
}

// Summaries is List without the contents of the messages, which can be large: of each message there are the ID, the exchange, the routing
// key and the order key. It returns limit messages if there are as many.
func (i Inspector) Summaries(ctx context.Context, state State, after RowID, limit int) ([]Entry, error) {
	entries, _, err := i.list(ctx, state, after, limit, noContents, math.MaxInt)
	if err != nil {
		return nil, fmt.Errorf("outbox: list: %w", err)
	}
	return entries, nil
}

const (
	listBytes  = 32 << 20
	noContents = -1 // no row has contents that are this small
)

// list reads rows until they have a number of bytes. Contents up to the size whole are read with them.
func (i Inspector) list(ctx context.Context, state State, after RowID, limit, whole, most int) (entries []Entry, rows []row, err error) {
	numbers, err := state.numbers()
	if err == nil {
		err = i.sql().Check()
	}
	if err != nil {
		return nil, nil, err
	}
	query := "SELECT " + columnsUpTo(whole) + ", created, error FROM " + i.sql().Table("outbox") + " WHERE state IN (" + numbers + ") AND id > ? ORDER BY id LIMIT ?"
	found, err := i.DB.QueryContext(ctx, i.Dialect.Bind(query), after.Number, limit)
	if err != nil {
		return nil, nil, err
	}
	defer found.Close()
	for bytes := 0; bytes < most && found.Next(); {
		e := Entry{State: state}
		var created int64
		r, err := scan(found, &created, &e.Error)
		if err != nil {
			return nil, nil, err
		}
		e.Row, e.Attempts, e.Size, e.Created = RowID(r.identity()), r.attempts, r.size, time.UnixMicro(created)
		e.Message = rehop.Message{ID: r.messageID, Exchange: r.exchange, Key: r.routingKey, OrderKey: r.orderKey}
		if r.due > 0 {
			e.Due = time.UnixMicro(r.due)
		}
		entries, rows = append(entries, e), append(rows, r)
		bytes += r.size
	}
	return entries, rows, found.Err()
}

// Retry makes the relays publish messages that were set aside. It returns how many of the rows it changed: rows in another state, and rows
// that do not exist, are skipped. So a message that was published meanwhile is not published twice.
func (i Inspector) Retry(ctx context.Context, rows ...RowID) (int, error) {
	return i.publish(ctx, "retry", rows, "state = 3")
}

// Republish makes the relays publish messages once more that were published and kept. It returns how many of the rows it changed: rows in
// another state, and rows that do not exist, are skipped.
func (i Inspector) Republish(ctx context.Context, rows ...RowID) (int, error) {
	return i.publish(ctx, "republish", rows, "state = 4")
}

func (i Inspector) publish(ctx context.Context, verb string, rows []RowID, condition string) (int, error) {
	// Rows without an order key become due now: a relay rarely looks for ready rows with old ids.
	set := "due = CASE WHEN order_key = '' THEN " + i.Dialect.Now() + " ELSE 0 END, state = CASE WHEN order_key = '' THEN 2 ELSE 1 END, attempts = 0, error = ''"
	query, args := i.sql().UpdateRows(identities(rows), set, nil, condition)
	return i.change(ctx, verb, query, args)
}

// Discard deletes messages that were set aside. It returns how many of the rows it deleted: rows in another state, and rows that do not
// exist, are skipped.
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
