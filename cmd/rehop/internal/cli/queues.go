package cli

import (
	"cmp"
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/rehop/rehop/admin"
)

// queueView is a queue in JSON output.
type queueView struct {
	Name      string `json:"name"`
	Type      string `json:"type,omitempty"`
	Ready     int    `json:"ready"`
	Unacked   *int   `json:"unacked,omitempty"`
	Consumers int    `json:"consumers"`
	Waiting   *int   `json:"waiting,omitempty"`
	Failed    int    `json:"failed"`
	Migrating bool   `json:"migrating,omitempty"`
	Kept      int    `json:"kept,omitempty"`
}

type waitView struct {
	Name     string `json:"name"`
	Messages int    `json:"messages"`
}

// overview is the queues of a broker in JSON output. Without the management API it has only Queues.
type overview struct {
	Queues    []queueView `json:"queues"`
	Waits     []waitView  `json:"waits,omitempty"`
	Recovered []waitView  `json:"recovered,omitempty"`
	Orphans   *int        `json:"orphans,omitempty"`
	Unrouted  *int        `json:"unrouted,omitempty"`
}

func (c *command) queues() *cobra.Command {
	var (
		chosen  layoutChoice
		waiting bool
		limit   int
	)
	cmd := &cobra.Command{
		Use: "queues [queue…]", SuggestFor: []string{"status", "stats", "list"},
		Short: "List rehop's queues, and how many messages they have",
		Long: `Queues lists the queues that subscriptions consume: how many messages are ready, unacked and failed, and how many consumers
there are. It needs the management API, whose figures are some seconds old. For queues that you
name it uses only AMQP, which shows no unacked messages.

With --config it lists the queues of all layouts that the flows of a file have. With --layout it lists those of one layout.

Messages that wait for their next attempt are in delay queues, which all queues share. Without --waiting it reports how many are in each delay queue. With
--waiting it reads up to --waiting-limit messages of each delay queue and requeues them, to count those that wait for each queue. This can delay these messages
by as long as it takes.

It also reports messages in rehop.orphans, whose queue was deleted while they waited, and in rehop.unrouted, which no queue was bound for. List both with rehop
failed ls.`,
		Args: needs("[queue…]"),
		RunE: func(cmd *cobra.Command, names []string) error {
			if limit < 1 {
				return usage("--waiting-limit %d must be at least 1", limit)
			}
			if waiting && len(names) > 0 {
				return usage("--waiting counts the messages of all queues: remove %q; --waiting-limit sets how many are read", names[0])
			}
			if !waiting {
				limit = 0
			}
			a, err := c.openQueues(cmd.Context(), chosen, names...)
			if err != nil {
				return err
			}
			defer a.Close()
			for _, name := range names { // without names, the management API counts these messages as failed
				c.noteDelayed(cmd.Context(), failedSource{admin: a, queue: name})
			}
			o, err := overviewOf(cmd.Context(), a, names, limit)
			if err != nil {
				return c.explain(err)
			}
			if c.json {
				return c.printJSON(o)
			}
			return c.printOverview(o, waiting)
		},
	}
	chosen.addFlags(cmd.Flags())
	cmd.Flags().BoolVar(&waiting, "waiting", false, "count the messages that wait for each queue, by reading the delay queues")
	cmd.Flags().IntVar(&limit, "waiting-limit", 1000, "with --waiting: how many messages of each delay queue to read")
	return cmd
}

func firstOf(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return names[0]
}

func overviewOf(ctx context.Context, a *admin.Admin, names []string, waiting int) (overview, error) {
	o := overview{Queues: []queueView{}}
	for _, name := range names {
		q, err := a.Queue(ctx, name)
		if err != nil {
			return o, fmt.Errorf("queue %q: %w", name, err)
		}
		o.Queues = append(o.Queues, queueViewOf(q))
	}
	if len(names) > 0 {
		return o, nil
	}
	list := a.Queues
	if waiting > 0 {
		list = func(ctx context.Context) (admin.Overview, error) { return a.QueuesWithWaiting(ctx, waiting) }
	}
	found, err := list(ctx)
	if err != nil {
		return o, err
	}
	o.Orphans, o.Unrouted = &found.Orphans, &found.Unrouted
	for _, q := range found.Queues {
		o.Queues = append(o.Queues, queueViewOf(q))
	}
	for _, w := range found.DelayQueues {
		o.Waits = append(o.Waits, waitView(w))
	}
	for _, r := range found.Recovered {
		o.Recovered = append(o.Recovered, waitView(r))
	}
	return o, nil
}

func queueViewOf(q admin.Queue) queueView {
	v := queueView{Name: q.Name, Type: q.Type, Ready: q.Ready, Consumers: q.Consumers, Failed: q.Failed, Migrating: q.Migrating, Kept: q.Kept}
	if q.Unacked >= 0 {
		v.Unacked = &q.Unacked
	}
	if q.Waiting >= 0 {
		v.Waiting = &q.Waiting
	}
	return v
}

// printOverview prints the queues. Only if waiting is true is it known for which queue messages wait.
func (c *command) printOverview(o overview, waiting bool) error {
	if err := c.print(listOf(o.Queues, waiting)); err != nil {
		return err
	}
	for _, q := range o.Queues {
		if q.Migrating {
			c.notice("queue %q is being migrated, with %s in another queue; rehop topology migrate continues the migration", q.Name, counted(q.Kept, "message"))
		}
	}
	var rows [][]string
	inDelay := 0
	for _, w := range o.Waits {
		if inDelay += w.Messages; w.Messages > 0 {
			rows = append(rows, []string{w.Name, strconv.Itoa(w.Messages)})
		}
	}
	waits := table{heading: []string{"WAITS IN", "MESSAGES"}, rows: rows}
	waits.counts(1, yellow)
	if err := c.printSection(waits); err != nil {
		return err
	}
	if inDelay > 0 && !waiting {
		if err := c.printf("rehop queues --waiting counts for which queue they wait\n"); err != nil {
			return err
		}
	}
	rows = nil
	for _, r := range o.Recovered {
		rows = append(rows, []string{r.Name, strconv.Itoa(r.Messages)})
	}
	recovered := table{heading: []string{"RECOVERED IN", "MESSAGES"}, rows: rows}
	recovered.counts(1, red)
	if err := c.printSection(recovered); err != nil || o.Orphans == nil {
		return err
	}
	if *o.Orphans > 0 || *o.Unrouted > 0 {
		return c.printLost(*o.Orphans, *o.Unrouted)
	}
	return nil
}

func listOf(queues []queueView, waiting bool) table {
	t := table{heading: []string{"QUEUE", "TYPE", "READY", "UNACKED"}}
	if waiting {
		t.counts(len(t.heading), yellow)
		t.heading = append(t.heading, "WAITING")
	}
	t.counts(len(t.heading), red)
	t.heading = append(t.heading, "FAILED", "CONSUMERS")
	for _, q := range queues {
		row := []string{q.Name, dash(q.Type), strconv.Itoa(q.Ready), number(q.Unacked)}
		if waiting {
			row = append(row, number(q.Waiting))
		}
		t.rows = append(t.rows, append(row, strconv.Itoa(q.Failed), strconv.Itoa(q.Consumers)))
	}
	return t
}

// printLost prints how many messages are in the queues for those that have none of their own.
func (c *command) printLost(orphans, unrouted int) error {
	for _, lost := range []struct {
		queue, why string
		n          int
	}{{"rehop.orphans", "their queue was deleted while they waited", orphans}, {"rehop.unrouted", "no queue was bound for their key", unrouted}} {
		if lost.n == 0 {
			continue
		}
		if err := c.printf("\n%s in %s: %s; rehop failed ls %s lists them\n", c.red(counted(lost.n, "message")), lost.queue, lost.why, lost.queue); err != nil {
			return err
		}
	}
	return nil
}

func number(n *int) string {
	if n == nil {
		return "-"
	}
	return strconv.Itoa(*n)
}

func dash(text string) string { return cmp.Or(text, "-") }
