package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/cmd/rehop/internal/config"
	"github.com/rehop/rehop/topology"
)

func (c *command) topology() *cobra.Command {
	return group("topology", "Compare, declare, draw and migrate exchanges, queues and bindings",
		`These commands are about the exchanges, queues and bindings that the flows of a file (default rehop.yaml) need on the broker.`,
		c.topologyPlan(), c.topologyDiff(), c.topologyApply(), c.topologyExport(), c.topologyDraw(), c.topologyMigrate())
}

// planOf returns the plan of a file: what its flows need on the broker. The file also has the default address of the broker.
func (c *command) planOf(args []string) (topology.Plan, *config.File, error) {
	path := fileOf(args)
	file, err := config.Load(path)
	if err != nil {
		return topology.Plan{}, nil, &exitError{exitUsage, err}
	}
	plan, err := rehop.Topology(file.Config(), file.Subscribers()...)
	if err != nil {
		return plan, nil, usage("%s: %w", path, err)
	}
	c.reach.adopt(file)
	return plan, file, nil
}

func (c *command) withPlan(ctx context.Context, args []string, do func(topology.Plan, *config.File, *admin.Admin) error) error {
	plan, file, err := c.planOf(args)
	if err != nil {
		return err
	}
	a, err := c.openAdmin(ctx, flowLayouts(file))
	if err != nil {
		return err
	}
	defer a.Close()
	return c.explain(do(plan, file, a))
}

func (c *command) topologyPlan() *cobra.Command {
	return &cobra.Command{
		Use:   "plan [file]",
		Short: "List what the flows need on the broker",
		Long:  `Plan lists the exchanges, queues and bindings that the flows of a file need. It does not connect to the broker, and notes what not every release of RabbitMQ supports.`,
		Args:  needs("[file]"),
		RunE: func(_ *cobra.Command, args []string) error {
			plan, file, err := c.planOf(args)
			if err != nil {
				return err
			}
			for _, note := range file.Notes {
				c.notice("note: %s", note.Error())
			}
			if c.json {
				return c.printJSON(planViewOf(plan))
			}
			return c.printPlan(plan)
		},
	}
}

func (c *command) printPlan(plan topology.Plan) error {
	var rows [][]string
	for _, x := range plan.Exchanges {
		rows = append(rows, []string{x.Name, kindOf(x.Type, x.Passive), argumentsText(x.Args)})
	}
	if err := c.printTable([]string{"EXCHANGE", "KIND", "ARGUMENTS"}, rows); err != nil {
		return err
	}
	rows = nil
	for _, q := range plan.Queues {
		rows = append(rows, []string{q.Name, kindOf(argument(q.Args["x-queue-type"], "classic"), q.Passive), argumentsText(q.Args)})
	}
	if err := c.printSection(table{heading: []string{"QUEUE", "KIND", "ARGUMENTS"}, rows: rows}); err != nil {
		return err
	}
	rows = nil
	for _, b := range planViewOf(plan).Bindings {
		rows = append(rows, []string{b.Source, dash(b.Key), b.To + " " + b.Destination, argumentsText(b.Arguments)})
	}
	return c.printSection(table{heading: []string{"FROM", "KEY", "TO", "ARGUMENTS"}, rows: rows})
}

// kindOf is the kind of an exchange or queue, or that another program declares it.
func kindOf(kind string, passive bool) string {
	if passive {
		return "existing"
	}
	return kind
}

func argument(value any, without string) string {
	if value == nil {
		return without
	}
	return fmt.Sprint(value)
}

// argumentsText is a text such as x-message-ttl=5000 x-overflow=reject-publish.
func argumentsText(args map[string]any) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(args)) {
		all = append(all, fmt.Sprintf("%s=%v", name, args[name]))
	}
	return strings.Join(all, " ")
}

func (c *command) topologyDiff() *cobra.Command {
	return &cobra.Command{
		Use:   "diff [file]",
		Short: "Show how the broker differs from what the flows need",
		Long: `Diff compares what the flows of a file need with what the broker has, and prints what to do about each difference. It changes nothing. Without the
management API it cannot see bindings and policies, and reports that. The exit code is 3 if anything differs.`,
		Args: needs("[file]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.withPlan(cmd.Context(), args, func(plan topology.Plan, file *config.File, a *admin.Admin) error {
				diff, err := a.Diff(cmd.Context(), plan)
				if err != nil {
					return err
				}
				all := differences(diff, file)
				if err := c.printDiff(diff, all); err != nil {
					return err
				}
				if n := len(all) - len(diff.Of(unchecked)); n > 0 {
					return found("%s", counted(n, "difference"))
				}
				return nil
			})
		},
	}
}

// unchecked is the kind of differences that could not be checked.
const unchecked = "unchecked"

func (c *command) printDiff(diff topology.Diff, all []difference) error {
	if c.json {
		if diff == nil {
			diff = topology.Diff{}
		}
		return c.printJSON(diff)
	}
	if len(diff) == 0 {
		return c.printf("the broker is as planned\n")
	}
	lines := make([]string, 0, len(all))
	for _, d := range all {
		lines = append(lines, d.text)
	}
	return c.printf("%s\n", plainLines(strings.Join(lines, "\n")))
}

func (c *command) topologyApply() *cobra.Command {
	var o admin.ApplyOptions
	cmd := &cobra.Command{
		Use:   "apply [file]",
		Short: "Declare what is missing on the broker",
		Long: `Apply declares what is missing. It does not change what exists, even if it differs or is not needed, such as a binding that no flow needs. Apply prints what to do
about such differences, and the exit code is 3. It is safe to repeat.

With --dry-run it tries the arguments of each missing queue on a queue with another name (rehop.try.…), which it deletes, and reports what the broker refuses.`,
		Args: needs("[file]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.withPlan(cmd.Context(), args, func(plan topology.Plan, file *config.File, a *admin.Admin) error {
				applied, err := a.Apply(cmd.Context(), plan, o)
				all := differences(applied.Left, file)
				if err := errors.Join(err, c.printApplied(applied, all, o.DryRun)); err != nil {
					return err
				}
				if n := len(all) - len(applied.Left.Of(unchecked)); n > 0 {
					return found("%s left", counted(n, "difference"))
				}
				return nil
			})
		},
	}
	cmd.Flags().BoolVar(&o.DryRun, "dry-run", false, "print what would be declared; declares only temporary queues rehop.try.*, to try arguments")
	return cmd
}

func (c *command) printApplied(applied admin.Applied, left []difference, dryRun bool) error {
	if c.json {
		return c.printJSON(applied)
	}
	verb := "declared"
	if dryRun {
		verb = "would declare"
	}
	var lines []string
	for _, object := range slices.Concat(applied.Declared, applied.Ensured) {
		lines = append(lines, fmt.Sprintf("%s %s", verb, object))
	}
	for _, d := range left {
		lines = append(lines, d.text)
	}
	if len(lines) == 0 {
		lines = []string{"nothing is missing"}
	}
	return c.printf("%s\n", plainLines(strings.Join(lines, "\n")))
}

func (c *command) topologyExport() *cobra.Command {
	var vhost, file string
	cmd := &cobra.Command{
		Use:   "export [file]",
		Short: "Write what the flows need as RabbitMQ definitions",
		Long: `Export writes the plan as RabbitMQ definitions in JSON, for rabbitmqctl import_definitions or the management API. For a flow with policy-priority,
settings that a policy can have are in a policy, which can be changed later, instead of in arguments of the queue.`,
		Args: needs("[file]"),
		RunE: func(_ *cobra.Command, args []string) error {
			plan, _, err := c.planOf(args)
			if err != nil {
				return err
			}
			text, err := plan.Definitions(vhost)
			if err != nil {
				return err
			}
			return c.output(file, append([]byte(strings.TrimRight(string(text), "\n")), '\n'))
		},
	}
	cmd.Flags().StringVar(&vhost, "vhost", "/", "virtual host that the definitions are for, which must exist")
	cmd.Flags().StringVarP(&file, "output", "o", "", "file to write, which must not exist (default the standard output)")
	return cmd
}

func (c *command) output(file string, content []byte) error {
	write := func(w io.Writer) error {
		_, err := w.Write(content)
		return err
	}
	if file == "" {
		return write(c.Out)
	}
	return c.writeNew("--output", file, write)
}

func (c *command) topologyDraw() *cobra.Command {
	var (
		form string
		live bool
		file string
	)
	cmd := &cobra.Command{
		Use:   "draw [file]",
		Short: "Draw what the flows need, or what the broker has",
		Long: `Draw draws the plan as SVG or as a Mermaid flowchart: exchanges are rounded, queues are boxes, dead-lettering is dashed and red, alternate
exchanges are dotted. With --live it draws what the broker has; this needs the management API and no file.`,
		Args: needs("[file]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if form != "svg" && form != "mermaid" {
				return usage("--format %s: the formats are svg and mermaid", form)
			}
			if live && len(args) > 0 {
				return usage("--live draws what the broker has; remove the argument %s", args[0])
			}
			plan, err := c.pictured(cmd.Context(), args, live)
			if err != nil {
				return err
			}
			if form == "svg" {
				return c.output(file, plan.SVG())
			}
			return c.output(file, []byte(plan.Mermaid()))
		},
	}
	cmd.Flags().StringVar(&form, "format", "svg", "svg or mermaid")
	cmd.Flags().BoolVar(&live, "live", false, "draw what the broker has")
	cmd.Flags().StringVarP(&file, "output", "o", "", "file to write, which must not exist (default the standard output)")
	return cmd
}

func (c *command) pictured(ctx context.Context, args []string, live bool) (topology.Plan, error) {
	if !live {
		plan, _, err := c.planOf(args)
		return plan, err
	}
	a, err := c.openAdmin(ctx, queueLayouts{})
	if err != nil {
		return topology.Plan{}, err
	}
	defer a.Close()
	there, err := a.Live(ctx)
	if err != nil {
		return topology.Plan{}, c.explain(err)
	}
	plan := topology.Plan{Bindings: there.Bindings, Policies: there.Policies}
	for _, x := range there.Exchanges {
		if x.Name != "" && !strings.HasPrefix(x.Name, "amq.") {
			plan.Exchanges = append(plan.Exchanges, x.Exchange)
		}
	}
	for _, q := range there.Queues {
		plan.Queues = append(plan.Queues, q.Queue)
	}
	return plan, nil
}
