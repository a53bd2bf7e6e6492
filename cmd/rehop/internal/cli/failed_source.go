package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rehop/rehop/admin"
)

// origin is the flag for an error queue of another program.
type origin struct{ from string }

func (o *origin) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.from, "from", "", "read this queue, which can be an error queue of any framework, instead of the failed queue of a queue")
}

// needs checks the arguments of a command. With --from, the first one, which is the queue, must not be given.
func (o *origin) needs(cmd *cobra.Command, args []string, names ...string) error {
	if o.from != "" {
		names = names[1:]
	}
	return needs(names...)(cmd, args)
}

// split are the queue and the further arguments. With --from there is no queue.
func (o *origin) split(args []string) (queue string, rest []string) {
	if o.from != "" || len(args) == 0 {
		return "", args
	}
	return args[0], args[1:]
}

// failedSource is the failed messages that a command reads: those of a queue, or those in an error queue.
type failedSource struct {
	admin  *admin.Admin
	queue  string            // whose failed queue it is, or the error queue
	errors *admin.ErrorQueue // nil: it is a failed queue
}

// openFailures connects, and finds what is meant by the name of a queue, or by --from.
func (c *command) openFailures(ctx context.Context, o origin, l layoutChoice, name string) (failedSource, error) {
	if o.from == "" {
		a, queue, err := c.openFailed(ctx, l, name)
		return failedSource{admin: a, queue: queue}, err
	}
	if l.name != "" {
		return failedSource{}, usage("--layout is for failed queues of rehop; --from finds out by itself how a message has failed")
	}
	a, err := c.openQueues(ctx, l)
	if err != nil {
		return failedSource{}, err
	}
	return failedSource{admin: a, queue: o.from, errors: a.ErrorQueue(o.from)}, nil
}

func (s failedSource) close() { s.admin.Close() }

// String is a phrase for users, as in: the failed queue of "orders".
func (s failedSource) String() string {
	if s.errors != nil {
		return fmt.Sprintf("the error queue %q", s.queue)
	}
	return fmt.Sprintf("the failed queue of %q", s.queue)
}

func (s failedSource) list(ctx context.Context, limit int, filter admin.Filter) ([]admin.Message, error) {
	if s.errors != nil {
		return s.errors.Messages(ctx, limit, filter)
	}
	return s.admin.Failed(ctx, s.queue, limit, filter)
}

func (s failedSource) count(ctx context.Context, filter admin.Filter) (admin.Count, error) {
	if s.errors != nil {
		return s.errors.Count(ctx, filter)
	}
	return s.admin.CountFailed(ctx, s.queue, filter)
}

func (s failedSource) delayed(ctx context.Context) (int, error) {
	if s.errors != nil {
		return s.errors.Delayed(ctx)
	}
	return s.admin.Delayed(ctx, s.queue)
}

func (s failedSource) export(ctx context.Context, w io.Writer, filter admin.Filter) (int, error) {
	if s.errors != nil {
		return s.errors.Export(ctx, w, filter)
	}
	return s.admin.Export(ctx, s.queue, w, filter)
}

// replay returns messages to their queues. to is only for error queues.
func (s failedSource) replay(ctx context.Context, to string, o admin.Options) (admin.Progress, error) {
	if s.errors != nil {
		return s.errors.Replay(ctx, to, o)
	}
	return s.admin.Replay(ctx, s.queue, o)
}

func (s failedSource) discard(ctx context.Context, o admin.Options) (admin.Progress, error) {
	if s.errors != nil {
		return s.errors.Discard(ctx, o)
	}
	return s.admin.Discard(ctx, s.queue, o)
}

// explainFailed is explain for a command that has read failed messages.
func (c *command) explainFailed(s failedSource, err error) error {
	if s.errors != nil && errors.Is(err, admin.ErrNoQueue) {
		return fmt.Errorf("%w; --from and --to take the names of queues as they are on the broker; check also the virtual host in its URL", err)
	}
	return c.explain(err)
}
