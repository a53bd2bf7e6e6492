package triage

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// GroupState is what operators think of a group.
type GroupState string

// The states of a group.
const (
	GroupOpen    GroupState = "open"         // nobody has decided anything
	Acknowledged GroupState = "acknowledged" // somebody works on it
	Resolved     GroupState = "resolved"     // the cause is fixed; a new failure makes the group regressed
	Ignored      GroupState = "ignored"      // it stays ignored, whatever comes
	Regressed    GroupState = "regressed"    // it was resolved, and a message has failed since
)

// groupStates are all states, in the order of their numbers in the database.
var groupStates = [...]GroupState{GroupOpen, Acknowledged, Resolved, Ignored, Regressed}

// number is the state in the database, or -1.
func (s GroupState) number() int {
	for n, known := range groupStates {
		if s == known {
			return n
		}
	}
	return -1
}

// Counts are the numbers of messages in each state.
type Counts struct {
	Failed, Kept, Replayed, Succeeded, Discarded, Gone int
}

// Of returns the number of messages in a state.
func (c Counts) Of(s State) int {
	return [...]int{c.Failed, c.Kept, c.Replayed, c.Succeeded, c.Discarded, c.Gone}[s.number()]
}

// Total returns the number of all messages.
func (c Counts) Total() int {
	return c.Failed + c.Kept + c.Replayed + c.Succeeded + c.Discarded + c.Gone
}

// Group is messages with the same cause.
type Group struct {
	ID        string // 16 hexadecimal digits
	Version   int    // of the grouping by which it was made
	Queue     string
	Kind      string
	Title     string // what the errors have in common
	Sample    string // the error of the newest message, up to 4 KiB; see Cut
	Cut       bool   // Sample is the beginning of a longer error: Store.Sample has all of it
	State     GroupState
	Decided   time.Time // when the state changed last; zero if it never did
	Assignee  string
	Note      string
	FirstSeen time.Time // of the oldest failure
	LastSeen  time.Time // of the newest failure
	Hosts     []string  // the last different ones, at most 20, newest first
	Versions  []string  // the same of versions
	Counts    Counts    // of its messages in the index
}

const groupColumns = "number, fingerprint, version, queue, kind, title, sample, state, decided, assignee, note, first_seen, last_seen, hosts, versions, failed, kept, replayed, succeeded, discarded, gone"

// storedGroup is a group with its number.
type storedGroup struct {
	Group
	number int64
}

func scanGroup(rows *sql.Rows) (g storedGroup, err error) {
	var state int
	var decided, first, last int64
	var queue, kind, title, sample, assignee, note, hosts, versions []byte
	c := &g.Counts
	err = rows.Scan(&g.number, &g.ID, &g.Version, &queue, &kind, &title, &sample, &state, &decided, &assignee, &note, &first, &last, &hosts, &versions,
		&c.Failed, &c.Kept, &c.Replayed, &c.Succeeded, &c.Discarded, &c.Gone)
	if err != nil {
		return g, err
	}
	if state < 0 || state >= len(groupStates) {
		return g, fmt.Errorf("a group has the unknown state %d: it was written by a newer version of rehop", state)
	}
	g.Queue, g.Kind, g.Title, g.Sample, g.Assignee, g.Note = string(queue), string(kind), string(title), string(sample), string(assignee), string(note)
	g.Cut = isShortened(g.Sample, maxSample)
	g.State, g.Decided, g.FirstSeen, g.LastSeen = groupStates[state], timeOfMicros(decided), timeOfMicros(first), timeOfMicros(last)
	g.Hosts, g.Versions = readNames(hosts), readNames(versions)
	return g, nil
}

// Group returns a group by its ID.
func (s *Store) Group(ctx context.Context, id string) (Group, error) {
	g, err := s.group(ctx, s.db, id)
	if err != nil {
		return Group{}, fmt.Errorf("triage: group %q: %w", id, err)
	}
	return g.Group, nil
}

func (s *Store) group(ctx context.Context, db querier, id string) (g storedGroup, err error) {
	found, err := readAll(ctx, db, s.sql.Bind("SELECT "+groupColumns+" FROM "+s.table("group")+" WHERE fingerprint = ?"), []any{id}, scanGroup)
	if err == nil && len(found) == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return g, err
	}
	return found[0], nil
}

// Sample returns the whole error of the newest message of a group. A mask must be applied to all of it: what is hidden may be where Group.Sample ends.
// If no message of the group is in the index any more, it returns ErrNotFound.
func (s *Store) Sample(ctx context.Context, id string) (string, error) {
	query := "SELECT m.error FROM " + s.table("message") + " m JOIN " + s.table("group") + " g ON g.number = m.group_number WHERE g.fingerprint = ? ORDER BY m.id DESC LIMIT 1"
	var text []byte
	err := s.db.QueryRowContext(ctx, s.sql.Bind(query), id).Scan(&text)
	if errors.Is(err, sql.ErrNoRows) {
		err = ErrNotFound
	}
	if err != nil {
		return "", fmt.Errorf("triage: sample of group %q: %w", id, err)
	}
	return string(text), nil
}

// GroupOrder is the order of a list of groups.
type GroupOrder string

// The orders of groups.
const (
	ByLastSeen GroupOrder = ""      // the one with the newest failure first
	ByFailed   GroupOrder = "count" // the one with the most messages in the state Failed first
)

// GroupFilter chooses groups.
type GroupFilter struct {
	States []GroupState // one of these states; none: all states
	Queue  string       // of this queue; empty: of all queues
	Order  GroupOrder
	Limit  int    // how many groups; default 50, at most 500
	After  string // the Next of the page before; empty: the first page
}

// GroupPage is a part of a list of groups.
type GroupPage struct {
	Groups []Group
	Next   string // for GroupFilter.After; empty if this is the last page
}

// Bounds of a page.
const (
	defaultLimit = 50
	maxLimit     = 500
)

// Groups returns groups. It reads counters that are kept with the messages, and counts nothing.
func (s *Store) Groups(ctx context.Context, f GroupFilter) (GroupPage, error) {
	column := "last_seen"
	switch f.Order {
	case ByLastSeen:
	case ByFailed:
		column = "failed"
	default:
		return GroupPage{}, fmt.Errorf("triage: groups: there is no order %q: it must be ByLastSeen or ByFailed", string(f.Order))
	}
	limit := min(cmp.Or(max(f.Limit, 0), defaultLimit), maxLimit)
	where, args := []string{"1 = 1"}, []any(nil)
	if len(f.States) > 0 {
		for _, state := range f.States {
			if state.number() < 0 {
				return GroupPage{}, fmt.Errorf("triage: groups: there is no state %q", string(state))
			}
			args = append(args, state.number())
		}
		where = append(where, "state IN ("+marks(len(f.States))+")")
	}
	if f.Queue != "" {
		where, args = append(where, "queue = ?"), append(args, bytesOf(f.Queue))
	}
	if f.After != "" {
		value, number, err := parsePlace(f.After)
		if err != nil {
			return GroupPage{}, fmt.Errorf("triage: groups: %w", err)
		}
		where, args = append(where, "("+column+" < ? OR "+column+" = ? AND number < ?)"), append(args, value, value, number)
	}
	query := "SELECT " + groupColumns + " FROM " + s.table("group") + " WHERE " + strings.Join(where, " AND ") + " ORDER BY " + column + " DESC, number DESC LIMIT ?"
	found, err := readAll(ctx, s.db, s.sql.Bind(query), append(args, limit+1), scanGroup)
	if err != nil {
		return GroupPage{}, fmt.Errorf("triage: groups: %w", s.sql.Explain(err))
	}
	var page GroupPage
	for i, g := range found {
		if i == limit {
			last := found[i-1]
			value := last.LastSeen.UnixMicro()
			if f.Order == ByFailed {
				value = int64(last.Counts.Failed)
			}
			page.Next = place(value, last.number)
			break
		}
		page.Groups = append(page.Groups, g.Group)
	}
	return page, nil
}

// place is where a page ends.
func place(value, number int64) string {
	return strconv.FormatInt(value, 36) + "." + strconv.FormatInt(number, 36)
}

func parsePlace(text string) (value, number int64, err error) {
	a, b, _ := strings.Cut(text, ".")
	value, err = strconv.ParseInt(a, 36, 64)
	if err == nil {
		number, err = strconv.ParseInt(b, 36, 64)
	}
	if err != nil {
		err = fmt.Errorf("%q is not where a page ends", shorten(text, 60))
	}
	return value, number, err
}

// GroupChange is a decision about a group. Fields that are nil stay.
type GroupChange struct {
	State    *GroupState // Regressed cannot be set
	Assignee *string
	Note     *string
}

// maxNote is how long an assignee or a note may be, in bytes.
const maxNote = 16 << 10

func (c GroupChange) check() error {
	if c.State != nil && (c.State.number() < 0 || *c.State == Regressed) {
		return fmt.Errorf("the state cannot become %q: it can be open, acknowledged, resolved or ignored", string(*c.State))
	}
	for name, text := range map[string]*string{"assignee": c.Assignee, "note": c.Note} {
		if text != nil && (len(*text) > maxNote || !utf8.ValidString(*text)) {
			return fmt.Errorf("the %s must be at most %d bytes in UTF-8", name, maxNote)
		}
	}
	return nil
}

// SetGroup changes what operators have decided about a group, and records it in the audit in the same transaction.
func (s *Store) SetGroup(ctx context.Context, id string, change GroupChange, actor string) (Group, error) {
	if err := change.check(); err != nil {
		return Group{}, fmt.Errorf("triage: change group %q: %w", id, err)
	}
	var after Group
	err := s.write(ctx, func(w *writer) error {
		g, err := s.group(ctx, w, id)
		if err != nil {
			return err
		}
		details := map[string][2]string{}
		after = g.Group
		if change.State != nil && *change.State != g.State {
			details["state"] = [2]string{string(g.State), string(*change.State)}
			after.State, after.Decided = *change.State, timeOfMicros(w.now)
		}
		if change.Assignee != nil && *change.Assignee != g.Assignee {
			details["assignee"] = [2]string{g.Assignee, *change.Assignee}
			after.Assignee = *change.Assignee
		}
		if change.Note != nil && *change.Note != g.Note {
			details["note"] = [2]string{g.Note, *change.Note}
			after.Note = *change.Note
		}
		if len(details) == 0 {
			return nil
		}
		decided := int64(0)
		if !after.Decided.IsZero() {
			decided = after.Decided.UnixMicro()
		}
		_, err = w.ExecContext(ctx, s.sql.Bind("UPDATE "+s.table("group")+" SET state = ?, decided = ?, assignee = ?, note = ? WHERE number = ?"),
			after.State.number(), decided, bytesOf(after.Assignee), bytesOf(after.Note), g.number)
		if err != nil {
			return err
		}
		_, err = w.audit(ctx, Entry{Actor: actor, Action: "group.set", Subject: id, Details: details})
		return err
	})
	if err != nil {
		return Group{}, fmt.Errorf("triage: change group %q: %w", id, err)
	}
	return after, nil
}

// Bar is how many messages failed in an hour.
type Bar struct {
	Hour     time.Time // its beginning, in UTC
	Failures int
}

// History returns the failures of a group per hour, from an hour on, without the hours in which none failed. An empty group is all groups.
func (s *Store) History(ctx context.Context, group string, from time.Time) ([]Bar, error) {
	query, args := "SELECT hour, SUM(failures) FROM "+s.table("hour")+" WHERE hour >= ?", []any{hourOf(moment(from))}
	if group != "" {
		query += " AND group_number = (SELECT number FROM " + s.table("group") + " WHERE fingerprint = ?)"
		args = append(args, group)
	}
	bars, err := readAll(ctx, s.db, s.sql.Bind(query+" GROUP BY hour ORDER BY hour"), args, func(rows *sql.Rows) (b Bar, err error) {
		var at int64
		err = rows.Scan(&at, &b.Failures)
		b.Hour = timeOfMicros(at)
		return b, err
	})
	if err != nil {
		return nil, fmt.Errorf("triage: history of group %q: %w", group, err)
	}
	return bars, nil
}

// Queue is a failed queue in the index.
type Queue struct {
	Name   string
	Of     string    // a queue whose messages it has; empty if that is not known
	Failed int       // messages in the state Failed: the depth that the queue should have
	Swept  time.Time // when the index was last equal to the queue; zero if it never was
}

// Queues returns the failed queues that the index knows, by name.
func (s *Store) Queues(ctx context.Context) ([]Queue, error) {
	query := "SELECT q.name, q.failed, q.swept, (SELECT m.queue FROM " + s.table("message") + " m WHERE m.queue_number = q.number AND m.state = ? ORDER BY m.id DESC LIMIT 1) FROM " + s.table("queue") + " q ORDER BY q.name"
	queues, err := readAll(ctx, s.db, s.sql.Bind(query), []any{Failed.number()}, func(rows *sql.Rows) (q Queue, err error) {
		var name, of []byte
		var swept int64
		err = rows.Scan(&name, &q.Failed, &swept, &of)
		q.Name, q.Of, q.Swept = string(name), string(of), timeOfMicros(swept)
		return q, err
	})
	if err != nil {
		return nil, fmt.Errorf("triage: queues: %w", err)
	}
	return queues, nil
}
