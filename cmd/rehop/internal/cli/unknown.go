package cli

import (
	"errors"
	"slices"
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
	if meant := meantBy(name, cmd); len(meant) > 0 {
		return usage("there is no command %q; did you mean %s?", path+name, strings.Join(meant, " or "))
	}
	return usage("there is no command %q; %s --help lists them", path+name, cmd.CommandPath())
}

// mostMeant is how many commands are suggested at most.
const mostMeant = 3

// meantBy are the commands that somebody may mean by a name that does not exist: one that other programs call so, one that begins with the
// name, one of this name below another command, or else the most similar one.
func meantBy(name string, cmd *cobra.Command) []string {
	var meant, elsewhere, names []string
	for _, below := range availableBelow(cmd.Root()) {
		begins := len(name) >= 2 && below.Parent() == cmd && strings.HasPrefix(below.Name(), name)
		switch {
		case begins || slices.Contains(below.SuggestFor, name):
			meant = append(meant, below.CommandPath())
		case below.Name() == name:
			elsewhere = append(elsewhere, below.CommandPath())
		}
		if below.Parent() == cmd {
			names = append(names, below.Name())
		}
	}
	if meant = append(meant, elsewhere...); len(meant) > 0 {
		return meant[:min(len(meant), mostMeant)]
	}
	if near := typo.Nearest(name, names); near != "" {
		return []string{cmd.CommandPath() + " " + near}
	}
	return nil
}

// availableBelow are all commands below another that help lists.
func availableBelow(cmd *cobra.Command) (all []*cobra.Command) {
	for _, below := range cmd.Commands() {
		if below.IsAvailableCommand() {
			all = append(append(all, below), availableBelow(below)...)
		}
	}
	return all
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
