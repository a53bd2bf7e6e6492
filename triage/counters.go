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
	for _, number := range slices.Sorted(maps.Keys(c.groups)) {
		if err := c.groups[number].write(ctx, w, number); err != nil {
			return err
		}
	}
	for _, number := range slices.Sorted(maps.Keys(c.queues)) {
		if n := c.queues[number]; n != 0 {
			if _, err := w.ExecContext(ctx, w.store.sql.Bind("UPDATE "+w.store.table("queue")+" SET failed = failed + ? WHERE number = ?"), n, number); err != nil {
				return err
			}
		}
	}
	order := func(a, b hour) int { return cmp.Or(cmp.Compare(a.group, b.group), cmp.Compare(a.start, b.start)) }
	for _, h := range slices.SortedFunc(maps.Keys(c.hours), order) {
		if err := w.addHour(ctx, h, c.hours[h]); err != nil {
			return err
		}
	}
	return nil
}

func (w *writer) addHour(ctx context.Context, h hour, n int64) error {
	table := w.store.table("hour")
	query := "INSERT INTO " + table + " (group_number, hour, failures) VALUES (?, ?, ?) ON CONFLICT (group_number, hour) DO UPDATE SET failures = " + table + ".failures + excluded.failures"
	if w.store.sql.Dialect == dialect.MySQL {
		query = "INSERT INTO " + table + " (group_number, hour, failures) VALUES (?, ?, ?) ON DUPLICATE KEY UPDATE failures = failures + VALUES(failures)"
	}
	_, err := w.ExecContext(ctx, w.store.sql.Bind(query), h.group, h.start, n)
	return err
}

// write changes the row of a group. A resolved group with a failure that happened after it was resolved is regressed.
func (g *groupChange) write(ctx context.Context, w *writer, number int64) error {
	set, args := []string{"total = total + ?"}, []any{int64(0)}
	total := int64(0)
	for i, n := range g.counts {
		total += n
		set, args = append(set, string(states[i])+" = "+string(states[i])+" + ?"), append(args, n)
	}
	args[0] = total
	if g.failed {
		more, values, err := g.seen(ctx, w, number)
		if err != nil {
			return err
		}
		set, args = append(set, more...), append(args, values...)
	}
	_, err := w.ExecContext(ctx, w.store.sql.Bind("UPDATE "+w.store.table("group")+" SET "+strings.Join(set, ", ")+" WHERE number = ?"), append(args, number)...)
	return err
}

// seen is what new failures change in a group.
func (g *groupChange) seen(ctx context.Context, w *writer, number int64) (set []string, args []any, err error) {
	var state int
	var decided, first, last int64
	var hosts, versions []byte
	row := w.QueryRowContext(ctx, w.store.sql.Bind("SELECT state, decided, first_seen, last_seen, hosts, versions FROM "+w.store.table("group")+" WHERE number = ?"), number)
	if err := row.Scan(&state, &decided, &first, &last, &hosts, &versions); err != nil {
		return nil, nil, err
	}
	if first == 0 || g.first < first {
		set, args = append(set, "first_seen = ?"), append(args, g.first)
	}
	if g.last >= last {
		set, args = append(set, "last_seen = ?", "sample = ?"), append(args, g.last, bytesOf(shorten(g.sample, maxSample)))
	}
	if groupStates[state] == Resolved && g.last > decided {
		set, args = append(set, "state = ?", "decided = ?"), append(args, Regressed.number(), w.now)
	}
	for column, list := range map[string]struct {
		before []byte
		now    []string
	}{"hosts": {hosts, g.hosts}, "versions": {versions, g.versions}} {
		if len(list.now) == 0 {
			continue
		}
		names := readNames(list.before)
		for _, name := range slices.Backward(list.now) {
			names = remember(names, name)
		}
		text, err := json.Marshal(names)
		if err != nil {
			return nil, nil, err
		}
		set, args = append(set, column+" = ?"), append(args, text)
	}
	return set, args, nil
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
	set, first := "state = ?, changed = ?", []any{to.number(), w.now}
	if run != "" {
		set, first = set+", run = ?", append(first, bytesOf(run))
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
