package cli

import (
	"github.com/spf13/cobra"

	"github.com/rehop/rehop/cmd/rehop/internal/config"
)

func (c *command) run() *cobra.Command {
	var f serviceFlags
	cmd := &cobra.Command{
		Use:   "run rehop.yaml",
		Short: "Run the flows of a file on a broker",
		Long: `Runs the flows and outbox relays of a file on a broker: that of --broker, of $REHOP_BROKER, of the file, or one on this
machine. Several copies share the work. A broker that cannot be reached is waited for.

SIGHUP reads the file again: flows that have not changed go on, and a file with faults changes nothing. SIGTERM and ^C let what is
under way come to its end, and the second one ends at once: what was not finished goes back to the broker.`,
		Args: needs("file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			first, err := c.loadFile(args[0])
			if err != nil {
				return err
			}
			s, stop, err := c.service(&f, func() (*config.File, error) { return config.Load(args[0]) }, first)
			if err != nil {
				return err
			}
			defer stop()
			return runService(cmd.Context(), s)
		},
	}
	f.add(cmd.Flags())
	return cmd
}
