package cli

import "github.com/spf13/cobra"

// commands are all commands, in the order of the help.
func (c *command) commands() []*cobra.Command {
	return []*cobra.Command{
		c.version(),
	}
}
