package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

// command is one run of rehop: its surroundings, and the flags that all commands share.
type command struct {
	Surroundings
	reach reach
	json  bool
	// hangups receives SIGHUP from the beginning.
	hangups chan os.Signal
}

// Run runs a command line and returns its exit code.
func Run(ctx context.Context, args []string, s Surroundings) int {
	hangups := notified(syscall.SIGHUP)
	defer signal.Stop(hangups)
	ctx, stop := untilSignal(ctx)
	defer stop()
	root := (&command{Surroundings: s, hangups: hangups}).root()
	root.SetArgs(args)
	root.SetIn(s.In)
	root.SetOut(s.Out)
	root.SetErr(s.Err)
	err := root.ExecuteContext(ctx)
	switch {
	case errors.Is(err, context.Canceled) && err.Error() == context.Canceled.Error():
		fmt.Fprintln(s.Err, "rehop: interrupted")
	case err != nil:
		fmt.Fprintln(s.Err, "rehop: "+plainLines(redacted(strings.TrimSpace(err.Error()))))
	}
	return codeOf(ctx, err)
}

func (c *command) root() *cobra.Command {
	var version bool
	root := &cobra.Command{
		Use:   "rehop",
		Short: "Reliable messaging for RabbitMQ",
		Long: `rehop consumes messages and hands them to an HTTP endpoint, a command or another exchange. Messages that fail
wait on the broker and are retried by schedule. After the last attempt they stay in a failed queue until you replay them. No confirmed message is lost.`,
		SilenceErrors: true, SilenceUsage: true,
		// An unknown command is an error, not a request for help.
		Args: noSuchCommand,
		PersistentPreRun: func(cmd *cobra.Command, _ []string) {
			if _, reload := cmd.Annotations[reloads]; !reload {
				releaseHangups(c.hangups)
			}
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if version {
				return c.printVersion()
			}
			return cmd.Help()
		},
	}
	root.Flags().BoolVar(&version, "version", false, "print the version")
	root.SetFlagErrorFunc(noSuchFlag)
	c.reach.addFlags(root.PersistentFlags())
	root.PersistentFlags().BoolVar(&c.json, "json", false, "print data as JSON")
	root.AddCommand(c.commands()...)
	c.completeBelow(root)
	fitHelp(root)
	fitFlags(root)
	return root
}
