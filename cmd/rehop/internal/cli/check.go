package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/cmd/rehop/internal/config"
	"github.com/rehop/rehop/topology"
)

func (c *command) check() *cobra.Command {
	withBroker := false
	cmd := &cobra.Command{
		Use:   "check [rehop.yaml]",
		Short: "Find what is wrong in a file",
		Long: `Reads a file as rehop up and rehop run do, and prints all that is wrong in it, with the line. It does not connect to
the broker or to targets.

With --with-broker it also asks the broker whether the flows can start there: whether it accepts their queues, has the priorities that they need, and has no exchange or queue of the same name that
differs. For that it declares each missing queue under another name (rehop.try.…) and deletes it. Exchanges, bindings and policies are not tried.

A note is about something that is not wrong, but will not work on every release of RabbitMQ. The exit code is 0 if
nothing is wrong and 3 if something is.`,
		Args: needs("[file]"),
		RunE: func(cmd *cobra.Command, args []string) error {
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
			if withBroker {
				faults, notes, err := c.faultsOnBroker(cmd.Context(), path)
				if len(faults) > 0 {
					return errors.Join(err, c.tellFaults(path, faults))
				}
				if err != nil {
					return err
				}
				file.Notes = append(file.Notes, notes...)
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
	cmd.Flags().BoolVar(&withBroker, "with-broker", false, "also ask the broker whether it accepts what the flows need")
	return cmd
}

// faultsOnBroker are the reasons for which the flows of a file would not start on the broker, and notes on what could not be checked.
func (c *command) faultsOnBroker(ctx context.Context, path string) (faults, notes config.Faults, err error) {
	fault := func(text string) config.Fault { return config.Fault{File: path, Text: text} }
	err = c.withPlan(ctx, []string{path}, func(plan topology.Plan, a *admin.Admin) error {
		applied, err := a.Apply(ctx, plan, admin.ApplyOptions{DryRun: true})
		for _, refused := range applied.Refused {
			faults = append(faults, fault(refused.Reason))
		}
		for _, left := range applied.Left {
			switch {
			case left.Kind == topology.Unsupported, left.Kind == topology.Differs, left.Kind == topology.Missing && left.Do == topology.Ask:
				faults = append(faults, fault(left.String()))
			case left.Kind == topology.Unchecked:
				notes = append(notes, fault(left.String()))
			}
		}
		if errors.Is(err, admin.ErrRefused) {
			return nil // the faults say so
		}
		return err
	})
	return faults, notes, err
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
