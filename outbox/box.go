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

// Tx is a transaction in which messages are published: a *sql.Tx, the result of inbox.From, or a pgx.Tx through outboxpgx.Tx. On MySQL
// it must also have the method QueryContext of a *sql.Tx, for messages with an OrderKey and for Cancel.
type Tx interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// Box writes messages to the outbox of a database. It is safe for concurrent use.
type Box struct {
	// Dialect is the kind of database. Required.
	Dialect dialect.Dialect
	// Tables are the names of rehop's tables. Default: rehop_outbox and so on.
	Tables dialect.Tables
}

// New returns the outbox of databases with this dialect whose tables have the default names.
func New(d dialect.Dialect) Box { return Box{Dialect: d} }

func (b Box) sql() sqltext.SQL { return sqltext.SQL{Dialect: b.Dialect, Tables: b.Tables} }

// Publish writes messages to the outbox in a transaction. A relay publishes them after the transaction has committed. A message without
// an ID gets a new one. To know the ID, set it to rehop.NewID(). The default of Timestamp is the time at which the message was written.
//
// A message with Delay or At waits in the table, not on the broker. So its exchange need not be one that rehop declares, and it can be
// canceled.
//
// Messages with the same OrderKey are published in the order in which their transactions commit, each after the one before is
// confirmed. Transactions with the same key wait for each other from Publish to their end. So publish late in the transaction, and all
// its messages in one call: transactions that lock several keys in separate calls can deadlock. A message that is set aside does not
// hold up the messages after it. A message with an OrderKey cannot be delayed.
//
// Publish returns ErrNoTransaction if tx is not in a transaction, and rehop.ErrInvalid for a message or a Dialect that cannot be right.
// In both cases nothing was done in the transaction. Other errors are those of the database. Publish cannot detect that the database has
// ended the transaction of a *sql.Tx, as MySQL does after CREATE TABLE. It does not check the size: the relay sets a message aside that
// is too large for the client or the broker. For a message that belongs to no transaction, see [Box.PublishNow].
func (b Box) Publish(ctx context.Context, tx Tx, messages ...rehop.Message) error {
	rows, err := b.rows(messages)
	if err != nil {
		return err
	}
	if err := checkGiven(tx); err != nil {
		return err
	}
	if _, err := asQuerier(tx); err != nil && b.Dialect == dialect.MySQL && slices.ContainsFunc(rows, func(r row) bool { return r.orderKey != "" }) {
		return fmt.Errorf("outbox: publish with an order key: %w", err)
	}
	if tx, err = b.inTransaction(ctx, tx); err != nil {
		return err
	}
	return b.write(ctx, tx, rows)
}

// PublishNow begins a transaction, writes messages to the outbox and commits. A relay publishes them. If it returns the error of the
// commit, they may have been written.
func (b Box) PublishNow(ctx context.Context, db *sql.DB, messages ...rehop.Message) error {
	rows, err := b.rows(messages)
	if err != nil {
		return err
	}
	tx, err := begin(ctx, db, b.Dialect, sql.LevelDefault)
	if err != nil {
		return fmt.Errorf("outbox: begin: %w", err)
	}
	if err := b.write(ctx, tx, rows); err != nil {
		return errors.Join(err, tx.rollback(ctx))
	}
	if err := tx.commit(ctx); err != nil {
		return fmt.Errorf("outbox: commit %d messages: %w", len(rows), err)
	}
	return nil
}

// rows returns the rows of messages, or all errors of messages that cannot be written.
func (b Box) rows(messages []rehop.Message) ([]row, error) {
	if err := b.sql().Check(); err != nil {
		return nil, fmt.Errorf("outbox: publish: %w: %w", rehop.ErrInvalid, err)
	}
	rows := make([]row, len(messages))
	var faults []error
	for i, m := range messages { // a copy: the caller may publish the same value again, as another message
		var err error
		if rows[i], err = newRow(&m); err != nil {
			faults = append(faults, fmt.Errorf("outbox: message %q to exchange %q with key %q: %w", m.ID, m.Exchange, m.Key, err))
		}
	}
	return rows, errors.Join(faults...)
}

func (b Box) write(ctx context.Context, tx Tx, rows []row) error {
	if err := b.serialize(ctx, tx, rows); err != nil {
		return fmt.Errorf("outbox: wait for the order key: %w", b.sql().Explain(err))
	}
	for len(rows) > 0 {
		n := chunk(rows)
		query, args := b.insert(rows[:n])
		if _, err := tx.ExecContext(ctx, query, args...); err != nil {
			return fmt.Errorf("outbox: insert into %s (messages: %d): %w", b.sql().Table("outbox"), n, b.sql().Explain(err))
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

// chunk returns how many of the rows fit into one INSERT.
func chunk(rows []row) int {
	n, size := 0, 0
	for n < len(rows) && n < chunkRows && (n == 0 || size+rows[n].size <= chunkBytes) {
		size += rows[n].size
		n++
	}
	return n
}

// serialize waits until no other transaction with the same keys is open. Many keys share few locks, so that the number of keys does not
// matter to the database. Locks are taken in one order, so that two calls cannot wait for each other.
func (b Box) serialize(ctx context.Context, tx Tx, rows []row) error {
	var buckets []int64
	for _, r := range rows {
		if r.orderKey != "" {
			buckets = append(buckets, int64(hash(r.orderKey)%sqltext.OrderBuckets))
		}
	}
	slices.Sort(buckets)
	buckets = slices.Compact(buckets)
	query, args := b.sql().Serialize(buckets)
	switch {
	case len(buckets) == 0 || query == "":
		return nil
	case b.Dialect != dialect.MySQL:
		_, err := tx.ExecContext(ctx, query, args...)
		return err
	}
	reader, err := asQuerier(tx)
	if err != nil {
		return err
	}
	locked, err := readNumbers(ctx, reader, query, args...)
	if err == nil && len(locked) < len(buckets) { // without its row, a bucket is not locked
		err = fmt.Errorf("table %s has %d of the %d rows to lock, because some were deleted: a relay restores them when it starts", b.Tables.Bare("outbox_order"), len(locked), len(buckets))
	}
	return err
}

// asQuerier returns the transaction as one that can run queries.
func asQuerier(tx Tx) (querier, error) {
	if reader, ok := tx.(querier); ok {
		return reader, nil
	}
	return nil, fmt.Errorf("%w: on MySQL the transaction needs a method QueryContext as a *sql.Tx has it, and a %T has none", rehop.ErrInvalid, tx)
}

func readNumbers(ctx context.Context, db querier, query string, args ...any) ([]int64, error) {
	return readAll(ctx, db, query, args, func(rows *sql.Rows) (n int64, err error) { return n, rows.Scan(&n) })
}

// readRowIDs reads the numbers and nonces of rows that a query finds.
func readRowIDs(ctx context.Context, db querier, query string, args ...any) ([]sqltext.Row, error) {
	return readAll(ctx, db, query, args, func(rows *sql.Rows) (r sqltext.Row, err error) { return r, rows.Scan(&r.Number, &r.Nonce) })
}

func readAll[T any](ctx context.Context, db querier, query string, args []any, scan func(*sql.Rows) (T, error)) (found []T, err error) {
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		one, err := scan(rows)
		if err != nil {
			return nil, err
		}
		found = append(found, one)
	}
	return found, rows.Err()
}

const insertColumns = "nonce, state, shard, due, created, size, message_id, exchange, routing_key, order_key, properties, headers, body"

func (b Box) insert(rows []row) (query string, args []any) {
	var values strings.Builder
	text, now, ready := b.sql(), b.Dialect.Now(), false
	for i, r := range rows {
		if i > 0 {
			values.WriteString(", ")
		}
		values.WriteString("(?, ?, ?, ")
		args = append(args, r.nonce, r.state, r.shard)
		if r.state == stateDelayed {
			values.WriteString(text.Later(now+" + ?", "?"))
			args = append(args, r.delay, r.at)
		} else {
			values.WriteString("0")
			ready = true
		}
		values.WriteString(", " + now + ", ?, ?, ?, ?, ?, ?, ?, ?)")
		args = append(args, r.size, r.messageID, r.exchange, r.routingKey, r.orderKey, r.properties, r.headers, r.body)
	}
	query = "INSERT INTO " + text.Table("outbox") + " (" + insertColumns + ") VALUES " + values.String()
	if ready {
		query = text.Announce(query)
	}
	return b.Dialect.Bind(query), args
}

// Cancel deletes a delayed message in a transaction. It returns true if the message was there, not yet due, and never given to the
// broker. If the transaction commits after the message was due, the message may have been published by then. Cancel returns
// ErrNoTransaction if tx is not in a transaction. On MySQL it finds what a plain SELECT in the transaction would find: with the default
// isolation level, REPEATABLE READ, these are the messages that were there at its first SELECT.
func (b Box) Cancel(ctx context.Context, tx Tx, messageID string) (bool, error) {
	if err := b.sql().Check(); err != nil {
		return false, fmt.Errorf("outbox: cancel: %w: %w", rehop.ErrInvalid, err)
	}
	if err := checkGiven(tx); err != nil {
		return false, err
	}
	cancel := b.cancelByID
	if b.Dialect == dialect.MySQL {
		cancel = b.cancelByRow
		if _, err := asQuerier(unwrap(tx)); err != nil {
			return false, fmt.Errorf("outbox: cancel: %w", err)
		}
	}
	tx, err := b.inTransaction(ctx, tx)
	if err != nil {
		return false, err
	}
	n, err := cancel(ctx, tx, messageID)
	if err != nil {
		return false, fmt.Errorf("outbox: cancel message %q: %w", messageID, err)
	}
	return n > 0, nil
}

func (b Box) cancelByID(ctx context.Context, tx Tx, messageID string) (n int, err error) {
	before, after := b.sql().Replan()
	if before != "" {
		_, err = tx.ExecContext(ctx, before)
	}
	if err == nil {
		n, err = affected(tx.ExecContext(ctx, b.sql().Cancel(), messageID))
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
	rows, err := readRowIDs(ctx, reader, b.sql().Canceled(), messageID)
	if err != nil || len(rows) == 0 {
		return 0, err
	}
	query, args := b.sql().DeleteCanceled(rows)
	return affected(tx.ExecContext(ctx, query, args...))
}

func affected(result sql.Result, err error) (int, error) {
	if err != nil {
		return 0, err
	}
	n, err := result.RowsAffected()
	return int(n), err
}
