package cli

import (
	"context"
	"errors"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/rehop/rehop/broker"
	"github.com/rehop/rehop/cmd/rehop/internal/demo"
	"github.com/rehop/rehop/cmd/rehop/internal/serve"
	"github.com/rehop/rehop/cmd/rehop/internal/tty"
)

func (c *command) demo() *cobra.Command {
	var o demo.Options
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show messages live as they fail, are retried and are replayed",
		Long: `Demo runs a small shop on the embedded broker and shows its messages live. It needs nothing else, and leaves nothing behind.

Orders arrive. A summary service follows all of them; a notification service sends an SMS for each new one, and the SMS gateway is busy now and then, goes down
from time to time, and does not know some phone numbers. A message that fails waits in delay queues on the broker (with short delays) and returns to its own queue. After its
last attempt it stays in the failed queue until you replay it, with the key r or in the console, whose address is on the screen: there you can also
correct a phone number and replay its message. The console needs no login, and only this machine reaches it. At the end, demo accounts for every message by its id: published = handled + failed, lost 0.
Otherwise the exit code is 1.`,
		Example: `  rehop demo
  rehop demo --for 20s --plain`,
		Args: none,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.runDemo(cmd.Context(), o) },
	}
	flags := cmd.Flags()
	flags.DurationVar(&o.For, "for", 0, "how long orders arrive (default until you press q; 20s with --plain or without a terminal)")
	flags.BoolVar(&o.Plain, "plain", false, "print a line for each event instead of a full screen, and replay automatically")
	return cmd
}

func (c *command) runDemo(ctx context.Context, o demo.Options) error {
	if o.For < 0 {
		return usage("--for %v must not be negative", o.For)
	}
	o.Out, o.Size, o.Coloured, o.Quiet = c.Out, tty.SizeOf(c.Out), c.coloured(), c.json
	o.Plain = o.Plain || c.Width == 0 || c.env("TERM") == "dumb"
	o.Console = func(ctx context.Context, server *broker.Server) (demo.Console, error) {
		return serve.OpenLocalConsole(ctx, server, slog.New(slog.DiscardHandler))
	}
	sums, err := demo.Show(ctx, c.In, o)
	if err != nil && !errors.Is(err, demo.ErrNotBalanced) {
		return err
	}
	if c.json {
		return errors.Join(c.printJSON(sums), err)
	}
	if err := errors.Join(c.printf("%s", sums), err); err != nil {
		return err
	}
	return c.printf("%s", demo.Next)
}
