package triage

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
)

// Put records failed messages in one transaction. It can be called again with the same messages: a message whose failure is known changes
// nothing, whatever its state is now. A message that fails again after a replay is the same message in the index, and its state is Failed
// again. Of two messages that are the same in every respect Put knows only one; [Store.Reconcile] counts both.
func (s *Store) Put(ctx context.Context, messages []Message) error {
	all, err := s.prepare(messages)
	if err != nil {
		return fmt.Errorf("triage: %w", err)
	}
	return s.put(ctx, all)
}

// put records messages in one transaction.
func (s *Store) put(ctx context.Context, all []incoming) error {
	if len(all) == 0 {
		return nil
	}
	err := s.write(ctx, func(w *writer) error {
		b, err := w.begin(ctx, all)
		if err != nil {
			return err
		}
		for i := range all {
			b.put(&all[i])
		}
		return b.flush(ctx)
	})
	if err != nil {
		return fmt.Errorf("triage: put %d messages: %w", len(all), err)
	}
	return nil
}

// batch is messages that are recorded in one transaction.
type batch struct {
	*writer
	counters *counters
	queues   map[string]*queueRow
	groups   map[string]int64
	rows     map[lineage][]*row

	added   []addition
	removed []int64 // rows that are replaced
	found   []*row  // rows that a sweep has seen
	revived []*row  // rows that a sweep has seen, and that were not known to be there
}

// addition is a new row.
type addition struct {
	*row
	in      *incoming
	ordered int64 // moment
}

// queueRow is a failed queue.
type queueRow struct{ number, generation int64 }

// begin reads all that decides what becomes of messages.
func (w *writer) begin(ctx context.Context, all []incoming) (*batch, error) {
	b := &batch{writer: w, counters: newCounters()}
	lineages := make([]lineage, 0, len(all))
	groups := make(map[string]*incoming)
	queues := make(map[string]bool)
	for i := range all {
		in := &all[i]
		lineages = append(lineages, in.lineage)
		groups[in.group] = in
		queues[in.message.FailedQueue] = true
	}
	slices.SortFunc(lineages, func(a, b lineage) int { return slices.Compare(a[:], b[:]) })
	var err error
	if b.rows, err = w.rowsOf(ctx, slices.Compact(lineages)); err != nil {
		return nil, err
	}
	again := make(map[lineage]bool) // there is another failure of it
	for i := range all {
		for _, r := range b.rows[all[i].lineage] {
			again[r.lineage] = again[r.lineage] || r.failure != all[i].failure
		}
	}
	if err := w.markLines(ctx, b.rows, func(r *row) bool { return again[r.lineage] }); err != nil {
		return nil, err
	}
	if b.queues, err = w.queueRows(ctx, queues); err != nil {
		return nil, err
	}
	b.groups, err = w.groupNumbers(ctx, groups)
	return b, err
}

// queueRows reads the rows of failed queues, and creates those that are missing.
func (w *writer) queueRows(ctx context.Context, names map[string]bool) (map[string]*queueRow, error) {
	args := make([]any, 0, len(names))
	for name := range names {
		args = append(args, []byte(name))
	}
	table := w.store.table("queue")
	numbers, err := w.numbersOf(ctx, "queue", "name", args, func(name any) string { return string(name.([]byte)) }, func(number int64, name any) error {
		_, err := w.ExecContext(ctx, w.store.sql.Bind("INSERT INTO "+table+" (number, name, generation, failed, swept) VALUES (?, ?, 0, 0, 0)"), number, name)
		return err
	})
	if err != nil {
		return nil, err
	}
	found := make(map[string]*queueRow, len(numbers))
	for name, number := range numbers {
		q := &queueRow{number: number}
		if err := w.QueryRowContext(ctx, w.store.sql.Bind("SELECT generation FROM "+table+" WHERE number = ?"), number).Scan(&q.generation); err != nil {
			return nil, err
		}
		found[name] = q
	}
	return found, nil
}

// groupNumbers reads the numbers of groups, and creates those that are missing, each with a message of it.
func (w *writer) groupNumbers(ctx context.Context, groups map[string]*incoming) (map[string]int64, error) {
	args := make([]any, 0, len(groups))
	for id := range groups {
		args = append(args, id)
	}
	slices.SortFunc(args, func(a, b any) int { return cmp.Compare(a.(string), b.(string)) })
	return w.numbersOf(ctx, "group", "fingerprint", args, func(id any) string { return id.(string) }, func(number int64, id any) error {
		in := groups[id.(string)]
		_, err := w.ExecContext(ctx, w.store.sql.Bind("INSERT INTO "+w.store.table("group")+
			" (number, fingerprint, version, queue, kind, title, sample, state, decided, assignee, note, first_seen, last_seen, hosts, versions, total, failed, kept, replayed, succeeded, discarded, gone)"+
			" VALUES (?, ?, ?, ?, ?, ?, ?, 0, 0, ?, ?, 0, 0, ?, ?, 0, 0, 0, 0, 0, 0, 0)"),
			number, id, w.store.grouping.Version, bytesOf(in.message.Queue), bytesOf(in.message.Kind), bytesOf(in.title), []byte{}, []byte{}, []byte{}, []byte{}, []byte{})
		return err
	})
}

// put decides what becomes of a message from the feed.
func (b *batch) put(in *incoming) {
	rows := b.rows[in.lineage]
	for _, r := range rows {
		// Known, or older than what is known.
		if r.failure == in.failure || in.failure.replays < r.failure.replays {
			return
		}
	}
	if r := earlier(rows, in, func(*row) bool { return true }); r != nil {
		b.replace(r, in)
		return
	}
	b.add(in)
}

// earlier finds the row of an earlier failure of the same message: one that is not in its failed queue any more, or of which a failure with
// more replays shows that it has left it. A message in the store has not failed again: another one has the same id. Nor has one of which it is not known
// whether a run has taken it out of its queue: the row is needed to find what the store has of it.
func earlier(rows []*row, in *incoming, isFree func(*row) bool) *row {
	for _, r := range rows {
		left := states[r.state] != Failed || r.failure.replays < in.failure.replays
		if isFree(r) && left && !r.lined && r.failure.before(in.failure) {
			return r
		}
	}
	return nil
}

// add adds a row for a message.
func (b *batch) add(in *incoming) *row {
	ordinal := 0
	for _, r := range b.rows[in.lineage] {
		ordinal = max(ordinal, r.ordinal+1)
	}
	r := &row{lineage: in.lineage, ordinal: ordinal}
	b.rows[in.lineage] = append(b.rows[in.lineage], r)
	b.fill(r, in)
	return r
}

// replace records a new failure of a message. Its row gets another number, because lists are in the order of failures.
func (b *batch) replace(r *row, in *incoming) {
	b.counters.count(r.group, r.queue, r.state, -1)
	if r.id != 0 {
		b.removed = append(b.removed, r.id)
	} else { // it was added by this batch
		b.added = slices.DeleteFunc(b.added, func(a addition) bool { return a.row == r })
	}
	b.fill(r, in)
}

// fill makes a row that of a failure. Its number is drawn later.
func (b *batch) fill(r *row, in *incoming) {
	queue := b.queues[in.message.FailedQueue]
	ordered := in.ordered
	if ordered == 0 {
		ordered = b.now / 1000
	}
	ordered = min(ordered, b.now/1000+clockSlack) // a wrong clock, or a forged time: the message must not head all lists for years
	first := micros(cmp.Or(moment(in.message.FirstFailed), ordered))
	if r.first != 0 {
		first = min(first, r.first)
	}
	r.id, r.group, r.queue, r.state, r.failure, r.first = 0, b.groups[in.group], queue.number, Failed.number(), in.failure, first
	r.born = queue.generation
	b.counters.count(r.group, r.queue, r.state, 1)
	b.counters.failure(r.group, in, ordered)
	b.added = append(b.added, addition{r, in, ordered})
}

// flush writes what was decided.
func (b *batch) flush(ctx context.Context) error {
	if err := b.remove(ctx, b.removed); err != nil {
		return err
	}
	if err := b.drawNumbers(ctx); err != nil {
		return err
	}
	if err := b.insertAll(ctx); err != nil {
		return err
	}
	if err := b.setStates(ctx, b.counters, b.revived, Failed, ""); err != nil {
		return err
	}
	if err := b.setSeen(ctx); err != nil {
		return err
	}
	return b.counters.flush(ctx, b.writer)
}

// remove deletes rows of messages with all that belongs to them.
func (w *writer) remove(ctx context.Context, ids []int64) error {
	for _, table := range []string{"message", "content"} {
		if err := w.deleteRows(ctx, table, "id", ids); err != nil {
			return err
		}
	}
	return w.removeTerms(ctx, ids)
}

func scanNumber(rows *sql.Rows) (n int64, err error) { return n, rows.Scan(&n) }

const (
	messageColumns = "id, lineage, ordinal, group_number, queue_number, state, partial, attempts, replays, failure, digest, ordered, first_failed, changed, seen, born, size, " +
		"message_id, queue, exchange, routing_key, kind, host, version, run, error"
	messageValues = "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)

// insertAll inserts the new rows, in the order of their numbers: an index of text in SQLite writes all that it has collected when the next
// number is lower.
func (b *batch) insertAll(ctx context.Context) error {
	messages, contents, terms := make([][]any, len(b.added)), make([][]any, len(b.added)), make([]messageTerms, len(b.added))
	for i, a := range b.added {
		m, partial := a.in.message, 0
		if a.in.partial {
			partial = 1
		}
		messages[i] = []any{a.row.id, a.lineage[:], a.row.ordinal, a.group, a.queue, a.state, partial, a.failure.attempts, a.failure.replays, micros(a.failure.at), a.failure.digest, micros(a.ordered), a.first,
			b.turn, a.seen, a.born, len(m.Body), bytesOf(m.ID), bytesOf(m.Queue), bytesOf(m.Exchange), bytesOf(m.Key), bytesOf(m.Kind), bytesOf(m.Host), bytesOf(m.Version), bytesOf(a.run), bytesOf(m.Error)}
		contents[i] = []any{a.row.id, a.in.properties, a.in.headers, bytesOf(m.Stack), a.in.body}
		terms[i] = messageTerms{a.row.id, a.in.terms}
	}
	if err := b.insert(ctx, b.store.table("message"), messageColumns, messageValues, messages); err != nil {
		return err
	}
	if err := b.insert(ctx, b.store.table("content"), "id, properties, headers, stack, body", "(?, ?, ?, ?, ?)", contents); err != nil {
		return err
	}
	return b.insertTerms(ctx, terms)
}

func scanPair(rows *sql.Rows) (p [2]int64, err error) { return p, rows.Scan(&p[0], &p[1]) }
