package cli

import (
	"strings"

	"github.com/spf13/cobra"
)

// group is a command with subcommands.
func group(use, short, long string, members ...*cobra.Command) *cobra.Command {
	g := &cobra.Command{
		Use: use, Short: short, Long: long,
		Args: noSuchCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	g.AddCommand(members...)
	return g
}

// needs checks the arguments of a command. One in brackets, at the end, is optional; one with … can be repeated.
func needs(names ...string) cobra.PositionalArgs {
	least, most := 0, len(names)
	for _, name := range names {
		if !strings.HasPrefix(name, "[") {
			least++
		}
		if strings.Contains(name, "…") {
			most = -1
		}
	}
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < least:
			return usage("which %s? %s", strings.TrimSuffix(names[len(args)], "…"), cmd.UseLine())
		case most >= 0 && len(args) > most:
			return usage("unexpected argument %q: %s", args[most], cmd.UseLine())
		}
		return nil
	}
}
