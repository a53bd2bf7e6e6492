package outbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/dialect"
	"github.com/rehop/rehop/internal/sqltext"
)

// Message is a message for the outbox.
//
// Delay and At keep it in the table, not on the broker, so its exchange need not be one that rehop declares, and it can be canceled.
// By default its timestamp is when it was put into the outbox.
type Message struct {
	rehop.Message
	// OrderKey: messages with the same key are published in the order in which their transactions commit, each when the one before
	// was confirmed. Transactions with the same key wait for each other from Publish to their end, so publish late in the
	// transaction; two that publish several keys in different order can deadlock, which the database reports to one of them. A message that
	// is set aside does not hold up those behind it. It cannot be delayed. Default: none; no order is kept.
	OrderKey string
}

// Tx is a transaction in which messages are published: a *sql.Tx, what inbox.From returns, or a pgx.Tx by way of outboxpgx.Tx. On MySQL
// it must have the method QueryContext of a *sql.Tx, too, for messages with an OrderKey and for Cancel.
type Tx interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// Box puts messages into the outbox of a database. It is safe for concurrent use.
type Box struct{ dialect dialect.Dialect }

// New is the outbox of databases with this dialect.
func New(d dialect.Dialect) Box { return Box{d} }

// Publish writes messages in a transaction. They will be published if and when it commits. Messages without an id get one, which the
// caller sees if it has passed a slice. An error that is rehop.ErrInvalid or rehop.ErrTooLarge comes before anything was done in
// the transaction; other errors are the database's.
func (b Box) Publish(ctx context.Context, tx Tx, messages ...Message) error {
	if err := b.dialect.Check(); err != nil {
		return fmt.Errorf("outbox: publish: %w", err)
	}
	rows := make([]row, len(messages))
	var faults []error
	for i := range messages {
		var err error
		if rows[i], err = newRow(&messages[i]); err != nil {
			faults = append(faults, fmt.Errorf("outbox: message %q to exchange %q with key %q: %w", messages[i].ID, messages[i].Exchange, messages[i].Key, err))
		}
	}
	if len(faults) > 0 {
		return errors.Join(faults...)
	}
	if err := b.serialize(ctx, tx, rows); err != nil {
		return fmt.Errorf("outbox: wait for the order key: %w", err)
	}
	for len(rows) > 0 {
		n := chunk(rows)
		query, args := b.insert(rows[:n])
		if _, err := tx.ExecContext(ctx, query, args...); err != nil {
			return fmt.Errorf("outbox: write %d messages: %w", n, err)
		}
		rows = rows[n:]
	}
	return nil
}

// Bounds of one INSERT: databases limit its arguments and its size.
const (
	chunkRows  = 100
	chunkBytes = 4 << 20
)

// chunk is how many of the rows go into one INSERT.
func chunk(rows []row) int {
	n, size := 0, 0
	for n < len(rows) && n < chunkRows && (n == 0 || size+rows[n].size <= chunkBytes) {
		size += rows[n].size
		n++
	}
	return n
}

// serialize waits until no other transaction with the same keys is under way. It takes keys in one order, so that two calls cannot
// wait for each other.
func (b Box) serialize(ctx context.Context, tx Tx, rows []row) error {
	var numbers []uint32
	for _, r := range rows {
		if r.orderKey != "" {
			numbers = append(numbers, sqltext.OrderNumber(b.dialect, hash(r.orderKey)))
		}
	}
	switch tx.(type) {
	case *sql.DB, *sql.Conn:
		if len(numbers) > 0 {
			return fmt.Errorf("%w: an order is that of transactions, and a %T is none", rehop.ErrInvalid, tx)
		}
	}
	slices.Sort(numbers)
	for _, number := range slices.Compact(numbers) {
		if err := b.lock(ctx, tx, number); err != nil {
			return err
		}
	}
	return nil
}

func (b Box) lock(ctx context.Context, tx Tx, number uint32) error {
	query, args := sqltext.Serialize(b.dialect, number)
	switch {
	case query == "":
		return nil
	case b.dialect != dialect.MySQL:
		_, err := tx.ExecContext(ctx, query, args...)
		return err
	}
	reader, err := asQuerier(tx)
	if err != nil {
		return err
	}
	found, err := readNumbers(ctx, reader, query, args...)
	if err == nil && len(found) == 0 { // then nothing was locked, and nobody waits for anybody
		err = fmt.Errorf("table rehop_outbox_order has no row %d to lock, because somebody has deleted it: a relay puts it back when it starts", number)
	}
	return err
}

// asQuerier is a transaction that can be asked something.
func asQuerier(tx Tx) (querier, error) {
	if reader, ok := tx.(querier); ok {
		return reader, nil
	}
	return nil, fmt.Errorf("%w: on MySQL the transaction needs a method QueryContext as a *sql.Tx has it, and a %T has none", rehop.ErrInvalid, tx)
}

// readNumbers reads a column of numbers.
func readNumbers(ctx context.Context, db querier, query string, args ...any) (found []int64, err error) {
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var n int64
		if err := rows.Scan(&n); err != nil {
			return nil, err
		}
		found = append(found, n)
	}
	return found, rows.Err()
}

const insertColumns = "state, shard, due, created, size, message_id, exchange, routing_key, order_key, properties, headers, body"

func (b Box) insert(rows []row) (query string, args []any) {
	var values strings.Builder
	now, ready := b.dialect.Now(), false
	for i, r := range rows {
		if i > 0 {
			values.WriteString(", ")
		}
		values.WriteString("(?, ?, ")
		args = append(args, r.state, r.shard)
		if r.state == stateDelayed {
			values.WriteString(sqltext.Later(b.dialect, now+" + ?", "?"))
			args = append(args, r.delay, r.at)
		} else {
			values.WriteString("0")
			ready = true
		}
		values.WriteString(", " + now + ", ?, ?, ?, ?, ?, ?, ?, ?)")
		args = append(args, r.size, r.messageID, r.exchange, r.routingKey, r.orderKey, r.properties, r.headers, r.body)
	}
	query = "INSERT INTO rehop_outbox (" + insertColumns + ") VALUES " + values.String()
	if ready {
		query = sqltext.Announce(b.dialect, query)
	}
	return b.dialect.Bind(query), args
}

// Cancel takes a delayed message back, and tells whether it was there, not yet due, and never given to the broker. If the transaction
// commits only after the message was due, it may have been published by then. On MySQL it finds what a plain SELECT in the
// transaction would find: in a transaction with REPEATABLE READ, which is the default, that is what was there at its first SELECT.
func (b Box) Cancel(ctx context.Context, tx Tx, messageID string) (bool, error) {
	if err := b.dialect.Check(); err != nil {
		return false, fmt.Errorf("outbox: cancel: %w", err)
	}
	cancel := b.cancelByID
	if b.dialect == dialect.MySQL {
		cancel = b.cancelByRow
	}
	n, err := cancel(ctx, tx, messageID)
	if err != nil {
		return false, fmt.Errorf("outbox: cancel message %q: %w", messageID, err)
	}
	return n > 0, nil
}

func (b Box) cancelByID(ctx context.Context, tx Tx, messageID string) (n int, err error) {
	before, after := sqltext.Replan(b.dialect)
	if before != "" {
		_, err = tx.ExecContext(ctx, before)
	}
	if err == nil {
		n, err = affected(tx.ExecContext(ctx, sqltext.Cancel(b.dialect), messageID))
	}
	if err == nil && after != "" {
		_, err = tx.ExecContext(ctx, after)
	}
	return n, err
}

func (b Box) cancelByRow(ctx context.Context, tx Tx, messageID string) (int, error) {
	reader, err := asQuerier(tx)
	if err != nil {
		return 0, err
	}
	rows, err := readNumbers(ctx, reader, sqltext.Canceled(b.dialect), messageID)
	if err != nil || len(rows) == 0 {
		return 0, err
	}
	query, args := sqltext.DeleteCanceled(b.dialect, rows)
	return affected(tx.ExecContext(ctx, query, args...))
}

// affected is how many rows a statement has changed.
func affected(result sql.Result, err error) (int, error) {
	if err != nil {
		return 0, err
	}
	n, err := result.RowsAffected()
	return int(n), err
}
