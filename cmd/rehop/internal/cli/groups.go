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

// groupStates are the states of groups.
var groupStates = []string{string(triage.GroupOpen), string(triage.Acknowledged), string(triage.Resolved), string(triage.Ignored), string(triage.Regressed)}

// groupOrders are the values of --by.
var groupOrders = map[string]triage.GroupOrder{"time": triage.ByLastSeen, "count": triage.ByFailed}

// groupView is a group in JSON output.
type groupView struct {
	ID        string       `json:"id"`
	Queue     string       `json:"queue"`
	Kind      string       `json:"kind"`
	Title     string       `json:"title"`
	Sample    string       `json:"sample"`
	State     string       `json:"state"`
	Decided   *time.Time   `json:"decided,omitempty"`
	Assignee  string       `json:"assignee,omitempty"`
	Note      string       `json:"note,omitempty"`
	FirstSeen *time.Time   `json:"first_seen,omitempty"`
	LastSeen  *time.Time   `json:"last_seen,omitempty"`
	Hosts     []string     `json:"hosts,omitempty"`
	Versions  []string     `json:"versions,omitempty"`
	Messages  stateNumbers `json:"messages"`
}

// stateNumbers are numbers of messages in each state in JSON output.
type stateNumbers struct {
	Failed    int `json:"failed"`
	Kept      int `json:"kept"`
	Replayed  int `json:"replayed"`
	Succeeded int `json:"succeeded"`
	Discarded int `json:"discarded"`
	Gone      int `json:"gone"`
}

func groupViewOf(g triage.Group) groupView {
	return groupView{ID: g.ID, Queue: g.Queue, Kind: g.Kind, Title: g.Title, Sample: g.Sample, State: string(g.State), Decided: known(g.Decided), Assignee: g.Assignee, Note: g.Note,
		FirstSeen: known(g.FirstSeen), LastSeen: known(g.LastSeen), Hosts: g.Hosts, Versions: g.Versions, Messages: stateNumbers(g.Counts)}
}

func (c *command) failedGroups() *cobra.Command {
	var (
		x      *index
		states []string
		queue  string
		by     string
		limit  int
	)
	cmd := &cobra.Command{
		Use:   "groups",
		Short: "List failed messages by cause",
		Long: `Groups lists groups of failed messages with the same cause: the same queue, kind and text of the error, apart from numbers, ids, addresses and times. It reads
the index of failed messages, not the broker.`,
		Example: `  rehop failed groups --state open,regressed --by count`,
		Args:    none,
		RunE: func(cmd *cobra.Command, _ []string) error {
			filter := triage.GroupFilter{Queue: queue}
			if limit < 1 {
				return usage("--limit %d must be positive", limit)
			}
			for _, state := range states {
				if !slices.Contains(groupStates, state) {
					return usage("--state %q: the states are %s", state, strings.Join(groupStates, ", "))
				}
				filter.States = append(filter.States, triage.GroupState(state))
			}
			order, ok := groupOrders[by]
			if !ok {
				return usage("--by %q must be time or count", by)
			}
			filter.Order = order
			return x.use(cmd.Context(), func(store *triage.Store) error {
				groups, more, err := groupsOf(cmd.Context(), store, filter, limit)
				if err != nil {
					return err
				}
				return printList(x, "groups", groups, more, groupViewOf, func() error { return x.printGroups(groups) })
			})
		},
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&states, "state", nil, "only groups in these states: "+strings.Join(groupStates, ", "))
	flags.StringVar(&queue, "queue", "", "only groups of this queue")
	flags.StringVar(&by, "by", "time", "order: time (the newest failure first) or count (the most messages in the failed queue first)")
	flags.IntVarP(&limit, "limit", "n", 50, "list at most this many groups")
	x = c.newIndex(flags)
	completeValues(cmd, "state", groupStates)
	completeValues(cmd, "by", []string{"time", "count"})
	return cmd
}

// groupsOf returns up to limit groups. more: there are others.
func groupsOf(ctx context.Context, store *triage.Store, filter triage.GroupFilter, limit int) (groups []triage.Group, more bool, err error) {
	for {
		filter.Limit = limit - len(groups)
		page, err := store.Groups(ctx, filter)
		if err != nil {
			return nil, false, err
		}
		groups = append(groups, page.Groups...)
		if page.Next == "" || len(groups) >= limit {
			return groups, page.Next != "", nil
		}
		filter.After = page.Next
	}
}

// printList prints things of the index: as views in JSON, or as print does.
func printList[T, V any](x *index, what string, all []T, more bool, view func(T) V, print func() error) error {
	if more {
		defer x.notice("there are more %s; use --limit to list more", what)
	}
	if x.json {
		views := []V{}
		for _, one := range all {
			views = append(views, view(one))
		}
		return x.printJSON(views)
	}
	if len(all) == 0 {
		return x.printf("none\n")
	}
	return print()
}

func (x *index) printGroups(groups []triage.Group) error {
	list := table{heading: []string{"GROUP", "STATE", "FAILED", "LAST", "QUEUE", "KIND", "CAUSE"}}
	for _, g := range groups {
		list.rows = append(list.rows, []string{g.ID, string(g.State), strconv.Itoa(g.Counts.Failed), when(g.LastSeen), dash(g.Queue), dash(g.Kind), shorten(g.Title, 80)})
	}
	list.counts(2, red)
	return x.print(list)
}

func (c *command) failedGroup() *cobra.Command {
	var (
		x                     *index
		by                    *actor
		state, assignee, note string
	)
	cmd := &cobra.Command{
		Use:   "group id",
		Short: "Show a group of failed messages, or change its state, assignee or note",
		Long: `Group shows a group of failed messages with the same cause. rehop failed groups lists the ids. With --state, --assignee or --note it changes the group first; an empty
text removes the assignee or the note. The audit records the change. A group that is resolved becomes regressed if a message fails later.

rehop failed search group:id lists its messages.`,
		Example: `  rehop failed group 4f0c6a1b2d3e5f70 --state acknowledged --assignee ann --note 'see INC-17'`,
		Args:    needs("id"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var change triage.GroupChange
			flags := cmd.Flags()
			if flags.Changed("state") {
				if !slices.Contains(groupStates, state) || state == string(triage.Regressed) {
					return usage("--state %q: it can be open, acknowledged, resolved or ignored", state)
				}
				to := triage.GroupState(state)
				change.State = &to
			}
			if flags.Changed("assignee") {
				change.Assignee = &assignee
			}
			if flags.Changed("note") {
				change.Note = &note
			}
			if change == (triage.GroupChange{}) {
				if flags.Changed("actor") {
					return usage("--actor needs a change: --state, --assignee or --note")
				}
				return x.use(cmd.Context(), func(store *triage.Store) error { return x.showGroup(store.Group(cmd.Context(), args[0])) })
			}
			who, err := by.who()
			if err != nil {
				return err
			}
			return x.use(cmd.Context(), func(store *triage.Store) error {
				return x.showGroup(store.SetGroup(cmd.Context(), args[0], change, who))
			})
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&state, "state", "", "change the state to open, acknowledged, resolved or ignored")
	flags.StringVar(&assignee, "assignee", "", "change who works on it")
	flags.StringVar(&note, "note", "", "change the note")
	by = c.newActor(flags)
	x = c.newIndex(flags)
	completeValues(cmd, "state", groupStates[:4])
	cmd.ValidArgsFunction = x.completeIDs(groupIDs)
	return cmd
}

func (x *index) showGroup(g triage.Group, err error) error {
	if errors.Is(err, triage.ErrNotFound) {
		return fmt.Errorf("%w; rehop failed groups lists the groups", err)
	}
	if err != nil {
		return err
	}
	if x.json {
		return x.printJSON(groupViewOf(g))
	}
	n := g.Counts
	var d details
	d.line("group", g.ID)
	d.line("cause", g.Title)
	d.line("queue", g.Queue)
	d.line("kind", g.Kind)
	d.line("state", string(g.State))
	d.line("decided", when(g.Decided))
	d.line("assignee", g.Assignee)
	d.line("note", g.Note)
	d.line("first failure", when(g.FirstSeen))
	d.line("last failure", when(g.LastSeen))
	d.line("messages", fmt.Sprintf("%d failed, %d kept, %d replayed, %d succeeded, %d discarded, %d gone", n.Failed, n.Kept, n.Replayed, n.Succeeded, n.Discarded, n.Gone))
	d.line("hosts", strings.Join(g.Hosts, ", "))
	d.line("versions", strings.Join(g.Versions, ", "))
	d.line("newest error", g.Sample)
	return x.printf("%s", d.String())
}
