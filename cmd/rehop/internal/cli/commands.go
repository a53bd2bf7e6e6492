package cli

import "github.com/spf13/cobra"

// commands are all commands; help lists them by name.
func (c *command) commands() []*cobra.Command {
	return []*cobra.Command{
		c.initialize(),
		c.up(),
		c.run(),
		c.check(),
		c.schema(),
		c.publish(),
		c.tail(),
		c.queues(),
		c.top(),
		c.failed(),
		c.runs(),
		c.audit(),
		c.held(),
		c.topology(),
		c.move(),
		c.doctor(),
		c.outbox(),
		c.broker(),
		c.completion(),
		c.demo(),
		c.bench(),
		c.version(),
	}
}
