package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/cmd/rehop/internal/config"
	"github.com/rehop/rehop/topology"
)

func (c *command) topologyMigrate() *cobra.Command {
	var (
		o         admin.MigrateOptions
		consumers string
		dryRun    bool
		yes       bool
	)
	cmd := &cobra.Command{
		Use:   "migrate queue [file]",
		Short: "Change the arguments of an existing queue without losing messages",
		Long: `Migrate gives a queue the arguments of the plan and keeps its name. RabbitMQ cannot change the arguments of an existing queue, so migrate moves the messages to
another queue, deletes the queue and declares it again; exchanges accept messages all the time, except for two moments if the order is kept. It needs the management API. Publishers that publish
to the queue by its name must pause, and consumers must be stopped.

It declares the failed queue to which the new queue dead-letters, if that is missing. It tries the new arguments on another queue first, also with --dry-run, and does nothing if the broker refuses them. Queues that dead-letter to this one by its name
must be empty; --consumers wait waits for that, too.

A queue that is to be handled in order by key (order-by) keeps its order: for about a second, twice, the broker refuses new messages, and publishers must publish them again.
A queue that is to be handled in order no more is migrated only when no message waits in its held queue.

It prints its steps and asks, or needs --yes. If it is interrupted or killed, run it again to continue; with the previous version of the file, it undoes the migration.`,
		Args: needs("queue", "[file]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch o.Consumers = admin.ConsumerRule(consumers); o.Consumers {
			case admin.RefuseConsumers, admin.AwaitConsumers, admin.IgnoreConsumers:
			default:
				return usage("--consumers %s: use refuse, wait or ignore", consumers)
			}
			if o.Settle < 0 {
				return usage("--settle %v must not be negative", o.Settle)
			}
			return c.withPlan(cmd.Context(), args[1:], func(plan topology.Plan, _ *config.File, a *admin.Admin) error {
				return c.migrateQueue(cmd.Context(), a, plan, args[0], o, dryRun, yes)
			})
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&consumers, "consumers", string(admin.RefuseConsumers), "what to do while the queue has consumers: refuse, wait or ignore")
	flags.BoolVar(&o.KeepOrder, "keep-order", false, "new messages wait until those before them are back, and are refused for two moments; consumers other than rehop's must not start before the end")
	flags.DurationVar(&o.Settle, "settle", 0, "how long no message may have arrived in the queue before it is deleted (default 12s)")
	flags.BoolVar(&dryRun, "dry-run", false, "print the steps, and change nothing")
	addYes(flags, &yes)
	completeValues(cmd, "consumers", []string{string(admin.RefuseConsumers), string(admin.AwaitConsumers), string(admin.IgnoreConsumers)})
	return cmd
}

func (c *command) migrateQueue(ctx context.Context, a *admin.Admin, plan topology.Plan, queue string, o admin.MigrateOptions, dryRun, yes bool) error {
	m, err := a.PlanMigration(ctx, plan, queue, o)
	if err != nil {
		return err
	}
	if err := c.printMigration(m); err != nil || dryRun || len(m.Steps) == 0 {
		return err
	}
	if err := c.agree(ctx, yes, fmt.Sprintf("migrate queue %q", queue)); err != nil {
		return err
	}
	bar := c.progressOf("moved")
	step, waiting := 0, ""
	o.Progress = func(p admin.MigrationProgress) {
		if p.Step != step {
			step, waiting = p.Step, ""
			bar.end()
			c.notice("step %d of %d: %s", p.Step, p.Steps, p.Now)
		}
		if p.Waiting != waiting && p.Waiting != "" {
			bar.end()
			c.notice("waiting for %s", p.Waiting)
		}
		waiting = p.Waiting
		bar.show(int64(p.Moved), int64(p.Moved+p.Left))
	}
	_, err = a.Migrate(ctx, plan, queue, o)
	bar.end()
	if err != nil {
		if ctx.Err() != nil {
			c.notice("run the same command again to continue the migration")
		}
		return err
	}
	if c.json {
		return nil
	}
	return c.printf("done\n")
}

func (c *command) printMigration(m admin.Migration) error {
	if c.json {
		return c.printJSON(m)
	}
	if len(m.Steps) == 0 {
		return c.printf("queue %q is as planned\n", plain(m.Queue))
	}
	return c.printf("%s\n", plainLines(strings.TrimRight(m.String(), "\n")))
}
