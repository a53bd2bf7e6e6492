package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rehop/rehop/admin"
)

// moving is the flags that replay and discard share.
type moving struct {
	*desk
	limit  int
	rate   float64
	dryRun bool
}

func (m *moving) addFlags(flags *pflag.FlagSet) {
	flags.IntVarP(&m.limit, "limit", "n", 0, "at most this many messages (default all that are there at the start)")
	flags.Float64Var(&m.rate, "rate", 0, "at most this many messages per second (default no limit)")
	flags.BoolVar(&m.dryRun, "dry-run", false, "only report how many messages it would be")
}

// moved is the result of a replay or discard in JSON output.
type moved struct {
	Queue  string `json:"queue,omitempty"`
	Done   int    `json:"done"`
	Kept   int    `json:"kept"`
	DryRun bool   `json:"dry_run,omitempty"`
	// Delayed is how many messages the broker delays, so that they were not seen.
	Delayed int `json:"delayed,omitempty"`
}

func (c *command) failedReplay() *cobra.Command {
	m := new(moving)
	var (
		drop []string
		to   string
	)
	cmd := &cobra.Command{
		Use:   "replay queue",
		Short: "Return failed messages to their queue",
		Long: `Replay returns messages from the failed queue of a queue to that queue, and only that queue, with all their attempts. The broker confirms
each copy before the original is removed: a replay that is interrupted or killed loses nothing, and you can run it again for the rest. If it is killed, up to 256 messages
are replayed twice.

With --from, messages go to the queue that --to names. Without --to, each goes to the queue that its record names, or, if that has only an exchange and a key, to that
exchange, and so to all queues that are bound for it. They are unwrapped, and lose the headers and counters of their failure, so that their framework gives them all their attempts again.`,
		Args: func(cmd *cobra.Command, args []string) error { return m.origin.needs(cmd, args, "queue") },
		RunE: func(cmd *cobra.Command, args []string) error {
			if to != "" && m.origin.from == "" {
				return usage("--to needs --from: messages of a failed queue return to the queue in which they failed")
			}
			return m.run(cmd.Context(), firstOf(args), "replayed", func(ctx context.Context, s failedSource, o admin.Options) (admin.Progress, error) {
				o.DropHeaders = drop
				return s.replay(ctx, to, o)
			})
		},
	}
	m.desk = c.newDesk(cmd)
	m.addFlags(cmd.Flags())
	cmd.Flags().StringVar(&to, "to", "", "with --from: replay all messages to this queue (default the one that the record of a message names)")
	cmd.Flags().StringSliceVar(&drop, "drop-header", nil, "remove headers with these names; a * at the end of a name matches anything")
	return cmd
}

func (c *command) failedDrop() *cobra.Command {
	m := new(moving)
	yes := false
	cmd := &cobra.Command{
		Use:   "discard queue",
		Short: "Remove failed messages permanently",
		Long: `Discard removes messages from the failed queue of a queue. They cannot be recovered; use rehop failed export to keep a copy. It counts
them first and asks, or needs --yes. It removes no more than it has counted, and no message
that has failed since.`,
		Args: func(cmd *cobra.Command, args []string) error { return m.origin.needs(cmd, args, "queue") },
		RunE: func(cmd *cobra.Command, args []string) error {
			return m.run(cmd.Context(), firstOf(args), "discarded", func(ctx context.Context, s failedSource, o admin.Options) (admin.Progress, error) {
				n, err := m.count(ctx, s, o.Filter)
				if err != nil || n.Messages == 0 {
					return admin.Progress{}, err
				}
				if err := c.agree(ctx, yes, fmt.Sprintf("discard %s of %q permanently", counted(n.Messages, "failed message"), s.queue)); err != nil {
					return admin.Progress{}, err
				}
				m.limit = n.Messages
				o.Limit, o.Filter = m.limit, o.Filter.UpTo(n)
				return s.discard(ctx, o)
			})
		},
	}
	m.desk = c.newDesk(cmd)
	m.addFlags(cmd.Flags())
	addYes(cmd.Flags(), &yes)
	return cmd
}

func (m *moving) run(ctx context.Context, name, verb string, move func(context.Context, failedSource, admin.Options) (admin.Progress, error)) error {
	if m.limit < 0 || m.rate < 0 {
		return usage("--limit and --rate must not be negative")
	}
	s, filter, err := m.open(ctx, name)
	if err != nil {
		return err
	}
	defer s.close()
	m.noteDelayed(ctx, s)
	if m.dryRun {
		return m.explainFailed(s, m.preview(ctx, s, verb, filter))
	}
	bar, limit := m.progressOf(verb), m.limit
	done, err := move(ctx, s, admin.Options{Filter: filter, Limit: m.limit, Rate: m.rate, Progress: func(p admin.Progress) {
		bar.show(int64(p.Done), int64(m.expected(p)))
	}})
	bar.end()
	if err == nil || done.Seen > 0 {
		err = errors.Join(err, m.report(moved{Queue: s.queue, Done: done.Done, Kept: done.Kept, Delayed: done.Delayed}, verb))
	}
	if errors.Is(err, admin.ErrNoDestination) {
		m.notice("some messages do not record in which queue they failed; name it with --to, and choose them with --id or other flags if not all belong there")
	}
	switch {
	case err == nil:
	case ctx.Err() != nil && done.Seen == 0:
		m.notice("nothing was %s", verb)
	case ctx.Err() != nil:
		m.notice("the other messages are still in %v; %s", s, again(limit, done.Done))
	case away(err):
		m.notice("the connection was lost, but no message; %s", again(limit, done.Done))
	}
	return m.explainFailed(s, err)
}

// again returns how to continue with the rest of the messages.
func again(limit, done int) string {
	if limit > done {
		return fmt.Sprintf("run the command again with --limit %d for the rest", limit-done)
	}
	return "run the command again for the rest"
}

// expected is how many messages will be moved, as far as that is known.
func (m *moving) expected(p admin.Progress) int {
	if m.limit > 0 {
		return min(m.limit, p.Total)
	}
	return p.Total - p.Kept
}

func (m *moving) preview(ctx context.Context, s failedSource, verb string, filter admin.Filter) error {
	n, err := m.count(ctx, s, filter)
	if err != nil {
		return err
	}
	if m.json {
		return m.printJSON(moved{Queue: s.queue, Done: n.Messages, DryRun: true, Delayed: n.Delayed})
	}
	return m.printf("%s would be %s\n", counted(n.Messages, "message"), verb)
}

func (m *moving) report(r moved, verb string) error {
	if m.json {
		return m.printJSON(r)
	}
	return m.printf("%s %d, kept %d\n", verb, r.Done, r.Kept)
}

// count returns how many messages match. It reads them all and leaves them in the queue.
func (m *moving) count(ctx context.Context, s failedSource, filter admin.Filter) (admin.Count, error) {
	n, err := s.count(ctx, filter)
	if m.limit > 0 {
		n.Messages = min(n.Messages, m.limit)
	}
	return n, err
}
