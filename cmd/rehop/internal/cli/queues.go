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
		waiting int
	)
	cmd := &cobra.Command{
		Use:   "queues [queue…]",
		Short: "List rehop's queues, and how many messages they have",
		Long: `Queues lists the queues that subscriptions consume: how many messages are ready, unacked, waiting for their next attempt
and failed, and how many consumers there are. It needs the management API, whose figures are some seconds old. For queues that you
name it uses only AMQP, which shows no unacked messages.

With --config it lists the queues of all layouts that the flows of a file have. With --layout it lists those of one layout.

Without --waiting it reports how many messages wait in each delay queue, but not for which queue. With --waiting N it reads up to N messages of each delay queue and
requeues them, to count those of each queue. This can delay these messages by as long as it takes.`,
		Args: needs("[queue…]"),
		RunE: func(cmd *cobra.Command, names []string) error {
			if waiting < 0 {
				return usage("--waiting %d must not be negative", waiting)
			}
			a, err := c.openQueues(cmd.Context(), chosen, names...)
			if err != nil {
				return err
			}
			defer a.Close()
			for _, name := range names { // without names, the management API counts these messages as failed
				c.noteDelayed(cmd.Context(), failedSource{admin: a, queue: name})
			}
			o, err := overviewOf(cmd.Context(), a, names, waiting)
			if err != nil {
				return c.explain(err)
			}
			if c.json {
				return c.printJSON(o)
			}
			return c.printOverview(o)
		},
	}
	chosen.addFlags(cmd.Flags())
	cmd.Flags().IntVar(&waiting, "waiting", 0, "count the messages that wait for each queue, by reading up to this many messages of each delay queue")
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

func (c *command) printOverview(o overview) error {
	var rows [][]string
	for _, q := range o.Queues {
		rows = append(rows, []string{q.Name, dash(q.Type), strconv.Itoa(q.Ready), number(q.Unacked), number(q.Waiting), strconv.Itoa(q.Failed), strconv.Itoa(q.Consumers)})
	}
	list := table{heading: []string{"QUEUE", "TYPE", "READY", "UNACKED", "WAITING", "FAILED", "CONSUMERS"}, rows: rows}
	list.counts(4, yellow)
	list.counts(5, red)
	if err := c.print(list); err != nil {
		return err
	}
	for _, q := range o.Queues {
		if q.Migrating {
			c.notice("queue %q is being migrated, with %s in another queue; rehop topology migrate continues the migration", q.Name, counted(q.Kept, "message"))
		}
	}
	rows = nil
	for _, w := range o.Waits {
		if w.Messages > 0 {
			rows = append(rows, []string{w.Name, strconv.Itoa(w.Messages)})
		}
	}
	waits := table{heading: []string{"WAITS IN", "MESSAGES"}, rows: rows}
	waits.counts(1, yellow)
	if err := c.printSection(waits); err != nil {
		return err
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
	return c.printf("\norphans %s, unrouted %s\n", c.alarming(*o.Orphans), c.alarming(*o.Unrouted))
}

// alarming is a number that should be zero.
func (c *command) alarming(n int) string {
	if n == 0 {
		return "0"
	}
	return c.red(strconv.Itoa(n))
}

func number(n *int) string {
	if n == nil {
		return "-"
	}
	return strconv.Itoa(*n)
}

func dash(text string) string { return cmp.Or(text, "-") }
