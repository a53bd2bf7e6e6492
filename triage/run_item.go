package triage

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

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

// sighting is what its message looks like in the failed queue.
func (i *item) sighting() sighting { return sighting{i.lineage, i.failure} }

const itemFields = "lineage, ordinal, queue_number, state, attempts, replays, failure, digest, sent_id"

func scanItem(rows *sql.Rows, more ...any) (*item, error) {
	var i item
	var key, id []byte
	var at int64
	to := []any{&key, &i.ordinal, &i.queue, &i.state, &i.failure.attempts, &i.failure.replays, &at, &i.failure.digest, &id}
	err := rows.Scan(append(to, more...)...)
	copy(i.lineage[:], key)
	i.failure.at, i.sentID = at/1000, string(id)
	return &i, err
}

func scanOneItem(rows *sql.Rows) (*item, error) { return scanItem(rows) }

// items reads items of a run by lineage.
func (s *Store) items(ctx context.Context, db querier, run int64, lineages []lineage) (map[lineage][]*item, error) {
	found := make(map[lineage][]*item, len(lineages))
	err := inChunks(lineages, func(some []lineage) error {
		args := []any{run}
		for i := range some {
			args = append(args, some[i][:])
		}
		all, err := readAll(ctx, db, s.sql.Bind("SELECT "+itemFields+" FROM "+s.table("run_item")+" WHERE run_number = ? AND lineage IN ("+marks(len(some))+") ORDER BY lineage, ordinal"), args, scanOneItem)
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
	from    []itemState      // which items can be taken
	certain map[string]*item // of those that are being sent, which ones
	// line returns a message as a line of an export, to store it: until it is restored, or, of an edit, in case the edited message fails. Nil: it is not stored.
	line    func(n int) ([]byte, error)
	allowed guard
}

// guard returns an error if the process may not work on runs any more.
type guard func(ctx context.Context, w *writer) error

// fits reports whether a message of a failed queue is an item that can be taken.
func (c claim) fits(i *item, in *incoming) bool {
	return i.failure == in.failure && slices.Contains(c.from, i.state) && (i.state != sending || c.certain[i.key()] != nil)
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
		if err := c.allowed(ctx, w); err != nil {
			return err
		}
		if now, err := s.run(ctx, w, c.run.ID); err != nil || now.State != Running {
			return errors.Join(err, errHalted)
		}
		items, err := s.items(ctx, w, c.run.number, lineages)
		if err != nil {
			return err
		}
		rows, err := w.rowsOf(ctx, lineages)
		if err == nil {
			err = w.markLines(ctx, rows, func(*row) bool { return false })
		}
		if err != nil {
			return err
		}
		counts, taken := make(itemCounts), make(map[string]bool)
		for _, of := range rows {
			for _, r := range of {
				taken[r.lineage.ref(r.ordinal)] = r.stored // the message in the queue is another one, which is equal
			}
		}
		for n := range all {
			at := slices.IndexFunc(items[all[n].lineage], func(i *item) bool { return c.fits(i, &all[n]) && !taken[i.key()] })
			if at < 0 {
				continue
			}
			i := items[all[n].lineage][at]
			taken[i.key()] = true
			if i.sentID == "" {
				switch i.sentID = all[n].message.ID; {
				case c.run.edit != nil, i.sentID == "" && c.run.To != "":
					i.sentID = rabbit.NewID()
				case i.sentID == "":
					i.sentID = i.lineage.newID()
				}
			}
			if c.line != nil {
				line, err := c.line(n)
				if err != nil {
					return err
				}
				stored := line
				if c.run.edit != nil {
					if stored, err = c.run.edit.marshal(line); err != nil {
						return err
					}
				}
				if s.maxLine > 0 && len(stored) > s.maxLine {
					reason := fmt.Sprintf("it has %d bytes as a line of an export, and the database takes %d: raise max_allowed_packet", len(stored), s.maxLine)
					if err := w.setItem(ctx, counts, c.run.number, i, refused, reason); err != nil {
						return err
					}
					continue
				}
				if c.run.edit != nil {
					_, err = w.ExecContext(ctx, s.sql.Bind("UPDATE "+s.table("run")+" SET edit = ? WHERE number = ?"), stored, c.run.number)
				} else {
					err = w.keepLine(ctx, i, line, c.run.Action.stateAfter())
				}
				if err != nil {
					return err
				}
			}
			mine[n] = i
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
			delete(c.certain, i.key()) // it is being sent now
		}
	}
	return mine, nil
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
			if at < 0 {
				continue
			}
			i, to := items[one.item.lineage][at], sent
			if i.state == failedAgain && one.reason == "" {
				if err := w.keepOriginal(ctx, run, i); err != nil {
					return err
				}
			}
			if i.state != sending {
				continue
			}
			if one.reason != "" {
				to = refused
				if err := w.releaseLine(ctx, run, i); err != nil {
					return err
				}
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
		if run.Action == ActionReplay {
			if err := w.dropCopies(ctx, done); err != nil {
				return err
			}
		}
		return counts.flush(ctx, w)
	})
}

// lineagesOf are the lineages of items, each once.
func lineagesOf(items []*item) []lineage {
	lineages := make([]lineage, 0, len(items))
	for _, i := range items {
		lineages = append(lineages, i.lineage)
	}
	slices.SortFunc(lineages, func(a, b lineage) int { return slices.Compare(a[:], b[:]) })
	return slices.Compact(lineages)
}

// moveMessages changes the states of the messages of items, unless they have failed again since.
func (w *writer) moveMessages(ctx context.Context, run runRow, items []*item, from []State, to State) error {
	wanted := make(map[string]failure, len(items))
	for _, i := range items {
		wanted[i.key()] = i.failure
	}
	found, err := w.rowsOf(ctx, lineagesOf(items))
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
// has been removed, and so was sent; the others are gone. Of a restore all are gone: what it returns is recorded together with the deletion of its contents, so
// that an item without contents was not returned.
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
			if some, err = readAll(ctx, w, s.sql.Bind(query), append(args, queue, finishSome), scanOneItem); err != nil {
				return err
			}
			counts := make(itemCounts)
			var done []*item
			for _, i := range some {
				to := gone
				if i.state == sending && run.Action != ActionRestore {
					to = sent
					done = append(done, i)
				}
				if err := w.setItem(ctx, counts, run.number, i, to, ""); err != nil {
					return err
				}
			}
			if run.Action == ActionReplay {
				if done, err = w.leaveToStore(ctx, done); err != nil {
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
	Queue   string // in which it was handled: others can have a message with the same id
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

// putOutcome records an outcome. It may arrive before it is recorded that the message was sent. The queue is that in which the message has failed, unless the
// run has sent it to another one, or nobody has recorded where it failed.
func (w *writer) putOutcome(ctx context.Context, counts itemCounts, run runRow, o Outcome) error {
	s := w.store
	where, args := "i.run_number = ? AND i.sent_id = ? AND i.state IN (?, ?)", []any{run.number, bytesOf(o.ID), int(sending), int(sent)}
	if run.To == "" {
		where, args = where+" AND (m.queue IS NULL OR LENGTH(m.queue) = 0 OR m.queue = ?)", append(args, bytesOf(o.Queue))
	} else if o.Queue != run.To {
		return nil
	}
	query := "SELECT i." + strings.ReplaceAll(itemFields, ", ", ", i.") + " FROM " + s.table("run_item") + " i LEFT JOIN " + s.table("message") + " m ON m.lineage = i.lineage AND m.ordinal = i.ordinal WHERE " + where +
		" ORDER BY i.lineage, i.ordinal LIMIT 1"
	found, err := readAll(ctx, w, s.sql.Bind(query), args, scanOneItem)
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
	isTaken := found[0].state == sent
	if err := w.setItem(ctx, counts, run.number, found[0], to, ""); err != nil {
		return err
	}
	if err := w.moveMessages(ctx, run, found[:1], []State{Failed, Kept, Replayed, Gone}, state); err != nil || state != Discarded || !isTaken {
		return err // settle finds out what was taken
	}
	return w.keepOriginal(ctx, run, found[0])
}

// keepOriginal stores the message of which an edited one has failed, so that it can be restored. It is known to be out of its failed queue.
func (w *writer) keepOriginal(ctx context.Context, run runRow, i *item) error {
	if run.edit == nil {
		return nil
	}
	run, err := w.store.run(ctx, w, run.ID)
	if err != nil || run.original == nil {
		return err
	}
	found, err := w.rowsOf(ctx, []lineage{i.lineage})
	if err != nil || !slices.ContainsFunc(found[i.lineage], func(r *row) bool {
		return r.ordinal == i.ordinal && r.failure == i.failure && states[r.state] == Discarded
	}) {
		return err
	}
	return w.keepLine(ctx, i, run.original, Discarded)
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
