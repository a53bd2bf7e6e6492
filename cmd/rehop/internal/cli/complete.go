package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rehop/rehop/cmd/rehop/internal/load"
	"github.com/rehop/rehop/internal/layouts"
)

// flagValues are the values of flags that have a fixed set of them, by the name of the flag.
func flagValues() map[string][]string {
	return map[string][]string{
		"layout":     slices.Sorted(maps.Keys(layoutsByName)),
		"kind":       kinds,
		"queue-type": {"quorum", "classic"},
		"declare":    {"topic", "direct", "fanout", "headers"},
		"format":     {"svg", "mermaid"},
		"mode":       {string(load.Publish), string(load.Consume), string(load.Both)},
		"log-format": {"auto", "text", "json"},
		"log-level":  {"debug", "info", "warn", "error"},
		"rabbitmq":   {"3.10", "3.13", "4.0", "4.3"},
	}
}

// completeBelow sets what a shell completes for a command and its subcommands: the values of flags, and arguments by their names in Use.
func (c *command) completeBelow(cmd *cobra.Command) {
	for name, values := range flagValues() {
		if cmd.LocalNonPersistentFlags().Lookup(name) != nil {
			must(cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)))
		}
	}
	if cmd.LocalNonPersistentFlags().Lookup("config") != nil {
		must(cmd.RegisterFlagCompletionFunc("config", yamlFiles))
	}
	for _, name := range []string{"from", "to"} { // queues of other programs, whose names are not known here
		if cmd.LocalNonPersistentFlags().Lookup(name) != nil && cmd.Parent() != nil && cmd.Parent().Name() == "failed" {
			must(cmd.RegisterFlagCompletionFunc(name, cobra.NoFileCompletions))
		}
	}
	if cmd.LocalNonPersistentFlags().Lookup("to") != nil && cmd.Parent() != nil && cmd.Parent().Name() == "runs" {
		must(cmd.RegisterFlagCompletionFunc("to", c.queueNames))
	}
	if cmd.LocalNonPersistentFlags().Lookup("queue") != nil {
		must(cmd.RegisterFlagCompletionFunc("queue", c.queueNames))
	}
	for _, name := range []string{"exchange", "except", "id"} { // names that are not known here, and no files
		if cmd.LocalNonPersistentFlags().Lookup(name) != nil {
			must(cmd.RegisterFlagCompletionFunc(name, cobra.NoFileCompletions))
		}
	}
	if cmd.ValidArgsFunction == nil && len(cmd.ValidArgs) == 0 {
		cmd.ValidArgsFunction = c.argumentsOf(cmd.Use)
	}
	for _, below := range cmd.Commands() {
		c.completeBelow(below)
	}
}

// must is for what can only fail if this program is wrong.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

// argumentsOf completes the arguments of a command, whose Use names them: "ls [queue]".
func (c *command) argumentsOf(use string) cobra.CompletionFunc {
	names := strings.Fields(use)[1:]
	return func(cmd *cobra.Command, args []string, begin string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(names) == 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		name := names[min(len(args), len(names)-1)]
		if len(args) >= len(names) && !strings.Contains(name, "…") {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		switch strings.Trim(name, "[]…") {
		case "queue":
			return c.queueNames(cmd, args, begin)
		case "rehop.yaml":
			return yamlFiles(cmd, args, begin)
		case "file":
			if !slices.Contains([]string{"backup", "restore", "import", "export"}, cmd.Name()) {
				return yamlFiles(cmd, args, begin)
			}
			return nil, cobra.ShellCompDirectiveDefault
		case "directory":
			return nil, cobra.ShellCompDirectiveFilterDirs
		}
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
}

func yamlFiles(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return []cobra.Completion{"yaml", "yml"}, cobra.ShellCompDirectiveFilterFileExt
}

// completeLimit is how long a shell waits for the names of queues.
const completeLimit = 1500 * time.Millisecond

// queueNames completes names of queues on the broker. If there is no answer in time, or any error, it completes nothing: an error would be
// printed into the line that the user is typing.
func (c *command) queueNames(cmd *cobra.Command, args []string, begin string) ([]cobra.Completion, cobra.ShellCompDirective) {
	const noFiles = cobra.ShellCompDirectiveNoFileComp
	ctx, cancel := context.WithTimeout(context.WithoutCancel(cmd.Context()), completeLimit)
	defer cancel()
	chosen := layoutChoice{}
	if f := cmd.Flags().Lookup("layout"); f != nil {
		chosen.name = f.Value.String()
	}
	if f := cmd.Flags().Lookup("config"); f != nil {
		chosen.file = f.Value.String()
	}
	a, err := c.openQueues(ctx, chosen)
	if err != nil {
		return nil, noFiles
	}
	defer a.Close()
	found, err := a.Queues(ctx)
	if err != nil {
		return nil, noFiles
	}
	var names []cobra.Completion
	add := func(name, what string) {
		if strings.HasPrefix(name, begin) && !slices.Contains(args, name) && plain(name) == name { // a shell would obey control characters
			names = append(names, cobra.CompletionWithDesc(name, what))
		}
	}
	for _, q := range found.Queues {
		add(q.Name, fmt.Sprintf("%d ready, %d failed", q.Ready, q.Failed))
	}
	if found.Orphans > 0 {
		add(layouts.OrphansQueue, counted(found.Orphans, "message"))
	}
	if found.Unrouted > 0 {
		add(layouts.UnroutedQueue, counted(found.Unrouted, "message"))
	}
	for _, q := range found.Recovered {
		add(q.Name, counted(q.Messages, "message"))
	}
	return names, noFiles
}
