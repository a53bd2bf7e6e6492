package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rehop/rehop/triage"
)

// runActions are what a run can do, and the words for messages to which it was done.
var runActions = []struct{ action, done, from string }{
	{string(triage.ActionReplay), "replayed", "failed or kept"},
	{string(triage.ActionDiscard), "discarded", "failed or kept"},
	{string(triage.ActionRestore), "restored", "discarded or kept"},
	{string(triage.ActionKeep), "kept", "failed"},
}

func actionNames() (names []string) {
	for _, a := range runActions {
		names = append(names, a.action)
	}
	return names
}

// starting is the flags of rehop runs start.
type starting struct {
	*index
	by             *actor
	plan           triage.RunPlan
	yes            bool
	dryRun, noWait bool
}

func (s *starting) addFlags(flags *pflag.FlagSet) {
	flags.StringArrayVar(&s.plan.Refs, "ref", nil, "this message instead of a query, as rehop failed search prints it in the column REF; may be given more than once")
	flags.StringVar(&s.plan.To, "to", "", "replay: send the messages to this queue (default the queue in which each has failed)")
	flags.Float64Var(&s.plan.Rate, "rate", 0, "replay: at most this many messages per second (default no limit)")
	flags.BoolVar(&s.plan.Canary, "canary", false, "replay: send 1 message, then 10, then up to 100, and wait for the outcomes before each step")
	flags.Float64Var(&s.plan.StopAbove, "stop-above", 0, "replay: stop if more than this share of messages fails again, as in 0.1 (default 0.1 with --canary, otherwise it does not stop)")
	flags.BoolVar(&s.dryRun, "dry-run", false, "only report how many messages it would be")
	flags.BoolVar(&s.noWait, "no-wait", false, "do not wait until the run has ended")
	addYes(flags, &s.yes)
}

func (c *command) runsStart() *cobra.Command {
	s := &starting{}
	cmd := &cobra.Command{
		Use:   "start action [query…]",
		Short: "Replay, discard, restore or keep the failed messages that match a query",
		Long: `Start starts a run with the messages that match a query (see rehop failed search --help), or those that --ref names. The action is one of these:

    replay   return messages to the queue in which they failed, or send them to --to
    discard  remove messages from their failed queue; they can be restored for some time
    restore  return discarded or kept messages to their failed queue
    keep     move messages from their failed queue into the database, which must be durable

It counts the messages first and asks, or needs --yes. The run has no messages that have failed since then. It takes only messages to which the action can apply: a message that was
replayed is not replayed again.

rehop up or rehop run must be running, and does the work. The command waits until the run has ended, and shows how far it is. If it is interrupted, the run continues. The exit code is
1 if the run was stopped or paused, or if messages were refused. A run that has ended may still receive outcomes: see rehop runs show.`,
		Example: `  rehop runs start replay queue:orders error:refused since:2h --canary
  rehop runs start discard group:4f0c6a1b --yes --no-wait`,
		Args: needs("action", "[query…]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := s.read(cmd.Flags(), args); err != nil {
				return err
			}
			return s.use(cmd.Context(), func(store *triage.Store) error { return s.start(cmd.Context(), store) })
		},
	}
	s.addFlags(cmd.Flags())
	s.by = c.newActor(cmd.Flags())
	s.index = c.newIndex(cmd.Flags())
	must(cmd.RegisterFlagCompletionFunc("ref", cobra.NoFileCompletions))
	cmd.ValidArgsFunction = func(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return actionNames(), cobra.ShellCompDirectiveNoFileComp
	}
	return cmd
}

// read reads the arguments into the plan, and checks it.
func (s *starting) read(flags *pflag.FlagSet, args []string) (err error) {
	p := &s.plan
	if p.Action = triage.Action(args[0]); !slices.Contains(actionNames(), args[0]) {
		return usage("there is no action %q: it can be %s", args[0], strings.Join(actionNames(), ", "))
	}
	if p.Action != triage.ActionReplay {
		for _, name := range []string{"to", "rate", "canary", "stop-above"} {
			if flags.Changed(name) {
				return usage("--%s is for the action replay, not for %s", name, args[0])
			}
		}
	}
	if !(p.Rate >= 0) || !(p.StopAbove >= 0 && p.StopAbove <= 1) {
		return usage("--rate %v must not be negative, and --stop-above %v must be from 0 to 1", p.Rate, p.StopAbove)
	}
	text := strings.TrimSpace(strings.Join(args[1:], " "))
	switch {
	case text != "" && len(p.Refs) > 0:
		return usage("a query and --ref exclude each other; use one of them")
	case text == "" && len(p.Refs) == 0: // also if a variable of a script was empty
		return usage("which messages? give a query, or --ref; state:failed matches all that are in failed queues")
	}
	if p.Query, err = parseQuery(text); err != nil {
		return err
	}
	if p.Actor, err = s.by.who(); err != nil {
		return err
	}
	return nil
}

// words are the words for the action.
func (s *starting) words() (done, from string) {
	at := slices.Index(actionNames(), string(s.plan.Action))
	return runActions[at].done, runActions[at].from
}

func (s *starting) start(ctx context.Context, store *triage.Store) error {
	n, err := s.count(ctx, store)
	if err != nil {
		return err
	}
	done, _ := s.words()
	if s.dryRun {
		if s.json {
			return s.printJSON(moved{Done: n.Messages, DryRun: true})
		}
		return s.printf("%s would be %s\n", counted(n.Messages, "message"), done)
	}
	if n.Messages == 0 {
		return s.nothing(triage.ErrNothingToDo)
	}
	if err := s.agree(ctx, s.yes, s.question(n.Messages)); err != nil {
		return err
	}
	s.plan.UpTo = n.At
	run, err := store.StartRun(ctx, s.plan)
	if errors.Is(err, triage.ErrNothingToDo) {
		return s.nothing(err)
	}
	if err != nil {
		return err
	}
	if !s.json {
		if err := s.printf("run %s: %s %s\n", run.ID, run.Action, counted(run.Counts.Total(), "message")); err != nil {
			return err
		}
	}
	if !s.noWait {
		return newRunWait(s.index, store).until(ctx, run, done)
	}
	if s.json {
		return s.printJSON(runViewOf(run))
	}
	return nil
}

// count counts the messages, and reports which may be missing.
func (s *starting) count(ctx context.Context, store *triage.Store) (triage.RunCount, error) {
	n, err := store.CountRun(ctx, s.plan)
	if err != nil {
		return n, err
	}
	if n.NotWhole > 0 {
		s.notice("%s more words and values than the index holds, so that the run may miss some of them", notWhole(n.NotWhole))
	}
	slices.Sort(s.plan.Refs)
	if s.plan.Refs = slices.Compact(s.plan.Refs); n.Messages > 0 && n.Messages < len(s.plan.Refs) {
		_, from := s.words()
		s.notice("%d of %s left out: not in the index, or not in the state %s", len(s.plan.Refs)-n.Messages, counted(len(s.plan.Refs), "message"), from)
	}
	return n, nil
}

func (s *starting) nothing(err error) error {
	_, from := s.words()
	return fmt.Errorf("%s: %w: it needs messages in the state %s; nothing was started", s.plan.Action, err, from)
}

// question is what the user is asked.
func (s *starting) question(n int) string {
	what := fmt.Sprintf("%s %s", s.plan.Action, counted(n, "message"))
	if s.plan.To != "" {
		what += fmt.Sprintf(" to the queue %q", s.plan.To)
	}
	if len(s.plan.Refs) == 0 {
		what += fmt.Sprintf(" that match %q", s.plan.Query)
	}
	return what
}
