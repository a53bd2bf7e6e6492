package triage

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
)

// Page is a part of the result of a search.
type Page struct {
	Limit int    // how many messages; default 50, at most 500
	After string // the Next of the page before; empty: the first page
	// Whole: with headers, body and stack. A page then ends earlier if they are large.
	Whole bool
}

// Result is the result of a search, newest failures first.
type Result struct {
	Messages []Message // without headers, body and stack, unless Page.Whole is set: see [Store.Message]
	Next     string    // for Page.After; empty if there are no more
	// Unfinished means that the search stopped before it had a whole page, because it had read very many messages to find words that
	// follow each other. Next continues it.
	Unfinished bool
	// Count is how many messages match. If AtLeast is set, there are that many or more. It is set on the first page only.
	Count   int
	AtLeast bool
	// NotWhole is how many messages that match the other conditions have more words and values than the index holds, so that words of
	// theirs may not have been found; at most 1,000.
	NotWhole int
}

// Bounds of a search. They limit its time, and are never silent.
const (
	maxCount       = 1000
	maxVerified    = 5000     // messages whose text is read for one page
	maxVerifiedSum = 64 << 20 // bytes of their bodies
	maxWholeSum    = 4 << 20  // bytes after which a page of whole messages ends
)

// Search returns messages that match a query.
func (s *Store) Search(ctx context.Context, q Query, page Page) (Result, error) {
	result, err := s.search(ctx, q, page)
	if err != nil {
		return Result{}, fmt.Errorf("triage: search: %w", s.sql.Explain(err))
	}
	return result, nil
}

func (s *Store) search(ctx context.Context, q Query, page Page) (r Result, err error) {
	var before int64
	if page.After != "" {
		if before, _, err = parsePlace(page.After); err != nil {
			return r, err
		}
	}
	p, err := s.compile(ctx, s.db, q)
	if err != nil {
		return r, err
	}
	limit := min(cmp.Or(max(page.Limit, 0), defaultLimit), maxLimit)
	switch {
	case p.none:
	case q.needsText() || page.Whole:
		err = s.read(ctx, q, p, before, limit, page.Whole, &r)
	default:
		err = s.found(ctx, p, before, limit, &r)
	}
	if err != nil || page.After != "" {
		return r, err
	}
	switch {
	case q.needsText():
		r.Count, r.AtLeast = len(r.Messages), r.Next != ""
	case r.Next == "":
		r.Count = len(r.Messages)
	default:
		if r.Count, r.AtLeast, err = s.count(ctx, q, p); err != nil {
			return r, err
		}
	}
	if q.usesTerms() {
		r.NotWhole, err = s.notWhole(ctx, q)
	}
	return r, err
}

// joins adds what a list shows of a message's group and failed queue. LEFT, so that databases read messages first, in the order of the list.
func (s *Store) joins() string {
	return " LEFT JOIN " + s.table("group") + " g ON g.number = m.group_number LEFT JOIN " + s.table("queue") + " q ON q.number = m.queue_number"
}

// found reads a page of messages that the plan finds.
func (s *Store) found(ctx context.Context, p *plan, before int64, limit int, r *Result) error {
	query, args := p.sql(listed, s.joins(), before, limit+1)
	found, err := readAll(ctx, s.db, query, args, scanListed)
	if err != nil {
		return err
	}
	if len(found) > limit {
		found = found[:limit]
		r.Next = place(found[limit-1].number, 0)
	}
	for _, m := range found {
		r.Messages = append(r.Messages, m.Message)
	}
	return nil
}

// read reads messages that the plan finds with their texts, and keeps those in which words follow each other as the query wants. It holds one text at a
// time, or those of one page that has them.
func (s *Store) read(ctx context.Context, q Query, p *plan, before int64, limit int, whole bool, r *Result) error {
	most := maxVerified
	if !q.needsText() {
		most = limit
	}
	query, args := p.sql(listed+", "+contents, s.joins()+" LEFT JOIN "+s.table("content")+" c ON c.id = m.id", before, most+1)
	rows, err := s.db.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	last, read, size, kept := int64(0), 0, 0, 0
	for rows.Next() {
		enough := len(r.Messages) == limit || kept > maxWholeSum
		if enough || read == most || size > maxVerifiedSum {
			r.Next, r.Unfinished = place(last, 0), !enough
			return nil
		}
		m, err := scanContents(rows)
		if err != nil {
			return err
		}
		last, read, size = m.number, read+1, size+len(m.Body)
		switch {
		case !q.verify(&m.Message):
			continue
		case whole:
			kept += len(m.Body) + len(m.Stack) + len(m.Error)
		default:
			m.Headers, m.Body, m.Stack = nil, nil, ""
		}
		r.Messages = append(r.Messages, m.Message)
	}
	return rows.Err()
}

// count counts the messages that a plan finds, up to a bound where they are not counted anyway.
func (s *Store) count(ctx context.Context, q Query, p *plan) (n int, atLeast bool, err error) {
	if n, ok, err := s.countByGroups(ctx, q); ok || err != nil {
		return n, false, err
	}
	query, args := p.sql("1 AS one", "", 0, maxCount+1)
	if err := s.db.QueryRowContext(ctx, "SELECT COUNT(*) FROM ("+query+") counted", args...).Scan(&n); err != nil {
		return 0, false, err
	}
	if n > maxCount {
		return maxCount, true, nil
	}
	return n, false, nil
}

// countByGroups counts messages by the counters of groups, if the query is about nothing but groups and states.
func (s *Store) countByGroups(ctx context.Context, q Query) (n int, ok bool, err error) {
	var wanted []State
	for _, state := range states {
		m := Message{State: state}
		if slices.IndexFunc(q.conditions, func(c condition) bool { return c.field == inState && c.matches(&m, nil) == c.negated }) < 0 {
			wanted = append(wanted, state)
		}
	}
	if slices.ContainsFunc(q.conditions, func(c condition) bool { return c.field != inState && c.field != inGroup }) {
		return 0, false, nil
	}
	columns := []string{"0"}
	for _, state := range wanted {
		columns = append(columns, string(state)) // the counters have the names of the states
	}
	query, args := "SELECT COALESCE(SUM("+strings.Join(columns, " + ")+"), 0) FROM "+s.table("group")+" WHERE 1 = 1", []any(nil)
	for _, c := range q.conditions {
		if c.field != inGroup {
			continue
		}
		like := " AND fingerprint LIKE ?"
		if c.negated {
			like = " AND fingerprint NOT LIKE ?"
		}
		query, args = query+like, append(args, c.value+"%")
	}
	err = s.db.QueryRowContext(ctx, s.sql.Bind(query), args...).Scan(&n)
	return n, true, err
}

// notWhole counts the messages of which the index does not have all words, among those that match the conditions that do not need them.
func (s *Store) notWhole(ctx context.Context, q Query) (n int, err error) {
	rest := Query{}
	for _, c := range q.conditions {
		switch c.field {
		case anyText, inError, inHeader, inBody:
		default:
			rest.conditions = append(rest.conditions, c)
		}
	}
	// Few messages are so large, and their index finds them at once. By terms the database would look at all that match the rest.
	p := &plan{store: s}
	for i := range rest.conditions {
		p.byColumns(&rest.conditions[i])
	}
	p.add("m.partial = 1")
	query, args := p.sql("1 AS one", "", 0, maxCount)
	err = s.db.QueryRowContext(ctx, "SELECT COUNT(*) FROM ("+query+") counted", args...).Scan(&n)
	return n, err
}
