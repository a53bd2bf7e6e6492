package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/cmd/rehop/internal/config"
	"github.com/rehop/rehop/internal/rabbit"
	"github.com/rehop/rehop/layout"
)

// envTo is the target of a move, so that its password need not be on the command line.
const envTo = "REHOP_TO"

// side is one of the two brokers of a move.
type side struct {
	flag       string // as in --from
	url        string
	management string
}

// moveFlags are the flags of move.
type moveFlags struct {
	from, to  side
	file      string
	queueType string
	dryRun    bool
	yes       bool
	options   admin.MoveOptions
}

func (c *command) move() *cobra.Command {
	m := &moveFlags{from: side{flag: "from"}, to: side{flag: "to"}}
	cmd := &cobra.Command{
		Use:   "move --from url --to url",
		Short: "Move queues with their messages to another broker or virtual host",
		Long: `Move moves the queues of a virtual host to another broker, or to another virtual host: from the embedded broker to a RabbitMQ cluster, or from RabbitMQ 3 to
RabbitMQ 4. First it declares on the target what the source has and the target lacks: exchanges, queues, bindings and policies. What the target would refuse is reported before anything is changed. Then it
moves the messages, with their routing keys, properties, headers and attempts. Messages that wait for their next attempt wait on the target for the rest of their delay, rounded up.

The target confirms each message before it is removed from the source: a move that is interrupted or killed loses nothing, and you can run it again for the rest. If it is killed, up to 256
messages are moved twice, with the same message ids. Consumers may run on both sides, except those of queues with order-by. Move ends when the source has no messages, so let publishers publish to the target
first. The queues stay on the source, empty.

It prints what it will do and asks, or needs --yes. At the end it prints for each queue how many messages were moved, are left on the source, have arrived, and are due later. The exit code is 3 if messages
are left, or if something prevents the move.`,
		Example: `  rehop move --from amqp://guest:guest@localhost/ --to amqps://app:secret@rabbit/shop --dry-run
  rehop move --from amqp://app:secret@blue/ --to amqp://app:secret@green/ --queue-type quorum
  rehop move --from amqp://app:secret@rabbit/old --to amqp://app:secret@rabbit/new --queue 'order*'`,
		Args: none,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.moveQueues(cmd.Context(), m) },
	}
	flags, o := cmd.Flags(), &m.options
	flags.StringVar(&m.from.url, "from", "", "URL of the source, with its virtual host (default $"+envBroker+")")
	flags.StringVar(&m.to.url, "to", "", "URL of the target, with its virtual host (default $"+envTo+")")
	flags.StringVar(&m.from.management, "from-management", "", "URL of the source's management API (default the same host, port 15672, or 15671 with TLS)")
	flags.StringVar(&m.to.management, "to-management", "", "URL of the target's management API (default as for the source)")
	flags.StringSliceVar(&o.Queues, "queue", nil, "move only these queues, with their failed and waiting messages; a * at the end of a name matches anything")
	flags.StringSliceVar(&o.Except, "except", nil, "leave out these queues")
	flags.StringVar(&m.file, "config", "", "file (rehop.yaml) of the target: what its flows need is declared as they need it, for example in another layout")
	flags.StringVar(&m.queueType, "queue-type", "", "type of classic queues on the target: quorum or classic; either also leaves out mirroring, which RabbitMQ 4 does not have")
	flags.BoolVar(&o.Durable, "durable", false, "declare transient queues and exchanges as durable")
	flags.BoolVar(&o.Users, "users", false, "move users with permissions in the virtual host, too, with the hashes of their passwords; needs administrators on both sides")
	flags.DurationVar(&o.Timeout, "timeout", time.Minute, "how long a broker may be away or refuse messages, and consumers of the source may keep messages at the end")
	flags.DurationVar(&o.Settle, "settle", 0, "how long the source must have been empty at the end (default 6s, with the embedded broker 0s)")
	flags.BoolVar(&m.dryRun, "dry-run", false, "print what would be done, and change nothing")
	addYes(flags, &m.yes)
	return cmd
}

func (c *command) moveQueues(ctx context.Context, m *moveFlags) error {
	m.from.url, m.to.url = cmp.Or(m.from.url, c.env(envBroker)), cmp.Or(m.to.url, c.env(envTo))
	switch m.options.QueueType = layout.QueueType(m.queueType); m.options.QueueType {
	case "", layout.Quorum, layout.Classic:
	default:
		return usage("--queue-type %s: use quorum or classic", m.queueType)
	}
	if m.options.Timeout < 0 || m.options.Settle < 0 {
		return usage("--timeout and --settle must not be negative")
	}
	var of queueLayouts
	if m.file != "" {
		file, err := config.Load(m.file)
		if err != nil {
			return &exitError{exitUsage, err}
		}
		if m.options.Plan, err = rehop.Topology(file.Config(), file.Subscribers()...); err != nil {
			return usage("%s: %w", m.file, err)
		}
		of = flowLayouts(file)
	}
	if m.from.url == "" || m.to.url == "" {
		return usage("move needs --from and --to, the URLs of two brokers, as in amqp://user:password@host:5672/vhost")
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

// openSide connects to one of the two brokers.
func (c *command) openSide(ctx context.Context, s side, of queueLayouts) (*admin.Admin, error) {
	if err := rabbit.CheckURL(s.url); err != nil {
		return nil, usage("--%s %w", s.flag, err)
	}
	if s.management == "" {
		s.management = managementOf(s.url)
	}
	if u, err := url.Parse(s.management); err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return nil, usage("--%s-management must be like http://user:password@host:15672", s.flag)
	}
	encryption, err := c.reach.tlsConfig()
	if err != nil {
		return nil, err
	}
	limited, cancel := context.WithTimeout(ctx, c.reach.connectTimeout)
	defer cancel()
	a, err := admin.Open(limited, admin.Config{URL: s.url, TLS: encryption, Management: s.management, Layout: of.usual, Layouts: of.byQueue, HTTP: httpClient(encryption)})
	if ctx.Err() != nil && err != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, unreachable(fmt.Errorf("connect to the broker of --%s: %w; check that it is running, that the virtual host exists, and the login", s.flag, err))
	}
	return a, nil
}

// managementOf is the usual URL of the management API of a broker. User and password are those of the broker.
func managementOf(broker string) string {
	u, err := url.Parse(broker)
	if err != nil {
		return "" // rabbit.CheckURL has accepted it
	}
	if u.Scheme == "amqps" {
		return "https://" + net.JoinHostPort(u.Hostname(), "15671")
	}
	return "http://" + net.JoinHostPort(u.Hostname(), "15672")
}

func (c *command) moveBetween(ctx context.Context, from, to *admin.Admin, m *moveFlags) error {
	plan, err := from.PlanMove(ctx, to, m.options)
	if err != nil {
		return err
	}
	if err := c.printMovePlan(plan, m.dryRun); err != nil {
		return err
	}
	if n := len(plan.Refused); n > 0 {
		return found("nothing was changed, because the target would refuse this, or messages could lose their order: %s", counted(n, "problem"))
	}
	if m.dryRun {
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
func (c *command) printMovePlan(plan admin.MovePlan, dryRun bool) error {
	if c.json && !dryRun && len(plan.Refused) == 0 {
		return nil
	}
	if c.json {
		return c.printJSON(plan)
	}
	return c.printf("%s\n", plainLines(strings.TrimRight(plan.String(), "\n")))
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
	case errors.Is(err, admin.ErrManagementLogin):
		return unreachable(fmt.Errorf("%w; the logins are in --from-management and --to-management, else in --from and --to", err))
	case away(err):
		return unreachable(err)
	}
	return err
}
