package triage

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

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
	// ActionKeep moves messages from their failed queue into the store. It needs a store with Config.RequireDurable.
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
	// UpTo leaves out messages that match Query and have failed, or changed their state, since then: the At of a RunCount. Default: none
	// is left out.
	UpTo time.Time
	// Actor is who wants it, for the audit. Required.
	Actor string
	// To is the queue for messages of a replay. Default: the queue in which each has failed.
	To string
	// Rate is how many messages are replayed per second at most. Default: no limit.
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
	if p.Action != ActionReplay && (p.To != "" || p.Rate != 0 || p.Canary || p.StopAbove != 0 || p.Edit != nil) {
		add("To, Rate, Canary, StopAbove and Edit are for the action replay only")
	}
	if p.Actor == "" {
		add("Actor is required: the audit records who has started a run")
	}
	if len(p.To) > maxName {
		add("the name of queue To has %d bytes, at most %d are possible", len(p.To), maxName)
	}
	if !(p.Rate >= 0 && p.Rate <= maxRate) {
		add("Rate is %v, it must be from 0 to %d", p.Rate, maxRate)
	}
	if !(p.StopAbove >= 0 && p.StopAbove <= 1) {
		add("StopAbove is %v, it must be from 0 to 1", p.StopAbove)
	}
	if p.Edit != nil && len(p.Refs) != 1 {
		add("Edit needs exactly one message in Refs")
	}
	return errors.Join(faults...)
}

const (
	maxRate          = 1_000_000
	defaultStopAbove = 0.1
	millionths       = 1_000_000
)

// edit is an Edit in the database.
type edit struct {
	Body        []byte          `json:"body"`
	ContentType []byte          `json:"content_type"`
	Headers     json.RawMessage `json:"headers"`
}

func (e *Edit) marshal() ([]byte, error) {
	if e == nil {
		return []byte{}, nil
	}
	headers, err := headerjson.Marshal(e.Headers)
	if err != nil {
		return nil, fmt.Errorf("the edited headers: %w", err)
	}
	return json.Marshal(edit{e.Body, []byte(e.ContentType), headers})
}

func readEdit(text []byte) (*Edit, error) {
	if len(text) == 0 {
		return nil, nil
	}
	var e edit
	if err := json.Unmarshal(text, &e); err != nil {
		return nil, err
	}
	headers, err := headerjson.Unmarshal(e.Headers)
	return &Edit{Body: e.Body, ContentType: string(e.ContentType), Headers: headers}, err
}

// StartRun fixes the set of messages of a run and records it, with an entry in the audit, in one transaction. A [Service] then works on
// it: of this process or of another one. It returns ErrNothingToDo if the set would be empty.
func (s *Store) StartRun(ctx context.Context, plan RunPlan) (Run, error) {
	if err := plan.check(); err != nil {
		return Run{}, fmt.Errorf("triage: start a run: %w", err)
	}
	if plan.Action == ActionKeep && !s.durable {
		return Run{}, errors.New("triage: start a run: the store must be opened with RequireDurable to keep messages: a crash of the database could lose them otherwise")
	}
	if plan.Canary && plan.StopAbove == 0 {
		plan.StopAbove = defaultStopAbove
	}
	edited, err := plan.Edit.marshal()
	if err != nil {
		return Run{}, fmt.Errorf("triage: start a run: %w", err)
	}
	id := rabbit.NewID()
	err = s.write(ctx, func(w *writer) error {
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
		number, bytesOf(id), slices.Index(actions[:], plan.Action), bytesOf(plan.Actor), bytesOf(plan.Query.String()), bytesOf(plan.To), int64(plan.Rate*1000), canary,
		int64(plan.StopAbove*millionths), edited, []byte{}, w.now, w.now)
	return number, err
}

const runColumns = "number, id, action, state, actor, query, target, rate, canary, stop_above, edit, reason, created, changed, planned, sending, sent, succeeded, failed, gone, refused"

// runRow is a run as it was read.
type runRow struct {
	Run
	number int64
	canary int // canaryOff, canaryOn or canaryOver
	edit   *Edit
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
	r.Rate, r.Canary, r.StopAbove, r.Edited = float64(rate)/1000, r.canary != canaryOff, float64(stopAbove)/millionths, len(edited) > 0
	r.Created, r.Changed = timeOfMicros(created), timeOfMicros(changed)
	r.edit, err = readEdit(edited)
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
