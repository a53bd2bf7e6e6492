package cli

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rehop/rehop/cmd/rehop/internal/typo"
)

// noSuchCommand is for commands with subcommands: an argument is one that does not exist.
func noSuchCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	path, name := "", args[0]
	if cmd.HasParent() {
		path = cmd.CommandPath() + " "
	}
	var names []string
	for _, below := range cmd.Commands() {
		if below.IsAvailableCommand() {
			names = append(names, below.Name())
		}
	}
	if near := typo.Nearest(name, names); near != "" {
		return usage("there is no command %q; did you mean %q?", path+name, path+near)
	}
	return usage("there is no command %q; %s --help lists them", path+name, cmd.CommandPath())
}

// noSuchFlag explains an error in the flags of a command.
func noSuchFlag(cmd *cobra.Command, err error) error {
	unknown, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok {
		return usage("%w; %s --help lists the flags", err, cmd.CommandPath())
	}
	name := unknown.GetSpecifiedName()
	var names []string
	add := func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	}
	cmd.Flags().VisitAll(add)
	cmd.InheritedFlags().VisitAll(add)
	if near := typo.Nearest(strings.TrimLeft(name, "-"), names); near != "" {
		return usage("%w; did you mean --%s?", err, near)
	}
	return usage("%w; %s --help lists the flags", err, cmd.CommandPath())
}
