package triage

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rehop/rehop/internal/headerjson"
)

// incoming is a message that is to be recorded, with all that can be computed before a transaction begins.
type incoming struct {
	message    *Message
	lineage    lineage
	failure    failure
	ordered    int64 // moment; 0 if the message has no time at all
	group      string
	title      string
	terms      []term
	partial    bool
	headers    []byte
	properties []byte
	body       []byte // not nil
}

// properties are those of AMQP that lists do not show.
type properties struct {
	ContentType     []byte `json:"content_type,omitempty"` // bytes: none of these need be in UTF-8
	ContentEncoding []byte `json:"content_encoding,omitempty"`
	Priority        uint8  `json:"priority,omitempty"`
	Timestamp       int64  `json:"timestamp,omitempty"` // Unix seconds
	CorrelationID   []byte `json:"correlation_id,omitempty"`
	ReplyTo         []byte `json:"reply_to,omitempty"`
	Type            []byte `json:"type,omitempty"`
	AppID           []byte `json:"app_id,omitempty"`
}

// prepare computes what is recorded of messages.
func (s *Store) prepare(messages []Message) ([]incoming, error) {
	all, errs := s.prepareEach(messages)
	return all, cmp.Or(errs...)
}

// prepareEach is prepare, on all processors, with an error for each message.
func (s *Store) prepareEach(messages []Message) ([]incoming, []error) {
	all := make([]incoming, len(messages))
	errs := make([]error, len(messages))
	var next atomic.Int64
	var working sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), (len(messages)+9)/10) {
		working.Go(func() {
			known := make(knownTerms)
			for i := next.Add(1) - 1; i < int64(len(messages)); i = next.Add(1) - 1 {
				errs[i] = s.prepareOne(&messages[i], &all[i], known)
			}
		})
	}
	working.Wait()
	return all, errs
}

func (s *Store) prepareOne(m *Message, in *incoming, known knownTerms) (err error) {
	if err := m.check(); err != nil {
		return err
	}
	if in.lineage, err = lineageOf(m); err != nil {
		return err
	}
	if in.headers, err = headerjson.Marshal(m.Headers); err != nil {
		return fmt.Errorf("message %q in queue %q: %w", m.ID, m.FailedQueue, err)
	}
	p := properties{
		ContentType: []byte(m.ContentType), ContentEncoding: []byte(m.ContentEncoding), Priority: m.Priority,
		CorrelationID: []byte(m.CorrelationID), ReplyTo: []byte(m.ReplyTo), Type: []byte(m.Type), AppID: []byte(m.AppID),
	}
	if !m.Timestamp.IsZero() {
		p.Timestamp = m.Timestamp.Unix()
	}
	if in.properties, err = json.Marshal(p); err != nil {
		return err
	}
	terms := termsOf(m, known)
	in.message, in.failure, in.ordered = m, failureOf(m), moment(m.failedAt())
	in.group, in.title = s.grouping.groupID(m)
	in.terms, in.partial = terms.sortedWith(known.term(termGroup, in.group)), terms.full
	in.body = notNil(m.Body)
	if s.maxLine > 0 && len(m.Body)+len(m.Stack)+len(in.headers) > s.maxLine { // otherwise each sweep of its failed queue would fail
		in.body, in.partial = []byte{}, true
	}
	return nil
}

// row is what the index needs of a message to decide what becomes of it.
type row struct {
	id      int64
	lineage lineage
	ordinal int
	group   int64
	queue   int64 // the number of the failed queue
	state   int
	failure failure
	first   int64 // micros
	changed int64 // the turn in which it has failed, or has changed its state
	seen    int64
	born    int64
	run     string
	other   bool // it was read, and does not match
	lined   bool // the store has its contents, as far as markLines was asked
	stored  bool // it is not in its failed queue but in the store
}

const rowColumns = "id, lineage, ordinal, group_number, queue_number, state, attempts, replays, failure, digest, first_failed, changed, seen, born, run"

func scanRow(rows *sql.Rows) (*row, error) {
	var r row
	var key, run []byte
	var failed int64
	err := rows.Scan(r.columns(&key, &failed, &run)...)
	r.complete(key, failed, run)
	return &r, err
}

// columns are where rowColumns are read to, and complete sets the rest.
func (r *row) columns(key *[]byte, failed *int64, run *[]byte) []any {
	return []any{&r.id, key, &r.ordinal, &r.group, &r.queue, &r.state, &r.failure.attempts, &r.failure.replays, failed, &r.failure.digest, &r.first, &r.changed, &r.seen, &r.born, run}
}

func (r *row) complete(key []byte, failed int64, run []byte) {
	copy(r.lineage[:], key)
	r.failure.at, r.run = failed/1000, string(run)
}

// rowsOf reads the rows of some lineages.
func (w *writer) rowsOf(ctx context.Context, lineages []lineage) (map[lineage][]*row, error) {
	return w.store.rowsOf(ctx, w, lineages)
}

func (s *Store) rowsOf(ctx context.Context, db querier, lineages []lineage) (map[lineage][]*row, error) {
	found := make(map[lineage][]*row, len(lineages))
	err := inChunks(lineages, func(some []lineage) error {
		args := make([]any, len(some))
		for i := range some {
			args[i] = some[i][:]
		}
		query := "SELECT " + rowColumns + " FROM " + s.table("message") + " WHERE lineage IN (" + marks(len(some)) + ") ORDER BY lineage, ordinal"
		rows, err := readAll(ctx, db, s.sql.Bind(query), args, scanRow)
		for _, r := range rows {
			found[r.lineage] = append(found[r.lineage], r)
		}
		return err
	})
	return found, err
}

// listed are the columns of a message in a list, with those of its group and failed queue.
const listed = "m.id, m.lineage, m.ordinal, g.fingerprint, q.name, m.state, m.partial, m.attempts, m.replays, m.failure, m.ordered, m.first_failed, m.changed, m.size, " +
	"m.message_id, m.queue, m.exchange, m.routing_key, m.kind, m.host, m.version, m.run, m.error"

// contents are the columns of the rest of a message.
const contents = "c.properties, c.headers, c.stack, c.body"

// listedFrom are the tables that have these columns.
func (s *Store) listedFrom() string {
	return s.table("message") + " m JOIN " + s.table("group") + " g ON g.number = m.group_number JOIN " + s.table("queue") + " q ON q.number = m.queue_number"
}

func (s *Store) contentsFrom() string {
	return s.listedFrom() + " JOIN " + s.table("content") + " c ON c.id = m.id"
}

// stored is a message as it was read, with its number.
type stored struct {
	Message
	number int64
}

func scanListed(rows *sql.Rows) (stored, error)   { return scanMessage(rows, false) }
func scanContents(rows *sql.Rows) (stored, error) { return scanMessage(rows, true) }

// scanVerified reads a row with the text of its message, and marks it if that does not match a query.
func scanVerified(rows *sql.Rows, q Query) (*row, error) {
	var r row
	var key, run []byte
	var failed int64
	s, err := scanMessage(rows, true, r.columns(&key, &failed, &run)...)
	if err != nil {
		return nil, err
	}
	r.complete(key, failed, run)
	r.other = !q.verify(&s.Message)
	return &r, nil
}

func scanMessage(rows *sql.Rows, whole bool, more ...any) (s stored, err error) {
	var l lineage
	var ordinal, state, partial int
	var failed, ordered, first, changed int64
	var key, queueName, id, queue, exchange, routing, kind, host, version, run, text, props, headers, stack []byte
	m := &s.Message
	to := []any{&s.number, &key, &ordinal, &m.Group, &queueName, &state, &partial, &m.Attempts, &m.Replays, &failed, &ordered, &first, &changed, &m.Size,
		&id, &queue, &exchange, &routing, &kind, &host, &version, &run, &text}
	if whole {
		to = append(to, &props, &headers, &stack, &m.Body)
	}
	if err := rows.Scan(append(to, more...)...); err != nil {
		return s, err
	}
	if state < 0 || state >= len(states) {
		return s, fmt.Errorf("a message has the unknown state %d: it was written by a newer version of rehop", state)
	}
	copy(l[:], key)
	m.Ref, m.State, m.Partial, m.Changed = l.ref(ordinal), states[state], partial == 1, timeOfMicros(changed)
	m.ID, m.FailedQueue, m.Queue, m.Exchange, m.Key = string(id), string(queueName), string(queue), string(exchange), string(routing)
	m.Kind, m.Host, m.Version, m.Run, m.Error = string(kind), string(host), string(version), string(run), string(text)
	m.FailedAt, m.FirstFailed = timeOfMicros(ordered), timeOfMicros(first)
	if !whole {
		return s, nil
	}
	if m.Body == nil {
		m.Body = []byte{}
	}
	m.Stack = string(stack)
	if m.Headers, err = headerjson.Unmarshal(headers); err != nil {
		return s, err
	}
	var p properties
	if err := json.Unmarshal(props, &p); err != nil {
		return s, err
	}
	m.ContentType, m.ContentEncoding, m.Priority = string(p.ContentType), string(p.ContentEncoding), p.Priority
	m.CorrelationID, m.ReplyTo, m.Type, m.AppID = string(p.CorrelationID), string(p.ReplyTo), string(p.Type), string(p.AppID)
	if p.Timestamp != 0 {
		m.Timestamp = time.Unix(p.Timestamp, 0).UTC()
	}
	return s, nil
}

// Message returns a message with everything that the index has of it, by its Ref.
func (s *Store) Message(ctx context.Context, ref string) (Message, error) {
	l, ordinal, err := parseRef(ref)
	if err != nil {
		return Message{}, fmt.Errorf("triage: %w: %w", ErrNotFound, err)
	}
	query := "SELECT " + listed + ", " + contents + " FROM " + s.contentsFrom() + " WHERE m.lineage = ? AND m.ordinal = ?"
	found, err := readAll(ctx, s.db, s.sql.Bind(query), []any{l[:], ordinal}, scanContents)
	switch {
	case err != nil:
		return Message{}, fmt.Errorf("triage: read message %s: %w", ref, err)
	case len(found) == 0:
		return Message{}, fmt.Errorf("triage: message %s: %w", ref, ErrNotFound)
	}
	return found[0].Message, nil
}
