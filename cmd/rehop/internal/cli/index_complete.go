package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rehop/rehop/triage"
)

// completeValues sets the values of a flag that has a fixed set of them. Other commands have a flag of this name with other values.
func completeValues(cmd *cobra.Command, flag string, values []string) {
	must(cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)))
}

// completeIDs completes the only argument of a command with ids of the index. If there is no answer in time, or any error, it completes
// nothing: an error would be printed into the line that the user is typing.
func (x *index) completeIDs(list func(context.Context, *triage.Store) ([]cobra.Completion, error)) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begin string) (ids []cobra.Completion, _ cobra.ShellCompDirective) {
		const noFiles = cobra.ShellCompDirectiveNoFileComp
		if len(args) > 0 {
			return nil, noFiles
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(cmd.Context()), completeLimit)
		defer cancel()
		err := x.use(ctx, func(store *triage.Store) error {
			all, err := list(ctx, store)
			for _, one := range all {
				if strings.HasPrefix(one, begin) {
					ids = append(ids, one)
				}
			}
			return err
		})
		if err != nil {
			return nil, noFiles
		}
		return ids, noFiles
	}
}

func groupIDs(ctx context.Context, store *triage.Store) (ids []cobra.Completion, err error) {
	page, err := store.Groups(ctx, triage.GroupFilter{})
	for _, g := range page.Groups {
		ids = append(ids, cobra.CompletionWithDesc(g.ID, plain(shorten(g.Queue+": "+g.Title, 60))))
	}
	return ids, err
}

func runIDs(ctx context.Context, store *triage.Store) (ids []cobra.Completion, err error) {
	runs, err := store.Runs(ctx, triage.RunFilter{})
	for _, r := range runs {
		ids = append(ids, cobra.CompletionWithDesc(r.ID, plain(shorten(string(r.Action)+", "+string(r.State)+": "+r.Query, 60))))
	}
	return ids, err
}
