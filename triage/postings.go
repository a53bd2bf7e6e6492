package triage

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/binary"
	"slices"
	"strconv"
	"strings"

	"github.com/rehop/rehop/dialect"
)

// messageTerms are the terms of a message.
type messageTerms struct {
	id    int64
	terms []term
}

// insertTerms makes messages be found by their terms.
func (w *writer) insertTerms(ctx context.Context, all []messageTerms) error {
	rows := make([][]any, len(all))
	for i, m := range all {
		rows[i] = []any{m.id, w.store.termsValue(m.terms)}
	}
	values := "(?, ?)"
	if w.store.sql.Dialect == dialect.Postgres {
		values = "(?, CAST(? AS BIGINT[]))"
	}
	if err := w.insert(ctx, w.store.table("terms"), w.store.termsKey()+", terms", values, rows); err != nil || w.store.sql.Dialect != dialect.MySQL {
		return err
	}
	return eachPosting(all, func(pairs string) error {
		_, err := w.ExecContext(ctx, "INSERT INTO "+w.store.table("posting")+" (term, id) VALUES "+pairs)
		return err
	}, '(', ')')
}

// removeTerms makes messages not be found any more.
func (w *writer) removeTerms(ctx context.Context, ids []int64) error {
	if w.store.sql.Dialect == dialect.MySQL {
		if err := inChunks(ids, func(some []int64) error { return w.removePostings(ctx, some) }); err != nil {
			return err
		}
	}
	return w.deleteRows(ctx, "terms", w.store.termsKey(), ids)
}

func (w *writer) removePostings(ctx context.Context, ids []int64) error {
	all, err := readAll(ctx, w, w.store.sql.Bind("SELECT id, terms FROM "+w.store.table("terms")+" WHERE id IN ("+marks(len(ids))+")"), anyArgs(ids), func(rows *sql.Rows) (m messageTerms, err error) {
		var list []byte
		err = rows.Scan(&m.id, &list)
		for ; len(list) >= 8; list = list[8:] {
			m.terms = append(m.terms, term(binary.BigEndian.Uint64(list)))
		}
		return m, err
	})
	if err != nil {
		return err
	}
	const pairs = "JSON_TABLE(?, '$[*]' COLUMNS (term BIGINT PATH '$[0]', id BIGINT PATH '$[1]')) AS old"
	return eachPosting(all, func(list string) error {
		_, err := w.ExecContext(ctx, "DELETE p FROM "+pairs+" STRAIGHT_JOIN "+w.store.table("posting")+" AS p WHERE p.term = old.term AND p.id = old.id", "["+list+"]")
		return err
	}, '[', ']')
}

// postingsSome is how many pairs of a term and a message one statement has.
const postingsSome = 2000

// eachPosting calls do with lists of pairs, in the order in which MySQL stores them. They are numbers that need not be escaped.
func eachPosting(all []messageTerms, do func(pairs string) error, open, closing byte) error {
	type pair struct {
		term term
		id   int64
	}
	var pairs []pair
	for _, m := range all {
		for _, t := range m.terms {
			pairs = append(pairs, pair{t, m.id})
		}
	}
	slices.SortFunc(pairs, func(a, b pair) int { return cmp.Or(cmp.Compare(a.term, b.term), cmp.Compare(a.id, b.id)) })
	for some := range slices.Chunk(pairs, postingsSome) {
		list := make([]byte, 0, 40*len(some))
		for i, p := range some {
			if i > 0 {
				list = append(list, ',')
			}
			list = strconv.AppendUint(append(list, open), uint64(p.term), 10)
			list = strconv.AppendInt(append(list, ','), p.id, 10)
			list = append(list, closing)
		}
		if err := do(string(list)); err != nil {
			return err
		}
	}
	return nil
}

// termsKey is the column of the table of terms that has the id of the message.
func (s *Store) termsKey() string {
	if s.sql.Dialect == dialect.SQLite {
		return "rowid"
	}
	return "id"
}

// termsValue is a list of terms for the database.
func (s *Store) termsValue(terms []term) any {
	out := make([]byte, 0, 20*len(terms)+2)
	switch s.sql.Dialect {
	case dialect.Postgres:
		out = append(out, '{')
		for i, t := range terms {
			if i > 0 {
				out = append(out, ',')
			}
			out = strconv.AppendUint(out, uint64(t), 10)
		}
		return string(append(out, '}'))
	case dialect.MySQL:
		for _, t := range terms {
			out = binary.BigEndian.AppendUint64(out, uint64(t))
		}
		return out
	}
	for i, t := range terms {
		if i > 0 {
			out = append(out, ' ')
		}
		out = t.appendCompact(out)
	}
	return string(out)
}

// frequent is up to which number the messages of a term are counted to find the best order of conditions.
const frequent = 2000

// drive chooses the terms whose messages MySQL reads first: those of which there are fewest.
func (p *plan) drive(ctx context.Context) error {
	if p.store.sql.Dialect != dialect.MySQL || len(p.must) == 0 {
		return nil
	}
	best, fewest := -1, 0
	for i, list := range p.must {
		var n int
		query := "SELECT COUNT(*) FROM (SELECT 1 FROM " + p.store.table("posting") + " WHERE term IN (" + marks(len(list)) + ") LIMIT ?) AS counted"
		if err := p.db.QueryRowContext(ctx, query, append(anyArgs(list.numbers()), frequent)...).Scan(&n); err != nil {
			return err
		}
		if best < 0 || n < fewest {
			best, fewest = i, n
		}
	}
	switch {
	case fewest == 0:
		p.none = true
	case len(p.must[best]) == 1 || fewest < frequent:
		p.driver = p.must[best]
		p.must = slices.Delete(p.must, best, best+1)
	}
	return nil
}

// numbers are the terms as arguments.
func (l anyOf) numbers() []int64 {
	all := make([]int64, len(l))
	for i, t := range l {
		all[i] = int64(t)
	}
	return all
}

// mysqlFrom are the tables of a plan on MySQL, in the order in which they are read, and the conditions on terms. Subqueries count, because
// the servers would turn EXISTS into joins and choose the order.
func (p *plan) mysqlFrom() (from, number string, where []string, args []any) {
	posting := p.store.table("posting")
	from, number = p.store.table("message")+" m", "m.id"
	switch len(p.driver) {
	case 0:
	case 1:
		from, number = posting+" d STRAIGHT_JOIN "+from+" ON m.id = d.id", "d.id"
		where, args = append(where, "d.term = ?"), append(args, int64(p.driver[0]))
	default:
		parts := strings.Repeat("SELECT id FROM "+posting+" WHERE term = ? UNION ", len(p.driver))
		from = "(" + strings.TrimSuffix(parts, " UNION ") + ") d STRAIGHT_JOIN " + from + " ON m.id = d.id"
		args = append(args, anyArgs(p.driver.numbers())...)
	}
	count := func(list anyOf, condition string) {
		where = append(where, "(SELECT COUNT(*) FROM "+posting+" e WHERE e.id = m.id AND e.term IN ("+marks(len(list))+")) "+condition)
		args = append(args, anyArgs(list.numbers())...)
	}
	for _, list := range p.must {
		count(list, "> 0")
	}
	if len(p.not) > 0 {
		count(p.not, "= 0")
	}
	return from, number, where, args
}
