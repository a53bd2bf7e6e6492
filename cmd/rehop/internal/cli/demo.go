package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/rehop/rehop/cmd/rehop/internal/demo"
)

// plainLength is how long a demo runs that cannot be ended with a key.
const plainLength = 20 * time.Second

func (c *command) demo() *cobra.Command {
	var o demo.Options
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show messages live as they fail, are retried and are replayed",
		Long: `Demo runs a small shop on the embedded broker and shows its messages live. It needs nothing else, and leaves nothing behind.

Orders arrive. A summary service follows all of them; a notification service sends an SMS for each new one, and the SMS gateway is busy now and then, goes down
from time to time, and does not know some phone numbers. A message that fails waits in delay queues on the broker (with short delays) and returns to its own queue. After its
last attempt it stays in the failed queue until you replay it. At the end, demo accounts for every message by its id: published = handled + failed, lost 0.
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
	o.Out, o.Width, o.Coloured, o.Quiet = c.Out, c.Width, c.coloured(), c.json
	o.Plain = o.Plain || c.Width == 0 || c.env("TERM") == "dumb"
	restore := func() error { return nil }
	if !o.Plain && !o.Quiet {
		watching, stop := context.WithCancel(ctx)
		defer stop()
		o.Keys, restore = c.keys(watching)
	}
	if o.For == 0 && o.Keys == nil {
		o.For = plainLength
	}
	sums, err := demo.Run(ctx, o)
	if err = errors.Join(err, restore()); err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	if err := c.printSums(sums); err != nil {
		return err
	}
	if !sums.Balanced() {
		return errors.New("demo: the sums do not balance: published must be handled + failed, with none lost and none handled twice")
	}
	return nil
}

// keys returns the keys that the user types, until ctx ends. It sets the terminal to raw mode, which must be restored. Nil: there is no
// terminal.
func (c *command) keys(ctx context.Context) (keys <-chan byte, restore func() error) {
	nothing := func() error { return nil }
	in, is := c.In.(*os.File)
	if !c.Interactive || !is {
		return nil, nothing
	}
	before, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return nil, nothing
	}
	typed := make(chan byte)
	// A read from a terminal cannot be canceled: this goroutine ends with the next key, or with the process.
	go func() {
		var key [1]byte
		for {
			if _, err := io.ReadFull(in, key[:]); err != nil {
				return
			}
			select {
			case typed <- key[0]:
			case <-ctx.Done():
				return
			}
		}
	}()
	return typed, func() error { return term.Restore(int(in.Fd()), before) }
}

func (c *command) printSums(sums demo.Sums) error {
	if c.json {
		return c.printJSON(sums)
	}
	rows := make([][]string, len(sums.Queues))
	for i, q := range sums.Queues {
		rows[i] = []string{q.Queue}
		for _, n := range []int{q.Published, q.Handled, q.Failed, q.Lost, q.Twice} {
			rows[i] = append(rows[i], strconv.Itoa(n))
		}
	}
	if err := c.printTable([]string{"QUEUE", "PUBLISHED", "HANDLED", "FAILED", "LOST", "TWICE"}, rows); err != nil {
		return err
	}
	balance := "published = handled + failed"
	if !sums.Balanced() {
		balance = "the sums do not balance"
	}
	return c.printf("%d messages in %.1f s, %d retries, %d replayed: %s\n", sums.Messages, sums.Seconds, sums.Retries, sums.Replayed, balance)
}
