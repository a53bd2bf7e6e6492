package triage

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rehop/rehop/internal/rabbit"
)

// itemState is how far a run is with one of its messages.
type itemState int

// The states, with their numbers in the database.
const (
	planned itemState = iota
	sending
	sent
	succeeded
	failedAgain
	gone
	refused
)

// itemColumns are the counters of a run, in the order of the states.
var itemColumns = [...]string{"planned", "sending", "sent", "succeeded", "failed", "gone", "refused"}

// item is a message of a run.
type item struct {
	lineage lineage
	ordinal int
	queue   int64 // the number of the failed queue
	state   itemState
	failure failure // that it had when the run was started
	sentID  string
}

// key names an item within its run.
func (i *item) key() string { return i.lineage.ref(i.ordinal) }

const itemFields = "lineage, ordinal, queue_number, state, attempts, replays, failure, digest, sent_id"

func scanItem(rows *sql.Rows) (*item, error) {
	var i item
	var key, id []byte
	var at int64
	err := rows.Scan(&key, &i.ordinal, &i.queue, &i.state, &i.failure.attempts, &i.failure.replays, &at, &i.failure.digest, &id)
	copy(i.lineage[:], key)
	i.failure.at, i.sentID = at/1000, string(id)
	return &i, err
}

// freezeSome is how many messages are read at a time to fix the set of a run.
const freezeSome = 1000

// freeze records the messages of a run, and returns how many there are. Nobody changes the index meanwhile.
func (w *writer) freeze(ctx context.Context, run int64, plan RunPlan) (n int, err error) {
	err = w.eachOfPlan(ctx, plan, func(rows []*row) error {
		var values [][]any
		for _, r := range rows {
			values = append(values, []any{run, r.lineage[:], r.ordinal, r.queue, int(planned), r.failure.attempts, r.failure.replays, micros(r.failure.at), r.failure.digest, []byte{}, []byte{}})
		}
		n += len(values)
		return w.insert(ctx, w.store.table("run_item"), "run_number, lineage, ordinal, queue_number, state, attempts, replays, failure, digest, sent_id, reason", "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", values)
	})
	return n, err
}

// eachOfPlan reads the rows of the messages of a plan: those to which its action can apply.
func (w *writer) eachOfPlan(ctx context.Context, plan RunPlan, do func([]*row) error) error {
	from := plan.Action.from()
	add := func(rows []*row) error {
		return do(slices.DeleteFunc(rows, func(r *row) bool { return !slices.Contains(from, states[r.state]) }))
	}
	if len(plan.Refs) > 0 {
		return w.eachOfRefs(ctx, plan.Refs, add)
	}
	return w.eachMatch(ctx, plan.Query, plan.UpTo, add)
}

// eachOfRefs reads the rows of some Refs.
func (w *writer) eachOfRefs(ctx context.Context, refs []string, do func([]*row) error) error {
	wanted := make(map[string]bool, len(refs))
	var lineages []lineage
	for _, ref := range refs {
		l, ordinal, err := parseRef(ref)
		if err != nil {
			return err
		}
		if !wanted[l.ref(ordinal)] {
			wanted[l.ref(ordinal)] = true
			lineages = append(lineages, l)
		}
	}
	found, err := w.rowsOf(ctx, lineages)
	if err != nil {
		return err
	}
	var rows []*row
	for _, l := range lineages {
		for _, r := range found[l] {
			if ref := l.ref(r.ordinal); wanted[ref] {
				delete(wanted, ref)
				rows = append(rows, r)
			}
		}
	}
	return do(rows)
}

// eachMatch reads the rows of all messages that match a query, without any bound. If upTo is not zero, those that have changed since are left
// out.
func (w *writer) eachMatch(ctx context.Context, q Query, upTo time.Time, do func([]*row) error) error {
	p, err := w.store.compile(ctx, w, q)
	if err != nil || p.none {
		return err
	}
	if !upTo.IsZero() {
		p.add("m.changed <= ?", upTo.UnixMicro())
	}
	columns, joined := "m."+strings.ReplaceAll(rowColumns, ", ", ", m."), ""
	scan := scanRow
	if q.needsText() {
		columns, joined = listed+", "+contents+", "+columns, w.store.joins()+" LEFT JOIN "+w.store.table("content")+" c ON c.id = m.id"
		scan = func(rows *sql.Rows) (*row, error) { return scanVerified(rows, q) }
	}
	for before := int64(0); ; {
		query, args := p.sql(columns, joined, before, freezeSome)
		found, err := readAll(ctx, w, query, args, scan)
		if err != nil || len(found) == 0 {
			return err
		}
		before = found[len(found)-1].id
		if err := do(slices.DeleteFunc(slices.Clone(found), func(r *row) bool { return r.other })); err != nil {
			return err
		}
		if len(found) < freezeSome {
			return nil
		}
	}
}

// items reads items of a run by lineage.
func (s *Store) items(ctx context.Context, db querier, run int64, lineages []lineage) (map[lineage][]*item, error) {
	found := make(map[lineage][]*item, len(lineages))
	err := inChunks(lineages, func(some []lineage) error {
		args := []any{run}
		for i := range some {
			args = append(args, some[i][:])
		}
		all, err := readAll(ctx, db, s.sql.Bind("SELECT "+itemFields+" FROM "+s.table("run_item")+" WHERE run_number = ? AND lineage IN ("+marks(len(some))+") ORDER BY lineage, ordinal"), args, scanItem)
		for _, i := range all {
			found[i.lineage] = append(found[i.lineage], i)
		}
		return err
	})
	return found, err
}

// itemCounts are changes of the counters of a run.
type itemCounts map[int64]*[len(itemColumns)]int64

func (c itemCounts) move(run int64, from, to itemState) {
	if c[run] == nil {
		c[run] = new([len(itemColumns)]int64)
	}
	c[run][from]--
	c[run][to]++
}

// flush writes the changes.
func (c itemCounts) flush(ctx context.Context, w *writer) error {
	for run, counts := range c {
		set, args := "changed = ?", []any{w.now}
		for state, n := range counts {
			if n != 0 {
				set, args = set+", "+itemColumns[state]+" = "+itemColumns[state]+" + ?", append(args, n)
			}
		}
		if _, err := w.ExecContext(ctx, w.store.sql.Bind("UPDATE "+w.store.table("run")+" SET "+set+" WHERE number = ?"), append(args, run)...); err != nil {
			return err
		}
	}
	return nil
}

// setItem changes the state of an item.
func (w *writer) setItem(ctx context.Context, c itemCounts, run int64, i *item, to itemState, reason string) error {
	c.move(run, i.state, to)
	i.state = to
	_, err := w.ExecContext(ctx, w.store.sql.Bind("UPDATE "+w.store.table("run_item")+" SET state = ?, sent_id = ?, reason = ? WHERE run_number = ? AND lineage = ? AND ordinal = ?"),
		int(to), bytesOf(i.sentID), bytesOf(reason), run, i.lineage[:], i.ordinal)
	return err
}

// errHalted: the run was paused or stopped.
var errHalted = errors.New("the run is not running")

// claim is how a sweep takes items of a run.
type claim struct {
	run     runRow
	claimed map[string]bool // items that the sweep has taken already
	from    []itemState     // which items can be taken
	// line returns a message as a line of an export, to store it. Nil: it is not stored.
	line func(n int) ([]byte, error)
}

// fits reports whether a message of a failed queue is an item that can be taken.
func (c claim) fits(i *item, in *incoming) bool {
	return slices.Contains(c.from, i.state) && i.failure == in.failure && !c.claimed[i.key()]
}

// claim finds the items that some messages of a failed queue are, and records that they are being sent: before they are, so that after a kill it is
// known which may have been. It returns nil for messages that are not in the set, or have failed again since.
func (s *Store) claim(ctx context.Context, c claim, all []incoming) ([]*item, error) {
	lineages := make([]lineage, 0, len(all))
	for i := range all {
		lineages = append(lineages, all[i].lineage)
	}
	slices.SortFunc(lineages, func(a, b lineage) int { return slices.Compare(a[:], b[:]) })
	lineages = slices.Compact(lineages)
	mine := make([]*item, len(all))
	items, err := s.items(ctx, s.db, c.run.number, lineages)
	if err != nil || !slices.ContainsFunc(all, func(in incoming) bool {
		return slices.ContainsFunc(items[in.lineage], func(i *item) bool { return c.fits(i, &in) })
	}) {
		return mine, err
	}
	err = s.write(ctx, func(w *writer) error {
		clear(mine)
		if now, err := s.run(ctx, w, c.run.ID); err != nil || now.State != Running {
			return errors.Join(err, errHalted)
		}
		items, err := s.items(ctx, w, c.run.number, lineages)
		if err != nil {
			return err
		}
		counts, taken := make(itemCounts), make(map[string]bool)
		for n := range all {
			at := slices.IndexFunc(items[all[n].lineage], func(i *item) bool { return c.fits(i, &all[n]) && !taken[i.key()] })
			if at < 0 {
				continue
			}
			i := items[all[n].lineage][at]
			taken[i.key()], mine[n] = true, i
			if i.sentID == "" {
				if i.sentID = all[n].message.ID; i.sentID == "" || c.run.edit != nil {
					i.sentID = rabbit.NewID()
				}
			}
			if c.line != nil {
				line, err := c.line(n)
				if err == nil {
					err = w.keepLine(ctx, i, line)
				}
				if err != nil {
					return err
				}
			}
			if err := w.setItem(ctx, counts, c.run.number, i, sending, ""); err != nil {
				return err
			}
		}
		return counts.flush(ctx, w)
	})
	if err != nil {
		return nil, err
	}
	for _, i := range mine {
		if i != nil {
			c.claimed[i.key()] = true
		}
	}
	return mine, nil
}

// unclaim records that some messages of a failed queue, which were being sent, were not taken.
func (s *Store) unclaim(ctx context.Context, run runRow, some []Message) error {
	all, lineages := make([]incoming, len(some)), make([]lineage, len(some))
	for i := range some {
		l, err := lineageOf(&some[i])
		if err != nil {
			return err
		}
		all[i].lineage, all[i].failure, lineages[i] = l, failureOf(&some[i]), l
	}
	slices.SortFunc(lineages, func(a, b lineage) int { return slices.Compare(a[:], b[:]) })
	c := claim{run: run, from: []itemState{sending}}
	return s.write(ctx, func(w *writer) error {
		items, err := s.items(ctx, w, run.number, slices.Compact(lineages))
		if err != nil {
			return err
		}
		counts := make(itemCounts)
		for n := range all {
			if at := slices.IndexFunc(items[all[n].lineage], func(i *item) bool { return c.fits(i, &all[n]) }); at >= 0 {
				if err := w.setItem(ctx, counts, run.number, items[all[n].lineage][at], planned, ""); err != nil {
					return err
				}
			}
		}
		return counts.flush(ctx, w)
	})
}

// settled is what became of an item.
type settled struct {
	item   *item
	reason string // why it was refused; empty: it was sent
}

// stateAfter is the state of a message that an action was applied to.
func (a Action) stateAfter() State {
	switch a {
	case ActionDiscard:
		return Discarded
	case ActionRestore:
		return Failed
	case ActionKeep:
		return Kept
	}
	return Replayed
}

// settle records that items were sent or refused. An outcome may have arrived before.
func (s *Store) settle(ctx context.Context, run runRow, some []settled) error {
	return s.write(ctx, func(w *writer) error {
		lineages := make([]lineage, 0, len(some))
		for _, one := range some {
			lineages = append(lineages, one.item.lineage)
		}
		slices.SortFunc(lineages, func(a, b lineage) int { return slices.Compare(a[:], b[:]) })
		lineages = slices.Compact(lineages)
		items, err := s.items(ctx, w, run.number, lineages)
		if err != nil {
			return err
		}
		counts, done := make(itemCounts), make([]*item, 0, len(some))
		for _, one := range some {
			at := slices.IndexFunc(items[one.item.lineage], func(i *item) bool { return i.ordinal == one.item.ordinal })
			if at < 0 || items[one.item.lineage][at].state != sending {
				continue
			}
			i, to := items[one.item.lineage][at], sent
			if one.reason != "" {
				to = refused
			} else {
				done = append(done, i)
			}
			if err := w.setItem(ctx, counts, run.number, i, to, shorten(one.reason, maxSample)); err != nil {
				return err
			}
		}
		if err := w.moveMessages(ctx, run, done, append(run.Action.from(), Gone), run.Action.stateAfter()); err != nil {
			return err
		}
		return counts.flush(ctx, w)
	})
}

// moveMessages changes the states of the messages of items, unless they have failed again since.
func (w *writer) moveMessages(ctx context.Context, run runRow, items []*item, from []State, to State) error {
	lineages := make([]lineage, 0, len(items))
	wanted := make(map[string]failure, len(items))
	for _, i := range items {
		lineages = append(lineages, i.lineage)
		wanted[i.key()] = i.failure
	}
	slices.SortFunc(lineages, func(a, b lineage) int { return slices.Compare(a[:], b[:]) })
	found, err := w.rowsOf(ctx, slices.Compact(lineages))
	if err != nil {
		return err
	}
	var rows []*row
	for l, all := range found {
		for _, r := range all {
			if f, ok := wanted[l.ref(r.ordinal)]; ok && f == r.failure && slices.Contains(from, states[r.state]) {
				rows = append(rows, r)
			}
		}
	}
	c := newCounters()
	if err := w.setStates(ctx, c, rows, to, run.ID); err != nil {
		return err
	}
	return c.flush(ctx, w)
}

// finishQueue decides about the items in some states that a complete sweep of a failed queue has not found: what was being sent when a process was killed
// has been removed, and so was sent; the others are gone.
func (s *Store) finishQueue(ctx context.Context, run runRow, queue int64, from []itemState) error {
	for {
		var some []*item
		err := s.write(ctx, func(w *writer) error {
			query := "SELECT " + itemFields + " FROM " + s.table("run_item") + " WHERE run_number = ? AND state IN (" + marks(len(from)) + ") AND queue_number = ? ORDER BY lineage, ordinal LIMIT ?"
			args := []any{run.number}
			for _, state := range from {
				args = append(args, int(state))
			}
			var err error
			if some, err = readAll(ctx, w, s.sql.Bind(query), append(args, queue, finishSome), scanItem); err != nil {
				return err
			}
			counts := make(itemCounts)
			var done []*item
			for _, i := range some {
				to := gone
				if i.state == sending {
					to = sent
					done = append(done, i)
				}
				if err := w.setItem(ctx, counts, run.number, i, to, ""); err != nil {
					return err
				}
			}
			if err := w.moveMessages(ctx, run, done, append(run.Action.from(), Gone), run.Action.stateAfter()); err != nil {
				return err
			}
			return counts.flush(ctx, w)
		})
		if err != nil || len(some) < finishSome {
			return err
		}
	}
}

// openQueues are the failed queues with items of a run that are planned or being sent.
func (s *Store) openQueues(ctx context.Context, run runRow) ([]openQueue, error) {
	query := "SELECT q.number, q.name FROM " + s.table("queue") + " q WHERE EXISTS (SELECT 1 FROM " + s.table("run_item") + " i WHERE i.run_number = ? AND i.state IN (?, ?) AND i.queue_number = q.number) ORDER BY q.name"
	return readAll(ctx, s.db, s.sql.Bind(query), []any{run.number, int(planned), int(sending)}, func(rows *sql.Rows) (q openQueue, err error) {
		var name []byte
		err = rows.Scan(&q.number, &name)
		q.name = string(name)
		return q, err
	})
}

// openQueue is a failed queue with messages of a run.
type openQueue struct {
	number int64
	name   string
}

// Outcome is what became of a message that a run has replayed.
type Outcome struct {
	Run     string
	ID      string // under which it was published
	Handled bool   // false: it failed again
}

// PutOutcomes records what became of messages that runs have replayed, in one transaction. Outcomes that are known, or of runs that are not, change
// nothing.
func (s *Store) PutOutcomes(ctx context.Context, some []Outcome) error {
	if len(some) == 0 {
		return nil
	}
	err := s.write(ctx, func(w *writer) error {
		runs := make(map[string]*runRow)
		counts := make(itemCounts)
		for _, o := range some {
			r, known := runs[o.Run]
			if !known {
				found, err := readAll(ctx, w, s.sql.Bind("SELECT "+runColumns+" FROM "+s.table("run")+" WHERE id = ?"), []any{bytesOf(o.Run)}, scanRun)
				if err != nil {
					return err
				}
				if len(found) > 0 {
					r = &found[0]
				}
				runs[o.Run] = r
			}
			if r == nil {
				continue
			}
			if err := w.putOutcome(ctx, counts, *r, o); err != nil {
				return err
			}
		}
		return counts.flush(ctx, w)
	})
	if err != nil {
		return fmt.Errorf("triage: put %d outcomes: %w", len(some), err)
	}
	return nil
}

// putOutcome records an outcome. It may arrive before it is recorded that the message was sent.
func (w *writer) putOutcome(ctx context.Context, counts itemCounts, run runRow, o Outcome) error {
	found, err := readAll(ctx, w, w.store.sql.Bind("SELECT "+itemFields+" FROM "+w.store.table("run_item")+" WHERE run_number = ? AND sent_id = ? AND state IN (?, ?) ORDER BY lineage, ordinal LIMIT 1"),
		[]any{run.number, bytesOf(o.ID), int(sending), int(sent)}, scanItem)
	if err != nil || len(found) == 0 {
		return err
	}
	to, state := succeeded, Succeeded
	if !o.Handled {
		if to = failedAgain; run.edit == nil {
			// The message itself arrives with its new failure.
			return w.setItem(ctx, counts, run.number, found[0], to, "")
		}
		state = Discarded // the edited message has failed in its place
	}
	if err := w.setItem(ctx, counts, run.number, found[0], to, ""); err != nil {
		return err
	}
	return w.moveMessages(ctx, run, found[:1], []State{Failed, Kept, Replayed, Gone}, state)
}

// ItemState is how far a run is with a message.
type ItemState string

// The states of messages of a run. See RunCounts.
const (
	ItemPlanned   ItemState = "planned"
	ItemSending   ItemState = "sending"
	ItemSent      ItemState = "sent"
	ItemSucceeded ItemState = "succeeded"
	ItemFailed    ItemState = "failed"
	ItemGone      ItemState = "gone"
	ItemRefused   ItemState = "refused"
)

// Item is a message of a run.
type Item struct {
	Ref    string
	State  ItemState
	SentID string // the id under which it was published
	Reason string // why it was refused
}

// ItemPage is a part of the messages of a run.
type ItemPage struct {
	Items []Item
	Next  string // for Page.After; empty if there are no more
}

// RunItems returns the messages of a run in a state, or in all if it is empty.
func (s *Store) RunItems(ctx context.Context, run string, state ItemState, page Page) (ItemPage, error) {
	found, err := s.runItems(ctx, run, state, page)
	if err != nil {
		return ItemPage{}, fmt.Errorf("triage: messages of run %q: %w", run, err)
	}
	return found, nil
}

func (s *Store) runItems(ctx context.Context, run string, state ItemState, page Page) (all ItemPage, err error) {
	r, err := s.run(ctx, s.db, run)
	if err != nil {
		return all, err
	}
	where, args := "run_number = ?", []any{r.number}
	if state != "" {
		n := slices.Index(itemColumns[:], string(state))
		if n < 0 {
			return all, fmt.Errorf("there is no state %q", string(state))
		}
		where, args = where+" AND state = ?", append(args, n)
	}
	if page.After != "" {
		l, ordinal, err := parseRef(page.After)
		if err != nil {
			return all, err
		}
		where, args = where+" AND (lineage > ? OR lineage = ? AND ordinal > ?)", append(args, l[:], l[:], ordinal)
	}
	limit := min(cmp.Or(max(page.Limit, 0), defaultLimit), maxLimit)
	query := "SELECT lineage, ordinal, state, sent_id, reason FROM " + s.table("run_item") + " WHERE " + where + " ORDER BY lineage, ordinal LIMIT ?"
	all.Items, err = readAll(ctx, s.db, s.sql.Bind(query), append(args, limit+1), func(rows *sql.Rows) (i Item, err error) {
		var l lineage
		var key, id, reason []byte
		var ordinal, state int
		err = rows.Scan(&key, &ordinal, &state, &id, &reason)
		copy(l[:], key)
		i = Item{Ref: l.ref(ordinal), State: ItemState(itemColumns[state]), SentID: string(id), Reason: string(reason)}
		return i, err
	})
	if len(all.Items) > limit {
		all.Items = all.Items[:limit]
		all.Next = all.Items[limit-1].Ref
	}
	return all, err
}
