package cli

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rehop/rehop/cmd/rehop/internal/config"
	"github.com/rehop/rehop/cmd/rehop/internal/serve"
)

// readiness is how a service reports that it is ready.
type readiness struct {
	began time.Time
	file  string       // to which the report is written as JSON, unless it is empty
	log   *slog.Logger // for the report if there is no terminal; nil: it is always printed for people
}

// reportReady prints or logs the report, and writes it to a file if there is a path.
func (c *command) reportReady(report serve.Report, how readiness) error {
	if err := c.showReady(report, how); err != nil {
		return err
	}
	if how.file == "" {
		return nil
	}
	text, err := json.Marshal(report)
	if err != nil {
		return err
	}
	// A reader sees the whole file or none.
	temporary := filepath.Join(filepath.Dir(how.file), "."+filepath.Base(how.file)+".new")
	if err := os.WriteFile(temporary, append(text, '\n'), 0o600); err != nil {
		return fmt.Errorf("write --ready-file: %w", err)
	}
	if err := os.Rename(temporary, how.file); err != nil {
		return fmt.Errorf("write --ready-file: %w", err)
	}
	return nil
}

// showReady prints the report to a terminal. Elsewhere it goes where the log goes and looks like the log, and a password that is in a file is
// not part of it, because logs are kept and passed on.
func (c *command) showReady(report serve.Report, how readiness) error {
	if c.Width == 0 && report.Login != nil && report.Login.PasswordFile != "" {
		login := *report.Login
		login.Password = ""
		report.Login = &login
	}
	if c.Width == 0 && report.Console != nil {
		console := *report.Console
		console.Token = ""
		report.Console = &console
	}
	took := time.Since(how.began).Round(time.Millisecond)
	switch {
	case c.json:
		return c.printJSON(report)
	case c.Width == 0 && how.log != nil:
		logReady(how.log, report, took)
		return nil
	}
	return c.printReady(report, took)
}

func refusedFlows(report serve.Report) (refused []string) {
	for _, f := range report.Flows {
		if f.Error != "" {
			refused = append(refused, f.Name)
		}
	}
	return refused
}

// logReady logs the report in one line.
func logReady(log *slog.Logger, report serve.Report, took time.Duration) {
	attributes := []any{"took", took}
	add := func(name, value string) {
		if value != "" {
			attributes = append(attributes, name, value)
		}
	}
	add("broker", report.AMQP)
	add("broker", strings.Join(report.Broker, ", "))
	add("management", report.Management)
	if report.Login != nil {
		add("login", report.Login.String())
	}
	if report.Memory {
		add("data", "in memory, lost at the end")
	}
	add("data", report.Data)
	add("http", report.HTTP)
	if report.Console != nil {
		add("console", report.Console.URL)
		add("console_login", report.Console.String())
	}
	if len(report.Everywhere) > 0 {
		attributes = append(attributes, "all_addresses", report.Everywhere)
	}
	flows := []string{}
	for _, f := range report.Flows {
		flows = append(flows, f.Name)
	}
	attributes = append(attributes, "flows", flows)
	if len(report.Outboxes) > 0 {
		attributes = append(attributes, "outboxes", report.Outboxes)
	}
	if refused := refusedFlows(report); len(refused) > 0 {
		log.Warn("rehop runs, but the broker refuses flows", append(attributes, "refused", refused)...)
		return
	}
	log.Info("rehop is ready", attributes...)
}

// printReady prints the report for people.
func (c *command) printReady(report serve.Report, took time.Duration) error {
	var out strings.Builder
	if refused := len(refusedFlows(report)); refused == 0 {
		fmt.Fprintf(&out, "rehop is ready after %v\n", took)
	} else {
		fmt.Fprintf(&out, "rehop runs after %v, but the broker refuses %d of %s\n", took, refused, counted(len(report.Flows), "flow"))
	}
	row := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&out, "  %-11s %s\n", name, plain(value))
		}
	}
	where := func(url, listener string) string {
		if url != "" && slices.Contains(report.Everywhere, listener) {
			return url + " (all addresses)"
		}
		return url
	}
	row("broker", where(report.AMQP, config.ListenerAMQP))
	row("broker", strings.Join(report.Broker, ", "))
	row("management", where(report.Management, config.ListenerManagement))
	if report.Login != nil {
		row("login", report.Login.String())
	}
	if report.Memory {
		row("data", "in memory, lost at the end")
	}
	row("data", report.Data)
	if report.HTTP != "" {
		row("health", where(report.HTTP+"/healthz "+report.HTTP+"/readyz", config.ListenerHTTP))
		row("metrics", where(report.HTTP+"/metrics", config.ListenerHTTP))
	}
	if report.Console != nil {
		row("console", report.Console.URL)
		row("", report.Console.String())
	}
	for _, f := range report.Flows {
		name := f.Name
		if f.Queue != name {
			name += " (queue " + f.Queue + ")"
		}
		row("flow", name+" → "+f.Target)
		row("refused", f.Error)
	}
	row("outboxes", strings.Join(report.Outboxes, ", "))
	return c.printf("%s", out.String())
}
