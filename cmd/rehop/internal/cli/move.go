package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/cmd/rehop/internal/config"
	"github.com/rehop/rehop/layout"
	"github.com/rehop/rehop/topology"
)

// moveFlags are the flags of move.
type moveFlags struct {
	from, to  side
	file      string
	queueType string
	dryRun    bool
	verbose   bool
	yes       bool
	options   admin.MoveOptions
}

func (c *command) move() *cobra.Command {
	m := &moveFlags{from: side{flag: "from", role: "source"}, to: side{flag: "to", role: "target"}}
	cmd := &cobra.Command{
		Use:   "move [--from url] --to url",
		Short: "Move queues with their messages to another broker or virtual host",
		Long: `Move moves the queues of a virtual host to another broker, or to another virtual host: from the embedded broker to a RabbitMQ cluster, or from RabbitMQ 3 to
RabbitMQ 4. First it declares on the target what the source has and the target lacks: exchanges, queues, bindings and policies. What the target would refuse is reported before anything is changed. Then it
moves the messages, with their routing keys, properties, headers and attempts. Messages that wait for their next attempt wait on the target for the rest of their delay, rounded up.

The target confirms each message before it is removed from the source: a move that is interrupted or killed loses nothing, and you can run it again for the rest. If it is killed, up to 256
messages are moved twice, with the same message ids. Consumers may run on both sides, except those of queues with order-by. Move ends when the source has no messages, so let publishers publish to the target
first. The queues stay on the source, empty.

Without --from, the source is the broker that other commands use: that of --broker, $REHOP_BROKER or the rehop.yaml in this directory, or the one on this machine. Without --to, the target is the broker of --config.

It prints what it will do and asks, or needs --yes. At the end it prints for each queue how many messages were moved, are left on the source, have arrived, and are due later. The exit code is 3 if messages
are left, or if something prevents the move.`,
		Example: `  rehop move --from amqp://guest:guest@localhost/ --to amqps://app:secret@rabbit/shop --dry-run
  rehop move --from amqp://app:secret@blue/ --to amqp://app:secret@green/ --queue-type quorum
  rehop move --from amqp://app:secret@rabbit/old --to amqp://app:secret@rabbit/new --queue 'order*'
  rehop move --config target.yaml`,
		Args: none,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.moveQueues(cmd.Context(), m) },
	}
	flags, o := cmd.Flags(), &m.options
	flags.StringVar(&m.from.named, "from", "", "URL of the source, with its virtual host, or several of a cluster with commas between them (default $"+envFrom+", else as for --broker)")
	flags.StringVar(&m.to.named, "to", "", "URL of the target, likewise (default $"+envTo+", else the broker of --config)")
	flags.StringVar(&m.from.management, "from-management", "", "URL of the source's management API (default the same host, port 15672, or 15671 with TLS)")
	flags.StringVar(&m.to.management, "to-management", "", "URL of the target's management API (default as for the source)")
	flags.StringSliceVar(&o.Queues, "queue", nil, "move only these queues, with their failed and waiting messages; a * at the end of a name matches anything")
	flags.StringSliceVar(&o.Except, "except", nil, "leave out these queues")
	flags.StringVar(&m.file, "config", "", "file (rehop.yaml) of the target: what its flows need is declared as they need it, for example in another layout")
	flags.StringVar(&m.queueType, "queue-type", "", "type of classic queues on the target: quorum or classic; either also leaves out mirroring, which RabbitMQ 4 does not have")
	flags.BoolVar(&o.Durable, "durable", false, "declare transient queues and exchanges as durable")
	flags.BoolVar(&o.Users, "users", false, "move users with permissions in the virtual host, too, with the hashes of their passwords; needs administrators on both sides")
	flags.DurationVar(&o.Timeout, "timeout", time.Minute, "how long a broker may be away or refuse messages, and consumers of the source may keep messages at the end")
	flags.DurationVar(&o.Settle, "settle", 0, "how long the source must have been empty at the end (default 12s, with the embedded broker 0s)")
	flags.BoolVarP(&m.verbose, "verbose", "v", false, "list each object that is declared, and each queue that is empty")
	flags.BoolVar(&m.dryRun, "dry-run", false, "print what would be done, and change nothing")
	addYes(flags, &m.yes)
	return cmd
}

func (c *command) moveQueues(ctx context.Context, m *moveFlags) error {
	switch m.options.QueueType = layout.QueueType(m.queueType); m.options.QueueType {
	case "", layout.Quorum, layout.Classic:
	default:
		return usage("--queue-type %s: use quorum or classic", m.queueType)
	}
	if m.options.Timeout < 0 || m.options.Settle < 0 {
		return usage("--timeout and --settle must not be negative")
	}
	var (
		of   queueLayouts
		file *config.File
	)
	if m.file != "" {
		var err error
		if file, err = config.Load(m.file); err != nil {
			return &exitError{exitUsage, err}
		}
		if m.options.Plan, err = rehop.Topology(file.Config(), file.Subscribers()...); err != nil {
			return usage("%s: %w", m.file, err)
		}
		of = flowLayouts(file)
	}
	// The target first: the rehop.yaml in this directory is about the source.
	if err := c.findTarget(&m.to, file); err != nil {
		return err
	}
	if err := c.findSource(&m.from); err != nil {
		return err
	}
	from, err := c.openSide(ctx, m.from, queueLayouts{})
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := c.openSide(ctx, m.to, of)
	if err != nil {
		return err
	}
	defer to.Close()
	return explainMove(c.moveBetween(ctx, from, to, m))
}

func (c *command) moveBetween(ctx context.Context, from, to *admin.Admin, m *moveFlags) error {
	plan, err := from.PlanMove(ctx, to, m.options)
	if err != nil {
		return err
	}
	if err := c.printMovePlan(plan, m); err != nil {
		return err
	}
	if n := len(plan.Refused); n > 0 {
		return found("nothing was changed, because the target would refuse this, or messages could lose their order: %s", counted(n, "problem"))
	}
	if m.dryRun {
		c.notice("nothing was changed: this was a dry run")
		return nil
	}
	if err := c.agree(ctx, m.yes, fmt.Sprintf("move %s", counted(messagesOf(plan), "message"))); err != nil {
		return err
	}
	bar := c.progressOf("moved")
	waiting, queue := "", ""
	m.options.Progress = func(p admin.MoveProgress) {
		if p.Waiting != waiting && p.Waiting != "" {
			bar.end()
			c.notice("waiting for %s", p.Waiting)
		}
		if waiting = p.Waiting; p.Queue != queue && c.Width > 0 && !c.json {
			queue = p.Queue
			bar.end()
			c.notice("queue %s", queue)
		}
		bar.show(int64(p.Moved), int64(p.Total))
	}
	balance, err := from.Move(ctx, to, m.options)
	bar.end()
	if err != nil && len(balance.Queues) == 0 {
		return err // nothing was moved, and nothing is there to be moved
	}
	if fault := c.printBalance(balance); fault != nil && err == nil {
		err = fault
	}
	if err != nil && balance.Sum().Moved > 0 {
		c.notice("run the same command again to move the rest; what was moved stays moved")
	}
	return err
}

func messagesOf(plan admin.MovePlan) (n int) {
	for _, q := range plan.Queues {
		n += q.Messages
	}
	return n
}

// printMovePlan prints what a move would do. With JSON, only a dry run prints it: otherwise the balance is the result.
func (c *command) printMovePlan(plan admin.MovePlan, m *moveFlags) error {
	if c.json && !m.dryRun && len(plan.Refused) == 0 {
		return nil
	}
	if c.json {
		return c.printJSON(plan)
	}
	text := summaryOf(plan)
	if m.verbose {
		text = plan.String()
	}
	return c.printf("%s\n", plainLines(strings.TrimRight(text, "\n")))
}

// summaryOf is what matters of a plan: how much is declared, which queues have messages, and what an operator must know.
func summaryOf(plan admin.MovePlan) string {
	var s strings.Builder
	if len(plan.Declared) > 0 {
		fmt.Fprintf(&s, "declare %s (--verbose lists them)\n", countedKinds(plan.Declared))
	}
	for _, user := range plan.Users {
		fmt.Fprintf(&s, "create user %q\n", user)
	}
	empty := 0
	for _, q := range plan.Queues {
		if q.Messages == 0 {
			empty++
			continue
		}
		fmt.Fprintf(&s, "move queue %q: %s\n", q.Name, counted(q.Messages, "message"))
	}
	switch {
	case empty == len(plan.Queues):
		fmt.Fprintln(&s, "no queue has messages")
	case empty > 0:
		fmt.Fprintf(&s, "%s without messages\n", counted(empty, "queue"))
	}
	for _, note := range plan.Notes {
		fmt.Fprintf(&s, "note: %s\n", note)
	}
	for _, r := range plan.Refused {
		fmt.Fprintf(&s, "refused: %s: %s\n", r.Object, r.Reason)
	}
	return s.String()
}

// countedKinds is a text such as 2 exchanges, 1 queue.
func countedKinds(objects []topology.Object) string {
	numbers := make(map[string]int)
	for _, o := range objects {
		numbers[o.Kind]++
	}
	var parts []string
	for _, kind := range []struct {
		of   string
		name string
	}{{topology.ExchangeObject, "exchange"}, {topology.QueueObject, "queue"}, {topology.BindingObject, "binding"}} {
		if n := numbers[kind.of]; n > 0 {
			parts = append(parts, counted(n, kind.name))
		}
	}
	switch n := numbers[topology.PolicyObject]; n {
	case 0:
	case 1:
		parts = append(parts, "1 policy")
	default:
		parts = append(parts, fmt.Sprintf("%d policies", n))
	}
	return strings.Join(parts, ", ")
}

func (c *command) printBalance(b admin.Balance) error {
	if c.json {
		return c.printJSON(b)
	}
	sum := b.Sum()
	sum.Queue = "total"
	var rows [][]string
	for _, q := range append(b.Queues, sum) {
		rows = append(rows, []string{q.Queue, fmt.Sprint(q.Moved), fmt.Sprint(q.Again), fmt.Sprint(q.Left), fmt.Sprint(q.Arrived), fmt.Sprint(q.Due)})
	}
	return c.printTable([]string{"QUEUE", "MOVED", "AGAIN", "LEFT", "ARRIVED", "DUE"}, rows)
}

// explainMove gives the errors of a move their exit codes.
func explainMove(err error) error {
	switch {
	case errors.Is(err, admin.ErrSamePlace):
		return usage("%w", err)
	case errors.Is(err, admin.ErrLeft), errors.Is(err, admin.ErrRefused):
		return found("%w", err)
	case away(err):
		return unreachable(err)
	}
	return err
}
