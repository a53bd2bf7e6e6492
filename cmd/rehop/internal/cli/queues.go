package cli

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/rehop/rehop/admin"
)

// queueView is a queue as JSON.
type queueView struct {
	Name      string `json:"name"`
	Type      string `json:"type,omitempty"`
	Ready     int    `json:"ready"`
	Unacked   *int   `json:"unacked,omitempty"`
	Consumers int    `json:"consumers"`
	Waiting   *int   `json:"waiting,omitempty"`
	Failed    int    `json:"failed"`
	Migrating bool   `json:"migrating,omitempty"`
	Moving    int    `json:"moving,omitempty"`
}

type waitView struct {
	Name     string `json:"name"`
	Messages int    `json:"messages"`
}

// overview is what rehop has on a broker, as JSON. Without the management API there are queues alone.
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
			of, err := c.layoutsOf(chosen, names...)
			if err != nil {
				return err
			}
			a, err := c.openAdmin(cmd.Context(), of)
			if err != nil {
				return err
			}
			defer a.Close()
			for _, name := range names { // without names, the management API counts these messages as failed
				c.noteDelayed(cmd.Context(), a, name)
			}
			o, err := lookAt(cmd.Context(), a, names, waiting)
			if err != nil {
				return explain(err)
			}
			if c.json {
				return c.printJSON(o)
			}
			return c.printOverview(o)
		},
	}
	chosen.addFlags(cmd.Flags())
	cmd.Flags().IntVar(&waiting, "waiting", 0, "count what waits for each queue, by reading up to this many messages of each delay queue")
	return cmd
}

// firstOf is the first of some names, or none.
func firstOf(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return names[0]
}

func lookAt(ctx context.Context, a *admin.Admin, names []string, waiting int) (overview, error) {
	if len(names) > 0 {
		return lookAtSome(ctx, a, names)
	}
	list := a.Queues
	if waiting > 0 {
		list = func(ctx context.Context) (admin.Overview, error) { return a.QueuesWithWaiting(ctx, waiting) }
	}
	found, err := list(ctx)
	if err != nil {
		return overview{}, err
	}
	o := overview{Queues: []queueView{}, Orphans: &found.Orphans, Unrouted: &found.Unrouted}
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

func lookAtSome(ctx context.Context, a *admin.Admin, names []string) (overview, error) {
	var o overview
	for _, name := range names {
		q, err := a.Queue(ctx, name)
		if err != nil {
			return o, fmt.Errorf("look at queue %q: %w", name, err)
		}
		o.Queues = append(o.Queues, queueViewOf(q))
	}
	return o, nil
}

func queueViewOf(q admin.Queue) queueView {
	v := queueView{Name: q.Name, Type: q.Type, Ready: q.Ready, Consumers: q.Consumers, Failed: q.Failed, Migrating: q.Migrating, Moving: q.Moving}
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
	if err := c.printTable([]string{"QUEUE", "TYPE", "READY", "UNACKED", "WAITING", "FAILED", "CONSUMERS"}, rows); err != nil {
		return err
	}
	for _, q := range o.Queues {
		if q.Migrating {
			c.notice("queue %q is being migrated, and %s kept aside for it; rehop topology migrate continues that", q.Name, counted(q.Moving, "message"))
		}
	}
	rows = nil
	for _, w := range o.Waits {
		if w.Messages > 0 {
			rows = append(rows, []string{w.Name, strconv.Itoa(w.Messages)})
		}
	}
	if len(rows) > 0 {
		if err := c.printf("\n"); err != nil {
			return err
		}
		if err := c.printTable([]string{"WAITS IN", "MESSAGES"}, rows); err != nil {
			return err
		}
	}
	rows = nil
	for _, r := range o.Recovered {
		rows = append(rows, []string{r.Name, strconv.Itoa(r.Messages)})
	}
	if len(rows) > 0 {
		if err := c.printf("\n"); err != nil {
			return err
		}
		if err := c.printTable([]string{"RECOVERED IN", "MESSAGES"}, rows); err != nil {
			return err
		}
	}
	if o.Orphans == nil {
		return nil
	}
	return c.printf("\norphans %d, unrouted %d\n", *o.Orphans, *o.Unrouted)
}

func number(n *int) string {
	if n == nil {
		return "-"
	}
	return strconv.Itoa(*n)
}

func dash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
