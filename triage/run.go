package triage

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/internal/headerjson"
	"github.com/rehop/rehop/internal/rabbit"
)

// Action is what a run does with its messages.
type Action string

// The actions.
const (
	// ActionReplay returns messages to the queue in which they failed, or sends them to RunPlan.To.
	ActionReplay Action = "replay"
	// ActionDiscard removes messages from their failed queue. They can be restored until Store.Clean deletes them.
	ActionDiscard Action = "discard"
	// ActionRestore returns messages that are Discarded or Kept to their failed queue.
	ActionRestore Action = "restore"
	// ActionKeep moves messages from their failed queue into the store. It needs a database whose settings
	// let no crash lose commits; see [dialect.Dialect.Durability].
	ActionKeep Action = "keep"
)

// actions are all actions, in the order of their numbers in the database.
var actions = [...]Action{ActionReplay, ActionDiscard, ActionRestore, ActionKeep}

// from are the states of messages that an action applies to.
func (a Action) from() []State {
	switch a {
	case ActionRestore:
		return []State{Discarded, Kept}
	case ActionKeep:
		return []State{Failed}
	}
	return []State{Failed, Kept}
}

// RunState is how far a run is.
type RunState string

// The states of a run.
const (
	Running RunState = "running"
	Paused  RunState = "paused"  // by an operator, or because no outcomes arrive; it can be continued
	Stopped RunState = "stopped" // by an operator, or because too many messages failed again; it stays so
	Done    RunState = "done"    // nothing is left to do; outcomes may still arrive
)

// runStates are all states of a run, in the order of their numbers in the database.
var runStates = [...]RunState{Running, Paused, Stopped, Done}

// RunPlan is what a run is to do.
type RunPlan struct {
	Action Action
	// Query chooses the messages. Only those to which the action can apply are taken: a message that was replayed is not replayed again.
	Query Query
	// Refs chooses messages by their Refs instead. Default: Query.
	Refs []string
	// UpTo leaves out messages that have failed, or changed their state, since then: the At of a RunCount. Default: none is left out.
	UpTo time.Time
	// ID is the ID of the run, from NewRunID. If there is a run with this ID, StartRun starts nothing and returns that one, so that a plan
	// that is confirmed twice is one run. Default: a new one.
	ID string
	// Actor is who wants it, for the audit. Required.
	Actor string
	// To is the queue for messages of a replay. It cannot be one that rehop uses itself, such as a failed queue: admin.ErrTarget. Default:
	// the queue in which each has failed.
	To string
	// Rate is how many messages are replayed per second at most, rounded to millionths; the lowest is one millionth. Default: no limit.
	Rate float64
	// Canary replays 1 message, then 10, then 100 or 5 % of all if that is less, and then the rest. Before each step it waits for the
	// outcome of every message that was sent. It needs subscribers with rehop.Config.Reports.
	Canary bool
	// StopAbove ends a replay when the share of messages that failed again, among those whose outcome is known, is larger, as in 0.1 for
	// 10 %. Default: 0.1 with Canary, otherwise the replay does not end.
	StopAbove float64
	// Edit changes the message of a replay. It needs a single message, which gets a new id, because an inbox would not handle the same
	// id again. Default: nothing is changed.
	Edit *Edit
}

// Edit is how a message is changed before it is replayed.
type Edit struct {
	Body        []byte
	ContentType string
	Headers     map[string]any
}

// Run is something that is done with a set of messages. The set was fixed when it began.
type Run struct {
	ID        string
	Action    Action
	State     RunState
	Reason    string // why it was paused or stopped, or makes no progress
	Actor     string
	Query     string
	To        string
	Rate      float64
	Canary    bool
	StopAbove float64
	Edited    bool // it replays a message that was edited
	Created   time.Time
	Changed   time.Time
	Counts    RunCounts
}

// RunCounts are how many messages of a run are in each state.
type RunCounts struct {
	Planned   int // nothing was done with it
	Sending   int // it is being sent, or was when a process was killed
	Sent      int // it is done, and of a replay the outcome is not known
	Succeeded int // it was handled
	Failed    int // it failed again
	Gone      int // it was not in its failed queue any more, or has failed another time
	Refused   int // it could not be sent, and is where it was
}

// Total is the number of all messages of the run.
func (c RunCounts) Total() int {
	return c.Planned + c.Sending + c.Sent + c.Succeeded + c.Failed + c.Gone + c.Refused
}

// Taken is how many messages were sent.
func (c RunCounts) Taken() int { return c.Sending + c.Sent + c.Succeeded + c.Failed }

// ErrNothingToDo means that no message matches to which the action can apply.
var ErrNothingToDo = errors.New("no message matches to which this can be done")

// ErrRunEnded means that a run cannot be changed because it has ended.
var ErrRunEnded = errors.New("the run has ended")

// check returns all that is wrong with a plan.
func (p RunPlan) check() error {
	var faults []error
	add := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if !slices.Contains(actions[:], p.Action) {
		add("there is no action %q: it can be replay, discard, restore or keep", string(p.Action))
	}
	if p.ID != "" && !runID.MatchString(p.ID) {
		add("ID is %q, it must be from NewRunID", shorten(p.ID, 60))
	}
	if p.Action != ActionReplay && (p.To != "" || p.Rate != 0 || p.Canary || p.StopAbove != 0 || p.Edit != nil) {
		add("another queue, a rate, a canary, a share of failures at which it stops and an edit are for the action replay only")
	}
	if p.Actor == "" {
		add("Actor is required: the audit records who has started a run")
	}
	if strings.HasPrefix(p.To, ownPrefix) {
		faults = append(faults, fmt.Errorf("%w: %q", admin.ErrTarget, p.To))
	}
	if len(p.To) > maxName {
		add("the name of the queue to which it replays has %d bytes, at most %d are possible", len(p.To), maxName)
	}
	if !(p.Rate >= 0 && p.Rate <= maxRate) {
		add("the rate is %v, it must be from 0 to %d", p.Rate, maxRate)
	}
	if !(p.StopAbove >= 0 && p.StopAbove <= 1) {
		add("the share of failures at which it stops is %v, it must be from 0 to 1", p.StopAbove)
	}
	if p.Edit != nil && len(p.Refs) != 1 {
		add("an edit is for exactly one message")
	}
	return errors.Join(faults...)
}

const (
	maxRate          = 1_000_000
	defaultStopAbove = 0.1
	millionths       = 1_000_000
	ownPrefix        = "rehop." // of queues that all programs with rehop share
)

// inMillionths is a number in the database. What is not 0 does not become 0, which would mean that there is no limit.
func inMillionths(n float64) int64 {
	if n > 0 {
		return max(1, int64(math.Round(n*millionths)))
	}
	return 0
}

// edit is an Edit in the database.
type edit struct {
	Body        []byte          `json:"body"`
	ContentType []byte          `json:"content_type"`
	Headers     json.RawMessage `json:"headers"`
	// Original is the message before the edit, as a line of an export, from when it is sent on.
	Original []byte `json:"original,omitempty"`
}

func (e *Edit) marshal(original []byte) ([]byte, error) {
	if e == nil {
		return []byte{}, nil
	}
	headers, err := headerjson.Marshal(e.Headers)
	if err != nil {
		return nil, fmt.Errorf("the edited headers: %w", err)
	}
	return json.Marshal(edit{e.Body, []byte(e.ContentType), headers, original})
}

func readEdit(text []byte) (changed *Edit, original []byte, err error) {
	if len(text) == 0 {
		return nil, nil, nil
	}
	var e edit
	if err := json.Unmarshal(text, &e); err != nil {
		return nil, nil, err
	}
	headers, err := headerjson.Unmarshal(e.Headers)
	return &Edit{Body: e.Body, ContentType: string(e.ContentType), Headers: headers}, e.Original, err
}

// NewRunID returns an ID for RunPlan.ID.
func NewRunID() string { return rabbit.NewID() }

var runID = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// StartRun fixes the set of messages of a run and records it, with an entry in the audit, in one transaction. A [Service] then works on
// it: of this process or of another one. It returns ErrNothingToDo if the set would be empty, and dialect.ErrNotDurable if messages are to be
// kept in a database that can lose them.
func (s *Store) StartRun(ctx context.Context, plan RunPlan) (Run, error) {
	if err := plan.check(); err != nil {
		return Run{}, fmt.Errorf("triage: start a run: %w", err)
	}
	if plan.Action == ActionKeep {
		if err := s.checkDurable(ctx); err != nil {
			return Run{}, fmt.Errorf("triage: start a run that keeps messages: %w", err)
		}
	}
	if plan.Canary && plan.StopAbove == 0 {
		plan.StopAbove = defaultStopAbove
	}
	edited, err := plan.Edit.marshal(nil)
	if err != nil {
		return Run{}, fmt.Errorf("triage: start a run: %w", err)
	}
	id := cmp.Or(plan.ID, NewRunID())
	err = s.write(ctx, func(w *writer) error {
		if plan.ID != "" {
			if _, err := s.run(ctx, w, id); !errors.Is(err, ErrNotFound) {
				return err // it was started before
			}
		}
		if err := w.checkTarget(ctx, plan.To); err != nil {
			return err
		}
		number, err := w.insertRun(ctx, id, plan, edited)
		if err != nil {
			return err
		}
		n, err := w.freeze(ctx, number, plan)
		if err != nil {
			return err
		}
		if n == 0 {
			return ErrNothingToDo
		}
		if _, err := w.ExecContext(ctx, s.sql.Bind("UPDATE "+s.table("run")+" SET planned = ? WHERE number = ?"), n, number); err != nil {
			return err
		}
		_, err = w.audit(ctx, Entry{Actor: plan.Actor, Action: "run.start", Subject: id, Details: runDetails{Action: plan.Action, Query: plan.Query.String(), Refs: len(plan.Refs), Messages: n,
			To: plan.To, Rate: plan.Rate, Canary: plan.Canary, StopAbove: plan.StopAbove, Edited: plan.Edit != nil}})
		return err
	})
	if err != nil {
		return Run{}, fmt.Errorf("triage: start a run: %w", err)
	}
	return s.Run(ctx, id)
}

// checkTarget returns admin.ErrTarget if messages cannot be replayed to a queue, as far as the index knows: it is a failed queue. The service asks the
// broker about others.
func (w *writer) checkTarget(ctx context.Context, to string) error {
	var known int
	if to == "" {
		return nil
	}
	err := w.QueryRowContext(ctx, w.store.sql.Bind("SELECT COUNT(*) FROM "+w.store.table("queue")+" WHERE name = ?"), bytesOf(to)).Scan(&known)
	if err == nil && known > 0 {
		err = fmt.Errorf("%w: %q is a failed queue", admin.ErrTarget, to)
	}
	return err
}

// runDetails are what the audit records of a run.
type runDetails struct {
	Action    Action  `json:"action"`
	Query     string  `json:"query,omitempty"`
	Refs      int     `json:"refs,omitempty"`
	Messages  int     `json:"messages"`
	To        string  `json:"to,omitempty"`
	Rate      float64 `json:"rate,omitempty"`
	Canary    bool    `json:"canary,omitempty"`
	StopAbove float64 `json:"stop_above,omitempty"`
	Edited    bool    `json:"edited,omitempty"`
}

func (w *writer) insertRun(ctx context.Context, id string, plan RunPlan, edited []byte) (number int64, err error) {
	if err := w.QueryRowContext(ctx, "SELECT COALESCE(MAX(number), 0) + 1 FROM "+w.store.table("run")).Scan(&number); err != nil {
		return 0, err
	}
	canary := canaryOff
	if plan.Canary {
		canary = canaryOn
	}
	_, err = w.ExecContext(ctx, w.store.sql.Bind("INSERT INTO "+w.store.table("run")+
		" (number, id, action, state, actor, query, target, rate, canary, stop_above, edit, reason, created, changed, planned, sending, sent, succeeded, failed, gone, refused)"+
		" VALUES (?, ?, ?, 0, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, 0, 0, 0, 0, 0, 0)"),
		number, bytesOf(id), slices.Index(actions[:], plan.Action), bytesOf(plan.Actor), bytesOf(plan.Query.String()), bytesOf(plan.To), inMillionths(plan.Rate), canary,
		inMillionths(plan.StopAbove), edited, []byte{}, w.now, w.now)
	return number, err
}

const runColumns = "number, id, action, state, actor, query, target, rate, canary, stop_above, edit, reason, created, changed, planned, sending, sent, succeeded, failed, gone, refused"

// runRow is a run as it was read.
type runRow struct {
	Run
	number int64
	canary int // canaryOff, canaryOn or canaryOver
	edit   *Edit
	// original is the message of edit before it, if that was sent.
	original []byte
}

// Whether a run waits for outcomes.
const (
	canaryOff  = 0
	canaryOn   = 1
	canaryOver = 2 // it has waited for too long, and if it is continued it waits no more
)

// endCanary makes a run wait no more.
func (s *Store) endCanary(ctx context.Context, r runRow) error {
	return s.write(ctx, func(w *writer) error {
		_, err := w.ExecContext(ctx, s.sql.Bind("UPDATE "+s.table("run")+" SET canary = ? WHERE number = ?"), canaryOver, r.number)
		return err
	})
}

func scanRun(rows *sql.Rows) (r runRow, err error) {
	var action, state int
	var rate, stopAbove, created, changed int64
	var id, actor, query, target, edited, reason []byte
	c := &r.Counts
	if err := rows.Scan(&r.number, &id, &action, &state, &actor, &query, &target, &rate, &r.canary, &stopAbove, &edited, &reason, &created, &changed,
		&c.Planned, &c.Sending, &c.Sent, &c.Succeeded, &c.Failed, &c.Gone, &c.Refused); err != nil {
		return r, err
	}
	if action < 0 || action >= len(actions) || state < 0 || state >= len(runStates) {
		return r, fmt.Errorf("run %s has the unknown action %d or state %d: it was written by a newer version of rehop", id, action, state)
	}
	r.ID, r.Action, r.State, r.Actor, r.Query, r.To, r.Reason = string(id), actions[action], runStates[state], string(actor), string(query), string(target), string(reason)
	r.Rate, r.Canary, r.StopAbove, r.Edited = float64(rate)/millionths, r.canary != canaryOff, float64(stopAbove)/millionths, len(edited) > 0
	r.Created, r.Changed = timeOfMicros(created), timeOfMicros(changed)
	r.edit, r.original, err = readEdit(edited)
	return r, err
}

// Run returns a run.
func (s *Store) Run(ctx context.Context, id string) (Run, error) {
	r, err := s.run(ctx, s.db, id)
	if err != nil {
		return Run{}, fmt.Errorf("triage: run %q: %w", id, err)
	}
	return r.Run, nil
}

func (s *Store) run(ctx context.Context, db querier, id string) (runRow, error) {
	found, err := readAll(ctx, db, s.sql.Bind("SELECT "+runColumns+" FROM "+s.table("run")+" WHERE id = ?"), []any{bytesOf(id)}, scanRun)
	if err == nil && len(found) == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return runRow{}, err
	}
	return found[0], nil
}

// RunFilter chooses runs.
type RunFilter struct {
	States []RunState // in one of these states; none: in any
	Limit  int        // how many; default 50, at most 500
	After  string     // the ID of a run: only those that were started before it; empty: the newest
}

// Runs returns runs, the newest first.
func (s *Store) Runs(ctx context.Context, f RunFilter) ([]Run, error) {
	where, args := []string{"1 = 1"}, []any(nil)
	if len(f.States) > 0 {
		for _, state := range f.States {
			args = append(args, slices.Index(runStates[:], state))
		}
		where = append(where, "state IN ("+marks(len(f.States))+")")
	}
	if f.After != "" {
		where, args = append(where, "number < (SELECT number FROM "+s.table("run")+" WHERE id = ?)"), append(args, bytesOf(f.After))
	}
	limit := defaultLimit
	if f.Limit > 0 {
		limit = min(f.Limit, maxLimit)
	}
	query := "SELECT " + runColumns + " FROM " + s.table("run") + " WHERE " + strings.Join(where, " AND ") + " ORDER BY number DESC LIMIT ?"
	rows, err := readAll(ctx, s.db, s.sql.Bind(query), append(args, limit), scanRun)
	if err != nil {
		return nil, fmt.Errorf("triage: runs: %w", err)
	}
	runs := make([]Run, len(rows))
	for i, r := range rows {
		runs[i] = r.Run
	}
	return runs, nil
}

// unfinishedRuns are the runs that a service has to do something for, the oldest first.
func (s *Store) unfinishedRuns(ctx context.Context) ([]runRow, error) {
	query := "SELECT " + runColumns + " FROM " + s.table("run") + " WHERE state = ? OR state = ? AND sending > 0 ORDER BY number"
	return readAll(ctx, s.db, s.sql.Bind(query), []any{slices.Index(runStates[:], Running), slices.Index(runStates[:], Stopped)}, scanRun)
}

// explainRun records why a run makes no progress, or that it does.
func (s *Store) explainRun(ctx context.Context, id, reason string) error {
	return s.write(ctx, func(w *writer) error {
		_, err := w.ExecContext(ctx, s.sql.Bind("UPDATE "+s.table("run")+" SET reason = ? WHERE id = ? AND state = ?"), bytesOf(shorten(reason, maxSample)), bytesOf(id), slices.Index(runStates[:], Running))
		return err
	})
}

// SetRun pauses, continues or stops a run, and records it in the audit: state is Paused, Running or Stopped. What was sent stays sent. It
// returns ErrRunEnded if the run has ended.
func (s *Store) SetRun(ctx context.Context, id string, state RunState, actor, reason string) (Run, error) {
	if !slices.Contains([]RunState{Paused, Running, Stopped}, state) {
		return Run{}, fmt.Errorf("triage: change run %q: it cannot become %q: only paused, running or stopped", id, string(state))
	}
	r, err := s.setRun(ctx, id, state, actor, reason)
	if err != nil {
		return Run{}, fmt.Errorf("triage: change run %q: %w", id, err)
	}
	return r, nil
}

func (s *Store) setRun(ctx context.Context, id string, state RunState, actor, reason string) (Run, error) {
	var after Run
	err := s.write(ctx, func(w *writer) error {
		r, err := s.run(ctx, w, id)
		if err != nil {
			return err
		}
		if after = r.Run; r.State == state {
			return nil
		}
		if r.State == Stopped || r.State == Done {
			return fmt.Errorf("%w: it is %s", ErrRunEnded, r.State)
		}
		after.State, after.Reason, after.Changed = state, reason, timeOfMicros(w.now)
		if _, err := w.ExecContext(ctx, s.sql.Bind("UPDATE "+s.table("run")+" SET state = ?, reason = ?, changed = ? WHERE number = ?"),
			slices.Index(runStates[:], state), bytesOf(reason), w.now, r.number); err != nil {
			return err
		}
		_, err = w.audit(ctx, Entry{Actor: actor, Action: "run." + string(state), Subject: id, Details: map[string]any{"reason": reason, "counts": r.Counts}})
		return err
	})
	return after, err
}
