package triage

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/rehop/rehop/dialect"
)

// counters are the changes of groups and queues in one transaction. They are written with the rows that they count, so that they never
// disagree.
type counters struct {
	groups map[int64]*groupChange
	queues map[int64]int64 // change of the number of failed messages
	hours  map[hour]int64
}

func newCounters() *counters {
	return &counters{groups: make(map[int64]*groupChange), queues: make(map[int64]int64), hours: make(map[hour]int64)}
}

// hour is one bar of the chart of a group.
type hour struct {
	group int64
	start int64 // micros
}

const hourMicros = 3600 * 1_000_000

func hourOf(ordered int64) int64 { return micros(ordered) / hourMicros * hourMicros }

// groupChange is what changes in a group.
type groupChange struct {
	counts [len(states)]int64
	// What a new failure changes, if there is one.
	failed      bool
	first, last int64 // micros
	sample      string
	hosts       []string
	versions    []string
}

func (c *counters) group(number int64) *groupChange {
	g := c.groups[number]
	if g == nil {
		g = &groupChange{}
		c.groups[number] = g
	}
	return g
}

// count adds n messages with a state.
func (c *counters) count(group, queue int64, state int, n int64) {
	c.group(group).counts[state] += n
	if states[state] == Failed {
		c.queues[queue] += n
	}
}

// failure records that a message of a group failed.
func (c *counters) failure(group int64, in *incoming, ordered int64) {
	g := c.group(group)
	at := micros(ordered)
	if !g.failed || at < g.first {
		g.first = at
	}
	if !g.failed || at >= g.last {
		g.last, g.sample = at, in.message.Error
	}
	g.failed = true
	g.hosts, g.versions = remember(g.hosts, in.message.Host), remember(g.versions, in.message.Version)
	c.hours[hour{group, hourOf(ordered)}]++
}

// Bounds of what a group remembers.
const (
	maxRemembered = 20
	maxLabel      = 200 // bytes of a host or a version
	maxSample     = 4 << 10
)

// remember puts a name first in a list of the last few different ones.
func remember(list []string, name string) []string {
	if name == "" {
		return list
	}
	name = strings.ToValidUTF8(shorten(name, maxLabel), string(utf8.RuneError))
	if len(list) > 0 && list[0] == name {
		return list
	}
	list = slices.DeleteFunc(slices.Clone(list), func(known string) bool { return known == name })
	return slices.Insert(list, 0, name)[:min(len(list)+1, maxRemembered)]
}

// flush writes the changes.
func (c *counters) flush(ctx context.Context, w *writer) error {
	if err := c.flushGroups(ctx, w); err != nil {
		return err
	}
	for _, number := range slices.Sorted(maps.Keys(c.queues)) {
		if n := c.queues[number]; n != 0 {
			if _, err := w.ExecContext(ctx, w.store.sql.Bind("UPDATE "+w.store.table("queue")+" SET failed = failed + ? WHERE number = ?"), n, number); err != nil {
				return err
			}
		}
	}
	order := func(a, b hour) int { return cmp.Or(cmp.Compare(a.group, b.group), cmp.Compare(a.start, b.start)) }
	var rows [][]any
	for _, h := range slices.SortedFunc(maps.Keys(c.hours), order) {
		rows = append(rows, []any{h.group, h.start, c.hours[h]})
	}
	return w.addHours(ctx, rows)
}

// addHours adds failures to hours: rows of a group, an hour and a number.
func (w *writer) addHours(ctx context.Context, rows [][]any) error {
	table := w.store.table("hour")
	otherwise := " ON CONFLICT (group_number, hour) DO UPDATE SET failures = " + table + ".failures + excluded.failures"
	if w.store.sql.Dialect == dialect.MySQL {
		otherwise = " ON DUPLICATE KEY UPDATE failures = failures + VALUES(failures)"
	}
	return w.insertOr(ctx, table, "group_number, hour, failures", "(?, ?, ?)", otherwise, rows)
}

// seenGroup is what new failures may change in a group.
type seenGroup struct {
	number                int64
	state                 int
	decided, first, last  int64
	sample, hosts, labels []byte
}

// flushGroups changes the rows of groups.
func (c *counters) flushGroups(ctx context.Context, w *writer) error {
	var failed []int64
	for number, g := range c.groups {
		if g.failed {
			failed = append(failed, number)
		}
	}
	known := make(map[int64]*seenGroup, len(failed))
	err := inChunks(failed, func(some []int64) error {
		query := "SELECT number, state, decided, first_seen, last_seen, sample, hosts, versions FROM " + w.store.table("group") + " WHERE number IN (" + marks(len(some)) + ")"
		rows, err := readAll(ctx, w, w.store.sql.Bind(query), anyArgs(some), func(rows *sql.Rows) (*seenGroup, error) {
			var g seenGroup
			return &g, rows.Scan(&g.number, &g.state, &g.decided, &g.first, &g.last, &g.sample, &g.hosts, &g.labels)
		})
		for _, g := range rows {
			known[g.number] = g
		}
		return err
	})
	if err != nil || len(c.groups) == 0 {
		return err
	}
	set := "total = total + ?"
	for _, state := range states {
		set += ", " + string(state) + " = " + string(state) + " + ?"
	}
	head, tail := "UPDATE "+w.store.table("group")+" SET "+set, " WHERE number = ?"
	count, err := w.PrepareContext(ctx, w.store.sql.Bind(head+tail))
	if err != nil {
		return err
	}
	defer count.Close()
	see, err := w.PrepareContext(ctx, w.store.sql.Bind(head+", state = ?, decided = ?, first_seen = ?, last_seen = ?, sample = ?, hosts = ?, versions = ?"+tail))
	if err != nil {
		return err
	}
	defer see.Close()
	for _, number := range slices.Sorted(maps.Keys(c.groups)) {
		g, total := c.groups[number], int64(0)
		args := []any{total}
		for _, n := range g.counts {
			total += n
			args = append(args, n)
		}
		args[0] = total
		statement := count
		if now := known[number]; now != nil {
			if err := now.add(g, w.now); err != nil {
				return err
			}
			statement = see
			args = append(args, now.state, now.decided, now.first, now.last, notNil(now.sample), notNil(now.hosts), notNil(now.labels))
		}
		if _, err := statement.ExecContext(ctx, append(args, number)...); err != nil {
			return err
		}
	}
	return nil
}

// notNil is bytes for a column that is never NULL. Drivers read no bytes as nil.
func notNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// add records new failures of a group. A resolved group with a failure that happened after it was resolved is regressed.
func (s *seenGroup) add(g *groupChange, now int64) (err error) {
	if s.first == 0 || g.first < s.first {
		s.first = g.first
	}
	if g.last >= s.last {
		s.last, s.sample = g.last, bytesOf(shorten(g.sample, maxSample))
	}
	if groupStates[s.state] == Resolved && g.last > s.decided {
		s.state, s.decided = Regressed.number(), now
	}
	if s.hosts, err = addNames(s.hosts, g.hosts); err == nil {
		s.labels, err = addNames(s.labels, g.versions)
	}
	return err
}

// addNames adds names, newest first, to a list in JSON.
func addNames(list []byte, names []string) ([]byte, error) {
	all := readNames(list)
	for _, name := range slices.Backward(names) {
		all = remember(all, name)
	}
	if len(all) == 0 {
		return nil, nil
	}
	return json.Marshal(all)
}

// readNames reads a list of names. A list that cannot be read is empty: it is only for display.
func readNames(text []byte) (names []string) {
	if len(text) > 0 {
		_ = json.Unmarshal(text, &names)
	}
	return names
}

// setStates changes the state of rows, and counts them.
func (w *writer) setStates(ctx context.Context, c *counters, rows []*row, to State, run string) error {
	for _, r := range rows {
		c.count(r.group, r.queue, r.state, -1)
		c.count(r.group, r.queue, to.number(), 1)
		r.state = to.number()
	}
	set, first := "state = ?, changed = ?", []any{to.number(), w.turn}
	if run != "" {
		set, first = set+", run = ?", append(first, bytesOf(run))
	}
	if to == Failed { // a sweep that is running has perhaps read the queue already, and must not declare it gone
		set += ", born = (SELECT q.generation FROM " + w.store.table("queue") + " q WHERE q.number = queue_number)"
	}
	return inChunks(rows, func(some []*row) error {
		args := slices.Clone(first)
		for _, r := range some {
			args = append(args, r.id)
		}
		_, err := w.ExecContext(ctx, w.store.sql.Bind("UPDATE "+w.store.table("message")+" SET "+set+" WHERE id IN ("+marks(len(some))+")"), args...)
		return err
	})
}

// numbersOf finds the rows of a table with some names, and creates those that are missing.
func (w *writer) numbersOf(ctx context.Context, table, column string, names []any, key func(any) string, create func(number int64, name any) error) (map[string]int64, error) {
	found := make(map[string]int64, len(names))
	type pair struct {
		number int64
		name   []byte
	}
	err := inChunks(names, func(some []any) error {
		pairs, err := readAll(ctx, w, w.store.sql.Bind("SELECT number, "+column+" FROM "+w.store.table(table)+" WHERE "+column+" IN ("+marks(len(some))+")"), some,
			func(rows *sql.Rows) (p pair, err error) { return p, rows.Scan(&p.number, &p.name) })
		for _, p := range pairs {
			found[string(p.name)] = p.number
		}
		return err
	})
	if err != nil || len(found) == len(names) {
		return found, err
	}
	var last int64
	if err := w.QueryRowContext(ctx, "SELECT COALESCE(MAX(number), 0) FROM "+w.store.table(table)).Scan(&last); err != nil {
		return nil, err
	}
	for _, name := range names {
		if _, known := found[key(name)]; !known {
			last++
			found[key(name)] = last
			if err := create(last, name); err != nil {
				return nil, err
			}
		}
	}
	return found, nil
}
