package triage

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Bounds of what is grouped again in one transaction, so that others do not wait for long.
const (
	regroupSome  = 200
	regroupBytes = 16 << 20 // of bodies
)

// Regroup puts messages into the groups of the store's grouping that are in groups of another version. Groups keep the state, the assignee and
// the note where possible: those of a group that is split are those of each part; of groups that become one, the state that needs more
// attention counts. It returns how many messages it has moved. It can be interrupted and repeated, also while messages are put. A [Service] does it at
// its start for groups of older versions.
func (s *Store) Regroup(ctx context.Context) (moved int, err error) { return s.regroup(ctx, "<>") }

// regroup is Regroup for groups whose version is "<" or "<>" that of the store's grouping.
func (s *Store) regroup(ctx context.Context, other string) (moved int, err error) {
	for after := int64(-1); ; {
		some, err := s.toRegroup(ctx, other, after)
		if err != nil {
			return moved, fmt.Errorf("triage: regroup: %w", err)
		}
		if len(some) == 0 {
			return moved, nil
		}
		after = some[len(some)-1]
		n := 0
		err = s.write(ctx, func(w *writer) (err error) {
			n, err = w.regroup(ctx, other, some)
			return err
		})
		if err != nil {
			return moved, fmt.Errorf("triage: regroup: %w", err)
		}
		moved += n
	}
}

// toRegroup finds the next messages after a number. It may read many others before them, so it does that while others write.
func (s *Store) toRegroup(ctx context.Context, other string, after int64) (numbers []int64, err error) {
	query := "SELECT m.id, m.size FROM " + s.table("message") + " m JOIN " + s.table("group") + " g ON g.number = m.group_number WHERE m.id > ? AND g.version " + other + " ? ORDER BY m.id LIMIT ?"
	found, err := readAll(ctx, s.db, s.sql.Bind(query), []any{after, s.grouping.Version, regroupSome}, scanPair)
	size := int64(0)
	for _, one := range found {
		if size += one[1]; size > regroupBytes && len(numbers) > 0 {
			break
		}
		numbers = append(numbers, one[0])
	}
	return numbers, err
}

// regroup moves messages, unless somebody else has moved them.
func (w *writer) regroup(ctx context.Context, other string, some []int64) (moved int, err error) {
	s := w.store
	query := "SELECT " + listed + ", " + contents + " FROM " + s.contentsFrom() + " WHERE g.version " + other + " ? AND m.id IN (" + marks(len(some)) + ") ORDER BY m.id"
	messages, err := readAll(ctx, w, s.sql.Bind(query), append([]any{s.grouping.Version}, anyArgs(some)...), scanContents)
	if err != nil || len(messages) == 0 {
		return 0, err
	}
	plain := make([]Message, len(messages))
	before := make(map[string]bool)
	for i := range messages {
		plain[i] = messages[i].Message
		before[plain[i].Group] = true
	}
	all, err := s.prepare(plain)
	if err != nil {
		return 0, err
	}
	after := make(map[string]*incoming)
	into := make(map[string]map[string]bool) // by the new group: the old ones
	for i := range all {
		in := &all[i]
		after[in.group] = in
		if into[in.group] == nil {
			into[in.group] = make(map[string]bool)
		}
		into[in.group][in.message.Group] = true
	}
	numbers, err := w.groupNumbers(ctx, after)
	if err != nil {
		return 0, err
	}
	old := make(map[string]storedGroup)
	for id := range before {
		if old[id], err = s.group(ctx, w, id); err != nil {
			return 0, err
		}
	}
	for _, id := range slices.Sorted(maps.Keys(into)) {
		for _, from := range slices.Sorted(maps.Keys(into[id])) {
			if err := w.inherit(ctx, id, old[from].Group); err != nil {
				return 0, err
			}
		}
	}
	if err := w.move(ctx, messages, all, old, numbers); err != nil {
		return 0, err
	}
	for i := range all {
		if from := all[i].message.Group; before[from] {
			delete(before, from)
			if err := w.dissolve(ctx, old[from].number, numbers[all[i].group]); err != nil {
				return 0, err
			}
		}
	}
	return len(messages), nil
}

// attention is how much of it a state needs.
var attention = map[GroupState]int{Resolved: 0, Ignored: 1, Acknowledged: 2, GroupOpen: 3, Regressed: 4}

// inherit gives a group what operators have decided about an earlier one.
func (w *writer) inherit(ctx context.Context, id string, from Group) error {
	to, err := w.store.group(ctx, w, id)
	if err != nil {
		return err
	}
	undecided := to.Decided.IsZero() && to.Assignee == "" && to.Note == ""
	switch {
	case undecided && from.State == Resolved && to.LastSeen.After(from.Decided):
		to.State, to.Decided = Regressed, from.Decided
	case undecided || attention[from.State] > attention[to.State]:
		to.State, to.Decided = from.State, from.Decided
	}
	if to.Assignee == "" {
		to.Assignee = from.Assignee
	}
	if from.Note != "" && !strings.Contains(to.Note, from.Note) {
		to.Note = shorten(strings.TrimPrefix(to.Note+"\n"+from.Note, "\n"), maxNote)
	}
	decided := int64(0)
	if !to.Decided.IsZero() {
		decided = to.Decided.UnixMicro()
	}
	_, err = w.ExecContext(ctx, w.store.sql.Bind("UPDATE "+w.store.table("group")+" SET state = ?, decided = ?, assignee = ?, note = ? WHERE number = ?"),
		to.State.number(), decided, bytesOf(to.Assignee), bytesOf(to.Note), to.number)
	return err
}

// move changes the groups of messages, their terms, and the counters.
func (w *writer) move(ctx context.Context, messages []stored, all []incoming, old map[string]storedGroup, numbers map[string]int64) error {
	c := newCounters()
	ids, terms := make([]int64, len(messages)), make([]messageTerms, len(messages))
	byGroup := make(map[int64][]int64)
	for i, m := range messages {
		in := &all[i]
		from, to, state := old[m.Group].number, numbers[in.group], m.State.number()
		c.group(from).counts[state]--
		c.group(to).counts[state]++
		c.failure(to, in, moment(m.FailedAt))
		c.hours[hour{from, hourOf(moment(m.FailedAt))}]--
		ids[i], terms[i] = m.number, messageTerms{m.number, in.terms}
		byGroup[to] = append(byGroup[to], m.number)
	}
	for _, to := range slices.Sorted(maps.Keys(byGroup)) {
		err := inChunks(byGroup[to], func(some []int64) error {
			_, err := w.ExecContext(ctx, w.store.sql.Bind("UPDATE "+w.store.table("message")+" SET group_number = ? WHERE id IN ("+marks(len(some))+")"), append([]any{to}, anyArgs(some)...)...)
			return err
		})
		if err != nil {
			return err
		}
	}
	if err := w.removeTerms(ctx, ids); err != nil {
		return err
	}
	if err := w.insertTerms(ctx, terms); err != nil {
		return err
	}
	if err := c.flush(ctx, w); err != nil {
		return err
	}
	// Of hours that Clean has deleted, nothing can be moved.
	_, err := w.ExecContext(ctx, "DELETE FROM "+w.store.table("hour")+" WHERE failures <= 0")
	return err
}

// dissolve deletes a group that has no messages any more. What is left of its history are failures that were followed by others of the same
// messages: they belong to the group that these are in now.
func (w *writer) dissolve(ctx context.Context, from, to int64) error {
	var total int64
	if err := w.QueryRowContext(ctx, w.store.sql.Bind("SELECT total FROM "+w.store.table("group")+" WHERE number = ?"), from).Scan(&total); err != nil || total > 0 {
		return err
	}
	left, err := readAll(ctx, w, w.store.sql.Bind("SELECT hour, failures FROM "+w.store.table("hour")+" WHERE group_number = ?"), []any{from}, scanPair)
	if err != nil {
		return err
	}
	rows := make([][]any, len(left))
	for i, h := range left {
		rows[i] = []any{to, h[0], h[1]}
	}
	if err := w.addHours(ctx, rows); err != nil {
		return err
	}
	if err := w.deleteRows(ctx, "hour", "group_number", []int64{from}); err != nil {
		return err
	}
	return w.deleteRows(ctx, "group", "number", []int64{from})
}
