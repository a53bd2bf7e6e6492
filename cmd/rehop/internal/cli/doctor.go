package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/cmd/rehop/internal/config"
	"github.com/rehop/rehop/layout"
)

func (c *command) doctor() *cobra.Command {
	var (
		o    admin.DoctorOptions
		all  bool
		list bool
		file string
		s    *store
	)
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check the broker and a database for problems that lose or delay messages",
		Long: `Doctor checks the broker and the virtual host for problems that can lose or delay messages, and prints how to fix them. It needs the management API, and
sees most as a user with the tag administrator. It changes nothing; it reads the first message of each delay queue and requeues it.

With --config it also compares the flows of a file with the broker: how long they hold a message, and whether their layouts work on this release of RabbitMQ.

With --database or $` + envDatabase + ` it also checks that the database of an outbox cannot lose committed transactions, and that it has rehop's tables in the version that this
program needs.

The exit code is 3 if there is a finding above the severity info.`,
		Args: none,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if list {
				return c.printChecks()
			}
			if o.HandlerTimeout < 0 || o.ConsumerTimeout < 0 || o.MaxFailed < 0 || o.MaxUnacked < 0 || o.MaxChurn < 0 || o.Watch < 0 {
				return usage("no flag of doctor may be negative")
			}
			if err := c.useFlows(file, &o); err != nil {
				return err
			}
			inDatabase, err := s.examine(cmd.Context()) // first, because it is quicker
			if err != nil {
				return err
			}
			a, err := c.openAdmin(cmd.Context(), queueLayouts{usual: layout.Native{}})
			if err != nil {
				return err
			}
			defer a.Close()
			findings, err := a.Doctor(cmd.Context(), o)
			if err != nil {
				return c.explain(err)
			}
			return c.printFindings(worstFirst(append(findings, inDatabase...)), all)
		},
	}
	flags := cmd.Flags()
	s = c.newStore(flags)
	flags.BoolVarP(&all, "all", "a", false, "also show findings with the severity info")
	flags.StringVar(&file, "config", "", "file (rehop.yaml) whose flows are compared with the broker; it also has the broker's address")
	flags.BoolVar(&list, "list", false, "list all findings that doctor knows")
	flags.DurationVar(&o.HandlerTimeout, "handler-timeout", 0, "the longest time that a consumer holds a message, to compare with the broker's consumer timeout")
	flags.DurationVar(&o.ConsumerTimeout, "consumer-timeout", 0, "the broker's consumer_timeout, which releases before 4.0 do not show (default 30m)")
	flags.IntVar(&o.MaxFailed, "max-failed", 0, "report a failed queue with this many messages or more (default 1000)")
	flags.IntVar(&o.MaxUnacked, "max-unacked", 0, "report a queue of which consumers hold this many messages or more (default 1000)")
	flags.Float64Var(&o.MaxChurn, "max-churn", 0, "how many connections or channels may be opened per second (default 50)")
	flags.DurationVar(&o.Watch, "watch", 0, "how long to watch messages that are about to leave a queue (default 15s)")
	return cmd
}

// useFlows sets the options for the flows of a file.
func (c *command) useFlows(path string, o *admin.DoctorOptions) error {
	if path == "" {
		return nil
	}
	file, err := config.Load(path)
	if err != nil {
		return &exitError{exitUsage, err}
	}
	c.reach.adopt(file)
	layouts := flowLayouts(file).byQueue
	o.Subscriptions = make(map[string]admin.DoctorSubscription, len(file.Flows))
	for _, f := range file.Flows {
		queue := f.Subscriber.Queue
		o.Subscriptions[queue] = admin.DoctorSubscription{HandlerTimeout: f.Holds(), Layout: layouts[queue], Priorities: f.QuorumPriorities()}
	}
	return nil
}

func (c *command) printFindings(findings admin.Findings, all bool) error {
	bad := findings.Above(admin.Info)
	shown := bad
	if all {
		shown = findings
	}
	if err := c.printEach(shown); err != nil {
		return err
	}
	switch {
	case len(bad) == 0:
		return nil
	case len(shown) > len(bad):
		return found("%s above info", counted(len(bad), "finding"))
	}
	return found("%s", counted(len(bad), "finding"))
}

// severityColours are the colours of findings.
var severityColours = map[admin.Severity]string{admin.Critical: red, admin.Warning: yellow, admin.Info: cyan}

func (c *command) printEach(findings admin.Findings) error {
	if c.json {
		if findings == nil {
			findings = admin.Findings{}
		}
		return c.printJSON(findings)
	}
	if len(findings) == 0 {
		return c.printf("nothing found\n")
	}
	var out strings.Builder
	for _, f := range findings {
		fmt.Fprintf(&out, "%s %s: %s\n    found: %s\n    why: %s\n    fix: %s\n\n", c.coded(severityColours[f.Severity], string(f.Severity)), f.ID, c.bold(plain(fmt.Sprint(f.Object))),
			plain(f.Found), plain(f.Why), plain(f.Fix))
	}
	return c.printf("%s", out.String())
}

func (c *command) printChecks() error {
	checks := append(admin.Checks(), databaseChecks...)
	if c.json {
		return c.printJSON(checks)
	}
	var rows [][]string
	for _, a := range checks {
		rows = append(rows, []string{a.ID, string(a.Severity), a.Why})
	}
	return c.print(table{heading: []string{"ID", "AT WORST", "WHY IT MATTERS"}, rows: rows, colour: func(row, column int) string {
		if column != 1 {
			return ""
		}
		return severityColours[checks[row].Severity]
	}})
}
