package cli

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/cmd/rehop/internal/tty"
)

// topView is the settings of rehop top.
type topView struct {
	every  time.Duration
	count  int
	sort   string
	names  []string // only these queues; nil: all
	broker string
	live   bool // on a terminal
}

// topOrders are the orders of the rows, in the order in which a key goes through them.
var topOrders = []string{"name", "ready", "failed", "in"}

func (c *command) top() *cobra.Command {
	var (
		chosen layoutChoice
		t      topView
	)
	cmd := &cobra.Command{
		Use:   "top [queue…]",
		Short: "Show rehop's queues live",
		Long: `Top shows the queues that subscriptions consume, and updates the picture: messages that arrive and are acked per second, messages that are ready,
unacked and failed, consumers, and how many messages wait in each delay queue. It needs the management API, whose figures are some seconds old.

In a terminal, s changes the order and q quits. Otherwise top prints a table for each interval, until it is interrupted or has printed --count tables.`,
		Example: `  rehop top
  rehop top order-summary --every 5s
  rehop top --count 1 --sort failed`,
		Args: needs("[queue…]"),
		RunE: func(cmd *cobra.Command, names []string) error {
			switch {
			case t.every < 100*time.Millisecond:
				return usage("--every %v: the shortest interval is 100ms", t.every)
			case t.count < 0:
				return usage("--count %d must not be negative", t.count)
			case !slices.Contains(topOrders, t.sort):
				return usage("--sort %s: the orders are %s", t.sort, strings.Join(topOrders, ", "))
			}
			a, err := c.openQueues(cmd.Context(), chosen)
			if err != nil {
				return err
			}
			defer a.Close()
			t.names, t.broker = names, c.reach.at.broker.String()
			if _, err := a.Queues(cmd.Context()); err != nil {
				return c.explain(err)
			}
			return c.showTop(cmd.Context(), a, t)
		},
	}
	chosen.addFlags(cmd.Flags())
	cmd.Flags().DurationVar(&t.every, "every", 2*time.Second, "how often the picture is updated")
	cmd.Flags().IntVar(&t.count, "count", 0, "end after this many pictures (default: when you quit)")
	cmd.Flags().StringVar(&t.sort, "sort", topOrders[0], "order of the rows: "+strings.Join(topOrders, ", "))
	completeValues(cmd, "sort", topOrders)
	return cmd
}

// showTop shows a picture per interval until the user quits.
func (c *command) showTop(ctx context.Context, a *admin.Admin, t topView) error {
	size := tty.SizeOf(c.Out)
	t.live = size != nil && c.env("TERM") != "dumb" && !c.json
	screen := &tty.Screen{Out: c.Out, Coloured: c.coloured(), Size: size}
	var keys <-chan byte
	if t.live {
		watching, stop := context.WithCancel(ctx)
		defer stop()
		var restore func() error
		keys, restore = tty.Keys(watching, c.In)
		screen.Open()
		defer func() {
			screen.Close()
			_ = restore() // the terminal is gone
		}()
	}
	ticks := time.NewTicker(t.every)
	defer ticks.Stop()
	for shown := 1; ; shown++ {
		overview, err := a.Queues(ctx)
		if ctx.Err() != nil {
			return nil
		}
		switch {
		case t.live:
			var room space
			room.width, room.height = screen.Room()
			screen.Draw(topPicture(overview, err, t, room))
		case err != nil:
			return c.explain(err)
		case c.json:
			if err := c.printLine(topViewOf(overview, t)); err != nil {
				return err
			}
		default:
			if err := tty.Print(c.Out, topPicture(overview, nil, t, space{})); err != nil {
				return err
			}
		}
		if shown == t.count {
			return nil
		}
		if quit := waitForTop(ctx, ticks.C, keys, &t); quit {
			return nil
		}
	}
}

// waitForTop waits until the next picture is due, or the user wants another one now or quits.
func waitForTop(ctx context.Context, due <-chan time.Time, keys <-chan byte, t *topView) (quit bool) {
	for {
		select {
		case <-ctx.Done():
			return true
		case <-due:
			return false
		case key := <-keys:
			switch key {
			case 'q', tty.Break:
				return true
			case 's':
				t.sort = topOrders[(slices.Index(topOrders, t.sort)+1)%len(topOrders)]
				return false
			}
		}
	}
}

// rows returns the queues to show, in their order.
func (t topView) rows(o admin.Overview) []admin.Queue {
	rows := slices.Clone(o.Queues)
	if len(t.names) > 0 {
		rows = slices.DeleteFunc(rows, func(q admin.Queue) bool { return !slices.Contains(t.names, q.Name) })
	}
	value := func(q admin.Queue) float64 {
		switch t.sort {
		case "ready":
			return float64(q.Ready)
		case "failed":
			return float64(q.Failed)
		case "in":
			return q.In
		}
		return 0
	}
	slices.SortStableFunc(rows, func(x, y admin.Queue) int { // they are sorted by name
		switch a, b := value(x), value(y); {
		case a > b:
			return -1
		case a < b:
			return 1
		}
		return 0
	})
	return rows
}

// topQueue is a queue in JSON output.
type topQueue struct {
	queueView
	In  float64 `json:"in_per_second"`
	Out float64 `json:"out_per_second"`
}

type topOutput struct {
	Queues []topQueue `json:"queues"`
	Waits  []waitView `json:"waits"`
}

func topViewOf(o admin.Overview, t topView) topOutput {
	out := topOutput{Queues: []topQueue{}, Waits: []waitView{}}
	for _, q := range t.rows(o) {
		out.Queues = append(out.Queues, topQueue{queueViewOf(q), q.In, q.Out})
	}
	for _, d := range o.DelayQueues {
		out.Waits = append(out.Waits, waitView(d))
	}
	return out
}
