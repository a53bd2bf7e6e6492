package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/cmd/rehop/internal/address"
	"github.com/rehop/rehop/cmd/rehop/internal/config"
	"github.com/rehop/rehop/cmd/rehop/internal/flow"
	"github.com/rehop/rehop/cmd/rehop/internal/logs"
	"github.com/rehop/rehop/cmd/rehop/internal/serve"
)

// serviceFlags are the flags of up and run.
type serviceFlags struct {
	http      string
	drain     time.Duration
	readyFile string
	noFollow  bool
	logFormat string
	logLevel  string
}

func (f *serviceFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.http, "listen-http", "", `address for the console, health and metrics, "none" for none (default listen.http of the file, else 127.0.0.1:9419)`)
	flags.DurationVar(&f.drain, "drain", 0, "how long handlers may take to finish at the end (default drain of the file, else 30s)")
	flags.StringVar(&f.readyFile, "ready-file", "", "when everything runs, write addresses and flows as JSON to this file")
	flags.BoolVar(&f.noFollow, "no-follow", false, "do not load the file when it has changed, only after SIGHUP")
	flags.StringVar(&f.logFormat, "log-format", "", "text (short lines), json, or auto: text on a terminal, json otherwise (default log.format of the file, else auto)")
	flags.StringVar(&f.logLevel, "log-level", "", "debug, info, warn or error (default log.level of the file, else info)")
}

const (
	localHTTP       = "127.0.0.1:9419"
	localAMQP       = "127.0.0.1:5672"
	localManagement = "127.0.0.1:15672"
	localData       = "rehop-data"
	localFile       = "rehop.yaml"
)

// serviceLogger writes the log of a service to the error stream. The caller calls end when nothing is logged any more.
func (c *command) serviceLogger(f *serviceFlags, file *config.File) (log *slog.Logger, end func(), err error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(cmp.Or(f.logLevel, file.Log.Level, "info"))); err != nil {
		return nil, nil, usage("--log-level %q must be debug, info, warn or error", f.logLevel)
	}
	format := cmp.Or(f.logFormat, file.Log.Format, "auto")
	if format == "auto" {
		format = "json"
		if c.ErrTerminal {
			format = "text"
		}
	}
	var out slog.Handler
	switch format {
	case "text":
		out = logs.NewLines(c.Err, level, c.ErrTerminal && c.colours())
	case "json":
		out = logs.NewJSON(c.Err, level)
	default:
		return nil, nil, usage("--log-format %q must be text, json or auto", f.logFormat)
	}
	repeats := logs.NewRepeats(out)
	return slog.New(logs.NewPlain(repeats, flow.Explain)), repeats.Close, nil
}

// signalsHelp is the part of the help that up and run share.
const signalsHelp = `When the file has changed, and after SIGHUP, it is read again: flows that have not changed continue, and a file with errors
changes nothing. SIGTERM and ^C let
handlers finish. Another one, more than a second later, ends immediately: unfinished messages return to their queues.`

func fileOf(args []string) string { return cmp.Or(firstOf(args), localFile) }

// loadFile reads a rehop.yaml, and prints all its errors to the error stream.
func (c *command) loadFile(path string) (*config.File, error) {
	file, err := config.Load(path)
	if faults, ok := errors.AsType[config.Faults](err); ok {
		for _, fault := range faults {
			fmt.Fprintln(c.Err, plain(fault.Error()))
		}
		return nil, usage("%s: %s; nothing was started", path, counted(len(faults), "error"))
	}
	return file, err
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// listenAt is the first setting that is not empty, or "" if that is none.
func listenAt(settings ...string) string {
	if a := cmp.Or(settings...); a != address.None {
		return a
	}
	return ""
}

// placesOf returns where the broker of the command line, the environment or a file is.
func (c *command) placesOf(file *config.File) (places, error) {
	of := *c
	of.reach.adopt(file)
	return of.findPlaces()
}

// brokerOf returns how to reach the broker of the command line, the environment or a file.
func (c *command) brokerOf(file *config.File) (rehop.Config, error) {
	of := *c
	of.reach.adopt(file)
	return of.clientConfig()
}

// managementOf returns how to reach the management API of that broker, if one is named. A service does not try one that may not be there.
func (c *command) managementOf(file *config.File) (string, *http.Client, error) {
	of := *c
	of.reach.adopt(file)
	encryption, err := of.reach.tlsConfig()
	if err != nil {
		return "", nil, err
	}
	return of.namedManagement(), httpClient(encryption), nil
}

// service returns the service of up and run, which reacts to signals. The caller calls stop at the end.
func (c *command) service(f *serviceFlags, load func() (*config.File, error), first *config.File) (s serve.Service, stop func(), err error) {
	log, endLog, err := c.serviceLogger(f, first)
	if err != nil {
		return s, nil, err
	}
	reload, noReload := passOn(nil, syscall.SIGHUP)
	hurry, noHurry := passOn(&gap{}, syscall.SIGINT, syscall.SIGTERM) // the first one ends the context
	began := time.Now()
	s = serve.Service{
		Load: onceGiven(first, load), Connect: c.brokerOf, Management: c.managementOf, ReloadTimeout: c.reach.connectTimeout,
		HTTP: listenAt(f.http, first.Listen.HTTP, localHTTP), Drain: f.drain, Env: c.Env, Logger: log,
		Ready:  func(report serve.Report) error { return c.reportReady(report, f.readyFile, time.Since(began)) },
		Reload: reload, Hurry: hurry,
	}
	if !f.noFollow && first.Sum != (config.Sum{}) { // otherwise there is no file
		s.Follow = first.Path
	}
	return s, func() { noReload(); noHurry(); endLog() }, nil
}

func runService(ctx context.Context, s serve.Service) error {
	err := s.Run(ctx)
	if errors.Is(err, flow.ErrConnect) {
		return unreachable(err)
	}
	return err
}

// onceGiven returns the file that was read first, and then reads it again each time.
func onceGiven(first *config.File, load func() (*config.File, error)) func() (*config.File, error) {
	return func() (*config.File, error) {
		if f := first; f != nil {
			first = nil
			return f, nil
		}
		return load()
	}
}

// reportReady prints the report, and writes it to a file if there is a path.
func (c *command) reportReady(report serve.Report, path string, took time.Duration) error {
	if err := c.printReady(report, took); err != nil {
		return err
	}
	if path == "" {
		return nil
	}
	text, err := json.Marshal(report)
	if err != nil {
		return err
	}
	// A reader sees the whole file or none.
	temporary := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".new")
	if err := os.WriteFile(temporary, append(text, '\n'), 0o600); err != nil {
		return fmt.Errorf("write --ready-file: %w", err)
	}
	if err := os.Rename(temporary, path); err != nil {
		return fmt.Errorf("write --ready-file: %w", err)
	}
	return nil
}

func (c *command) printReady(report serve.Report, took time.Duration) error {
	if c.json {
		return c.printJSON(report)
	}
	var out strings.Builder
	refused := 0
	for _, f := range report.Flows {
		if f.Error != "" {
			refused++
		}
	}
	if refused == 0 {
		fmt.Fprintf(&out, "rehop is ready after %v\n", took.Round(time.Millisecond))
	} else {
		fmt.Fprintf(&out, "rehop runs after %v, but the broker refuses %d of %s\n", took.Round(time.Millisecond), refused, counted(len(report.Flows), "flow"))
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
		row("console", report.Console.String())
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
