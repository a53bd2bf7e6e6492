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
		Long: `Run runs the flows and outbox relays of a file on a broker: that of --broker, of $REHOP_BROKER, of the file, or one on this
machine. Several copies share the work. It waits for a broker that cannot be reached.

` + signalsHelp,
		Args:        needs("file"),
		Annotations: map[string]string{reloads: "the file"},
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
			at, err := c.placesOf(first)
			if err != nil {
				return err
			}
			s.Logger.Info("using broker " + at.broker.String())
			return runService(cmd.Context(), s)
		},
	}
	f.add(cmd.Flags())
	return cmd
}
