package cli

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/rehop/rehop/cmd/rehop/internal/config"
)

func (c *command) check() *cobra.Command {
	return &cobra.Command{
		Use:   "check [rehop.yaml]",
		Short: "Find what is wrong in a file",
		Long: `Reads a file as rehop up and rehop run do, and prints all that is wrong in it, with the line. It does not connect to
the broker or to targets. A note is about something that is not wrong, but will not work on every release of RabbitMQ. The exit code is 0 if
nothing is wrong and 3 if something is.`,
		Args: needs("[file]"),
		RunE: func(_ *cobra.Command, args []string) error {
			path := localFile
			if len(args) > 0 {
				path = args[0]
			}
			file, err := config.Load(path)
			var faults config.Faults
			if errors.As(err, &faults) {
				return c.tellFaults(path, faults)
			}
			if err != nil {
				return err
			}
			if c.json {
				return c.printJSON(checked{Path: path, Faults: config.Faults{}, Notes: file.Notes})
			}
			for _, note := range file.Notes {
				if err := c.printf("note: %s\n", plain(note.Error())); err != nil {
					return err
				}
			}
			return c.printf("%s is in order: %s, %s\n", plain(path), counted(len(file.Flows), "flow"), outboxes(len(file.Outboxes)))
		},
	}
}

// checked is what the command says to programs.
type checked struct {
	Path   string        `json:"path"`
	Faults config.Faults `json:"faults"`
	Notes  config.Faults `json:"notes,omitempty"` // what is not wrong and still worth knowing
}

func (c *command) tellFaults(path string, faults config.Faults) error {
	if c.json {
		if err := c.printJSON(checked{Path: path, Faults: faults}); err != nil {
			return err
		}
	} else {
		for _, fault := range faults {
			if err := c.printf("%s\n", plain(fault.Error())); err != nil {
				return err
			}
		}
	}
	return found("%s has %s", path, counted(len(faults), "fault"))
}

func outboxes(n int) string {
	if n == 1 {
		return "1 outbox"
	}
	return counted(n, "outboxe")
}
