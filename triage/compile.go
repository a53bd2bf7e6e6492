package triage

import (
	"context"
	"database/sql"
	"strings"

	"github.com/rehop/rehop/dialect"
)

// plan is a query in SQL. All values of the query are arguments.
type plan struct {
	store  *Store
	db     querier // what it asks to find the best order
	must   []anyOf // of each list, a message has a term
	driver anyOf   // and of this one, whose messages are read first
	not    []term  // of these, it has none
	where  []string
	args   []any
	first  int64 // the numbers begin with it
	end    int64 // and end before it, if it is not 0
	none   bool  // nothing can match
}

// spill is how much later than its failure the number of a message can be, in milliseconds, because the numbers of its moment were taken.
// A minute has numbers for 15 million messages that failed in the same millisecond. A search reads the messages of that time in vain.
const spill = 60 * 1000

// compile makes a plan of a query. What terms cannot express is left to Query.verify.
func (s *Store) compile(ctx context.Context, db querier, q Query) (*plan, error) {
	p := &plan{store: s, db: db}
	for i := range q.conditions {
		c := &q.conditions[i]
		lists := c.terms()
		switch {
		case c.negated && c.needsText(): // the terms may be there without being next to each other
		case lists != nil && c.negated:
			for _, list := range lists {
				p.not = append(p.not, list...)
			}
		case lists != nil:
			p.must = append(p.must, lists...)
		case c.field == inGroup:
			if err := p.group(ctx, c); err != nil {
				return nil, err
			}
		default:
			p.column(c)
		}
	}
	return p, p.drive(ctx)
}

func (p *plan) add(condition string, args ...any) {
	p.where, p.args = append(p.where, condition), append(p.args, args...)
}

// column is a condition on the columns of a message.
func (p *plan) column(c *condition) {
	equal := " = ?"
	if c.negated {
		equal = " <> ?"
	}
	switch c.field {
	case since:
		p.add("m.ordered >= ?", micros(c.moment))
		p.first = max(p.first, firstNumber(c.moment))
	case until:
		p.add("m.ordered < ?", micros(c.moment))
		p.endBefore(firstNumber(c.moment + spill))
	case inState:
		p.add("m.state"+equal, State(c.value).number())
	case changedByID:
		p.add("m.run"+equal, bytesOf(c.value))
	default:
		column := "m." + names[c.field].column
		condition, args := column+" >= ?", []any{bytesOf(c.value)}
		if end := afterPrefix(c.value); end != nil {
			condition, args = condition+" AND "+column+" < ?", append(args, end)
		}
		if c.negated {
			condition = "NOT (" + condition + ")"
		}
		p.add(condition, args...)
	}
}

func (p *plan) endBefore(number int64) {
	if p.end == 0 || number < p.end {
		p.end = number
	}
}

// afterPrefix is the first text after all that begin with a prefix, or nil if there is none.
func afterPrefix(prefix string) []byte {
	end := []byte(prefix)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i] < 0xff {
			end[i]++
			return end[:i+1]
		}
	}
	return nil
}

// maxGroups is how many groups a condition may have by their terms.
const maxGroups = 100

// group is a condition on the group, by the beginning of its ID.
func (p *plan) group(ctx context.Context, c *condition) error {
	query := "SELECT fingerprint FROM " + p.store.table("group") + " WHERE fingerprint LIKE ? LIMIT ?"
	ids, err := readAll(ctx, p.db, p.store.sql.Bind(query), []any{c.value + "%", maxGroups + 1}, func(rows *sql.Rows) (id string, err error) { return id, rows.Scan(&id) })
	if err != nil {
		return err
	}
	terms := make(anyOf, len(ids))
	for i, id := range ids {
		terms[i] = newTerm(termGroup, id)
	}
	switch {
	case len(ids) > maxGroups:
		p.byColumns(c)
	case c.negated:
		p.not = append(p.not, terms...)
	case len(ids) == 0:
		p.none = true
	default:
		p.must = append(p.must, terms)
	}
	return nil
}

// byColumns is a condition that needs no terms.
func (p *plan) byColumns(c *condition) {
	not := ""
	if c.negated {
		not = "NOT "
	}
	name, isName := names[c.field]
	switch {
	case c.field == inGroup:
		p.add("m.group_number "+not+"IN (SELECT number FROM "+p.store.table("group")+" WHERE fingerprint LIKE ?)", c.value+"%")
	case isName && !c.prefix:
		p.add(not+"m."+name.column+" = ?", bytesOf(c.value))
	default:
		p.column(c)
	}
}

// usesTerms reports whether the plan needs the table of terms.
func (p *plan) usesTerms() bool { return len(p.must)+len(p.driver)+len(p.not) > 0 }

// sql returns a query for some columns, newest first, of messages before a number, with tables that must be joined to those of the message.
func (p *plan) sql(columns, joined string, before int64, limit int) (query string, args []any) {
	from, where := p.store.table("message")+" m", []string(nil)
	number := "m.id"
	switch {
	case !p.usesTerms():
	case p.store.sql.Dialect == dialect.SQLite && len(p.must) > 0:
		// CROSS JOIN: the index of text comes first, in the order of the numbers.
		from, number = p.store.table("terms")+" t CROSS JOIN "+from, "t.rowid"
		where, args = append(where, "t."+p.store.sql.Tables.Bare("triage_terms")+" MATCH ?", "m.id = t.rowid"), append(args, p.sqliteMatch())
	case p.store.sql.Dialect == dialect.SQLite:
		where = append(where, "NOT EXISTS (SELECT 1 FROM "+p.store.table("terms")+" t WHERE t."+p.store.sql.Tables.Bare("triage_terms")+" MATCH ? AND t.rowid = m.id)")
		args = append(args, p.sqliteMatch())
	case p.store.sql.Dialect == dialect.MySQL:
		from, number, where, args = p.mysqlFrom()
	default:
		from += " JOIN " + p.store.table("terms") + " t ON t.id = m.id"
		where, args = p.match()
	}
	if p.first > 0 {
		where, args = append(where, number+" >= ?"), append(args, p.first)
	}
	if end := p.endOr(before); end > 0 {
		where, args = append(where, number+" < ?"), append(args, end)
	}
	where, args = append(where, p.where...), append(args, p.args...)
	if len(where) == 0 {
		where = []string{"1 = 1"}
	}
	query = "SELECT " + columns + " FROM " + from + joined + " WHERE " + strings.Join(where, " AND ") + " ORDER BY " + number + " DESC LIMIT ?"
	return p.store.sql.Bind(query), append(args, limit)
}

// endOr is the number before which those of the plan end, or another one that is lower.
func (p *plan) endOr(before int64) int64 {
	if p.end > 0 && (before == 0 || p.end < before) {
		return p.end
	}
	return before
}

// sqliteMatch is an expression of FTS5. Terms are bytes beyond ASCII, so nothing in it needs to be escaped.
func (p *plan) sqliteMatch() string {
	if len(p.must) == 0 {
		return joinTerms(p.not, " OR ")
	}
	parts := make([]string, len(p.must))
	for i, list := range p.must {
		parts[i] = "(" + joinTerms(list, " OR ") + ")"
	}
	all := strings.Join(parts, " AND ")
	if len(p.not) > 0 {
		all = "(" + all + ") NOT (" + joinTerms(p.not, " OR ") + ")"
	}
	return all
}

func joinTerms(terms []term, between string) string {
	texts := make([]string, len(terms))
	for i, t := range terms {
		texts[i] = `"` + string(t.appendCompact(nil)) + `"`
	}
	return strings.Join(texts, between)
}

// match are conditions on the terms for PostgreSQL.
func (p *plan) match() (where []string, args []any) {
	var all anyOf
	for _, list := range p.must {
		if len(list) == 1 {
			all = append(all, list[0])
			continue
		}
		where, args = append(where, "t.terms && CAST(? AS BIGINT[])"), append(args, p.store.termsValue(list))
	}
	if len(all) > 0 {
		where, args = append(where, "t.terms @> CAST(? AS BIGINT[])"), append(args, p.store.termsValue(all))
	}
	if len(p.not) > 0 {
		where, args = append(where, "NOT t.terms && CAST(? AS BIGINT[])"), append(args, p.store.termsValue(p.not))
	}
	return where, args
}
