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
	withBroker, elsewhere := false, false
	cmd := &cobra.Command{
		Use:   "check [rehop.yaml]",
		Short: "Check a file for errors",
		Long: `Check reads a file as rehop up and rehop run do, and prints all errors in it with their lines. It does not connect to
the broker or to targets. It also looks for the programs of command targets and reads the files with certificates on this machine; use --elsewhere if the file is for another one.

With --with-broker it also asks the broker whether the flows can start there: whether it accepts their queues, has the priorities that they need, and has no exchange or queue of the same name that
differs. To find out, it declares each missing queue with another name (rehop.try.…) and deletes it. It does not try exchanges, bindings and policies.

A note is about something that is not an error, but does not work on every release of RabbitMQ. The exit code is 0 if
there are no errors, and 3 if there are some.`,
		Args: needs("[file]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			path := fileOf(args)
			read := config.Check
			if elsewhere {
				read = config.Load
			}
			file, err := read(path)
			if faults, ok := errors.AsType[config.Faults](err); ok {
				return c.printFaults(path, faults)
			}
			if err != nil {
				return err
			}
			if withBroker {
				faults, notes, err := c.faultsOnBroker(cmd.Context(), path)
				if len(faults) > 0 {
					return errors.Join(err, c.printFaults(path, faults))
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
			return c.printf("%s has no errors: %s, %s\n", plain(path), counted(len(file.Flows), "flow"), outboxes(len(file.Outboxes)))
		},
	}
	cmd.Flags().BoolVar(&withBroker, "with-broker", false, "also ask the broker whether it accepts what the flows need")
	cmd.Flags().BoolVar(&elsewhere, "elsewhere", false, "the file is for another machine: do not look for its programs and certificates on this one")
	return cmd
}

// faultsOnBroker returns why the flows of a file would not start on the broker, and notes on what could not be checked.
func (c *command) faultsOnBroker(ctx context.Context, path string) (faults, notes config.Faults, err error) {
	fault := func(text string) config.Fault { return config.Fault{File: path, Text: text} }
	err = c.withPlan(ctx, []string{path}, func(plan topology.Plan, file *config.File, a *admin.Admin) error {
		applied, err := a.Apply(ctx, plan, admin.ApplyOptions{DryRun: true})
		for _, refused := range applied.Refused {
			faults = append(faults, fault(refused.Reason))
		}
		for _, left := range differences(applied.Left, file) {
			switch {
			case left.Kind == topology.Unsupported, left.Kind == topology.Differs, left.Kind == topology.Missing && left.Do == topology.Ask:
				faults = append(faults, fault(left.text))
			case left.Kind == topology.Unchecked:
				notes = append(notes, fault(left.text))
			}
		}
		if errors.Is(err, admin.ErrRefused) {
			return nil // it is in the faults
		}
		return err
	})
	return faults, notes, err
}

// checked is the result of check in JSON output.
type checked struct {
	Path   string        `json:"path"`
	Faults config.Faults `json:"faults"`
	Notes  config.Faults `json:"notes,omitempty"` // hints that are not errors
}

func (c *command) printFaults(path string, faults config.Faults) error {
	var err error
	if c.json {
		err = c.printJSON(checked{Path: path, Faults: faults})
	} else {
		err = c.printf("%s\n", plainLines(faults.Error()))
	}
	if err != nil {
		return err
	}
	return found("%s has %s", path, counted(len(faults), "error"))
}

func outboxes(n int) string {
	if n == 1 {
		return "1 outbox"
	}
	return counted(n, "outboxe")
}
