package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rehop/rehop/triage"
)

// runStates are the states of runs.
var runStates = []string{string(triage.Running), string(triage.Paused), string(triage.Stopped), string(triage.Done)}

// runView is a run in JSON output.
type runView struct {
	ID        string     `json:"id"`
	Action    string     `json:"action"`
	State     string     `json:"state"`
	Reason    string     `json:"reason,omitempty"`
	Actor     string     `json:"actor"`
	Query     string     `json:"query,omitempty"`
	To        string     `json:"to,omitempty"`
	Rate      float64    `json:"rate,omitempty"`
	Canary    bool       `json:"canary,omitempty"`
	StopAbove float64    `json:"stop_above,omitempty"`
	Edited    bool       `json:"edited,omitempty"`
	Started   *time.Time `json:"started,omitempty"`
	Changed   *time.Time `json:"changed,omitempty"`
	Messages  runNumbers `json:"messages"`
	// Refused are messages that could not be sent. Only rehop runs show has them.
	Refused []refusedView `json:"refused,omitempty"`
}

// runNumbers are how many messages of a run are in each state in JSON output.
type runNumbers struct {
	Planned   int `json:"planned"`
	Sending   int `json:"sending"`
	Sent      int `json:"sent"`
	Succeeded int `json:"succeeded"`
	Failed    int `json:"failed"`
	Gone      int `json:"gone"`
	Refused   int `json:"refused"`
}

// refusedView is a message that could not be sent in JSON output.
type refusedView struct {
	Ref    string `json:"ref"`
	Reason string `json:"reason"`
}

func runViewOf(r triage.Run) runView {
	return runView{ID: r.ID, Action: string(r.Action), State: string(r.State), Reason: r.Reason, Actor: r.Actor, Query: r.Query, To: r.To, Rate: r.Rate, Canary: r.Canary,
		StopAbove: r.StopAbove, Edited: r.Edited, Started: known(r.Created), Changed: known(r.Changed), Messages: runNumbers(r.Counts)}
}

func (c *command) runs() *cobra.Command {
	return group("runs", "Replay, discard, restore or keep many failed messages by a query",
		`A run does something with a set of failed messages of the index: it replays, discards, restores or keeps them. The set is fixed when the run starts. rehop up or rehop run does the
work, also after a restart, and these commands start and control it.`,
		c.runsStart(), c.runsList(), c.runsShow(), c.runsSet("pause", triage.Paused), c.runsSet("continue", triage.Running), c.runsSet("stop", triage.Stopped))
}

func (c *command) runsList() *cobra.Command {
	var (
		x      *index
		states []string
		limit  int
	)
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List runs",
		Long:  `Ls lists runs, the newest first.`,
		Args:  none,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 1 {
				return usage("--limit %d must be positive", limit)
			}
			var filter triage.RunFilter
			for _, state := range states {
				if !slices.Contains(runStates, state) {
					return usage("--state %q: the states are %s", state, strings.Join(runStates, ", "))
				}
				filter.States = append(filter.States, triage.RunState(state))
			}
			return x.use(cmd.Context(), func(store *triage.Store) error {
				runs, more, err := runsOf(cmd.Context(), store, filter, limit)
				if err != nil {
					return err
				}
				return printList(x, "runs", runs, more, runViewOf, func() error { return x.printRuns(runs) })
			})
		},
	}
	cmd.Flags().StringSliceVar(&states, "state", nil, "only runs in these states: "+strings.Join(runStates, ", "))
	cmd.Flags().IntVarP(&limit, "limit", "n", 50, "list at most this many runs")
	x = c.newIndex(cmd.Flags())
	completeValues(cmd, "state", runStates)
	return cmd
}

// runsOf returns up to limit runs. more: there are others.
func runsOf(ctx context.Context, store *triage.Store, filter triage.RunFilter, limit int) (runs []triage.Run, more bool, err error) {
	for len(runs) <= limit { // one more shows that there are more
		filter.Limit = limit + 1 - len(runs)
		some, err := store.Runs(ctx, filter)
		if err != nil {
			return nil, false, err
		}
		if len(some) == 0 {
			return runs, false, nil
		}
		runs, filter.After = append(runs, some...), some[len(some)-1].ID
	}
	return runs[:limit], true, nil
}

func (x *index) printRuns(runs []triage.Run) error {
	var rows [][]string
	for _, r := range runs {
		rows = append(rows, []string{r.ID, string(r.Action), string(r.State), when(r.Created), r.Actor, strconv.Itoa(r.Counts.Total()), numbersOf(r), shorten(r.Query, 60)})
	}
	return x.printTable([]string{"RUN", "ACTION", "STATE", "STARTED", "ACTOR", "MESSAGES", "SO FAR", "QUERY"}, rows)
}

// numbersOf is how far a run is, as a text such as: 3 succeeded, 1 failed again.
func numbersOf(r triage.Run) string {
	sent := "done"
	if r.Action == triage.ActionReplay {
		sent = "sent"
	}
	n := r.Counts
	var all []string
	for _, part := range []struct {
		n    int
		what string
	}{{n.Planned, "planned"}, {n.Sending, "being sent"}, {n.Sent, sent}, {n.Succeeded, "succeeded"}, {n.Failed, "failed again"}, {n.Gone, "gone"}, {n.Refused, "refused"}} {
		if part.n > 0 {
			all = append(all, fmt.Sprintf("%d %s", part.n, part.what))
		}
	}
	return strings.Join(all, ", ")
}

func (c *command) runsShow() *cobra.Command {
	var (
		x     *index
		limit int
	)
	cmd := &cobra.Command{
		Use:   "show id",
		Short: "Show a run: how far it is, and which messages were refused",
		Long: `Show prints a run, how many of its messages are in each state, and the messages that could not be sent, with the reason. They are where they were.

A message of a replay is sent until its subscriber reports the outcome: it succeeded, or it failed again. A message is gone if it was not in its failed queue any more when the run
came to it, or has failed another time since. rehop failed search run:id lists the messages that a run has changed.`,
		Args: needs("id"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if limit < 1 {
				return usage("--limit %d must be positive", limit)
			}
			return x.use(cmd.Context(), func(store *triage.Store) error {
				r, err := store.Run(cmd.Context(), args[0])
				if err != nil {
					return explainRun(err)
				}
				refused, err := refusedOf(cmd.Context(), store, r.ID, limit)
				if err != nil {
					return err
				}
				return x.showRun(r, refused)
			})
		},
	}
	cmd.Flags().IntVarP(&limit, "limit", "n", 50, "list at most this many refused messages")
	x = c.newIndex(cmd.Flags())
	cmd.ValidArgsFunction = x.completeIDs(runIDs)
	return cmd
}

// explainRun adds to an error about a run what to do.
func explainRun(err error) error {
	if errors.Is(err, triage.ErrNotFound) {
		return fmt.Errorf("%w; rehop runs ls lists the runs", err)
	}
	return err
}

// refusedOf returns up to limit messages of a run that were refused.
func refusedOf(ctx context.Context, store *triage.Store, run string, limit int) (refused []refusedView, err error) {
	for page := (triage.Page{}); ; {
		page.Limit = limit - len(refused)
		found, err := store.RunItems(ctx, run, triage.ItemRefused, page)
		if err != nil {
			return nil, err
		}
		for _, item := range found.Items {
			refused = append(refused, refusedView{item.Ref, item.Reason})
		}
		if page.After = found.Next; page.After == "" || len(refused) >= limit {
			return refused, nil
		}
	}
}

func (x *index) showRun(r triage.Run, refused []refusedView) error {
	if n := r.Counts.Refused; n > len(refused) {
		defer x.notice("%d of %s listed; use --limit to list more", len(refused), counted(n, "refused message"))
	}
	if x.json {
		v := runViewOf(r)
		v.Refused = refused
		return x.printJSON(v)
	}
	var d details
	d.line("run", r.ID)
	d.line("action", string(r.Action))
	d.line("state", string(r.State))
	d.line("reason", r.Reason)
	d.line("actor", r.Actor)
	d.line("query", r.Query)
	d.line("to", r.To)
	if r.Rate > 0 {
		d.line("rate", fmt.Sprintf("%g per second", r.Rate))
	}
	if r.Canary {
		d.line("canary", "yes")
	}
	if r.StopAbove > 0 {
		d.line("stops above", fmt.Sprintf("%g %% failures", 100*r.StopAbove))
	}
	if r.Edited {
		d.line("edited", "yes")
	}
	d.line("started", when(r.Created))
	d.line("changed", when(r.Changed))
	d.line("messages", fmt.Sprintf("%d: %s", r.Counts.Total(), numbersOf(r)))
	if err := x.printf("%s", d.String()); err != nil {
		return err
	}
	list := table{heading: []string{"REFUSED", "REASON"}}
	for _, one := range refused {
		list.rows = append(list.rows, []string{one.Ref, one.Reason})
	}
	return x.printSection(list)
}

// runsSet is a command that changes the state of a run.
func (c *command) runsSet(verb string, to triage.RunState) *cobra.Command {
	var (
		x      *index
		by     *actor
		reason string
	)
	helps := map[triage.RunState][2]string{
		triage.Paused:  {"Pause a run", "Pause pauses a run. rehop runs continue resumes it. What was sent stays sent."},
		triage.Running: {"Continue a run that is paused", "Continue resumes a run that you have paused, or that is paused because outcomes do not arrive: it then sends the rest without waiting for them."},
		triage.Stopped: {"Stop a run for good", "Stop ends a run. What was sent stays sent, and the other messages stay where they are. It cannot be continued; start another run instead."},
	}
	cmd := &cobra.Command{
		Use: verb + " id", Short: helps[to][0], Long: helps[to][1],
		Args: needs("id"),
		RunE: func(cmd *cobra.Command, args []string) error {
			who, err := by.who()
			if err != nil {
				return err
			}
			return x.use(cmd.Context(), func(store *triage.Store) error {
				r, err := store.SetRun(cmd.Context(), args[0], to, who, reason)
				if err != nil {
					return explainRun(err)
				}
				if x.json {
					return x.printJSON(runViewOf(r))
				}
				return x.printf("run %s is %s: %s\n", r.ID, r.State, numbersOf(r))
			})
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the audit and for rehop runs show")
	by = c.newActor(cmd.Flags())
	x = c.newIndex(cmd.Flags())
	cmd.ValidArgsFunction = x.completeIDs(runIDs)
	return cmd
}
