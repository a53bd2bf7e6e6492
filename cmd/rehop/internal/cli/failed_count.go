package cli

import (
	"strconv"

	"github.com/spf13/cobra"
)

func (c *command) failedCount() *cobra.Command {
	var d *desk
	cmd := &cobra.Command{
		Use:   "count queue",
		Short: "Count failed messages",
		Long:  `Count prints how many messages of the failed queue of a queue match the flags. It reads them all, and leaves them there.`,
		Args:  func(cmd *cobra.Command, args []string) error { return d.origin.needs(cmd, args, "queue") },
		RunE: func(cmd *cobra.Command, args []string) error {
			s, filter, err := d.open(cmd.Context(), firstOf(args))
			if err != nil {
				return err
			}
			defer s.close()
			d.noteDelayed(cmd.Context(), s)
			n, err := s.count(cmd.Context(), filter)
			if err != nil {
				return d.explainFailed(s, err)
			}
			if d.json {
				return d.printJSON(failedCount{s.queue, n.Messages})
			}
			return d.printf("%s\n", strconv.Itoa(n.Messages))
		},
	}
	d = c.newDesk(cmd)
	return cmd
}
