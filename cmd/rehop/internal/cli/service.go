package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/cmd/rehop/internal/address"
	"github.com/rehop/rehop/cmd/rehop/internal/config"
	"github.com/rehop/rehop/cmd/rehop/internal/flow"
	"github.com/rehop/rehop/cmd/rehop/internal/guard"
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

// logFormat is text or json, unless a flag has something else.
func (c *command) logFormat(f *serviceFlags, file *config.File) string {
	format := cmp.Or(f.logFormat, file.Log.Format, "auto")
	switch {
	case format != "auto":
		return format
	case c.ErrTerminal:
		return "text"
	}
	return "json"
}

// serviceLogger writes the log of a service to the error stream. The caller calls end when nothing is logged any more.
func (c *command) serviceLogger(f *serviceFlags, file *config.File) (log *slog.Logger, end func(), err error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(cmp.Or(f.logLevel, file.Log.Level, "info"))); err != nil {
		return nil, nil, usage("--log-level %q must be debug, info, warn or error", f.logLevel)
	}
	var out slog.Handler
	switch c.logFormat(f, file) {
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
	reload, noReload := passOn(nil, c.hangups)
	hurry, noHurry := passOn(&gap{}, notified(syscall.SIGINT, syscall.SIGTERM)) // the first one ends the context
	how := readiness{began: time.Now(), file: f.readyFile}
	if c.logFormat(f, first) == "json" {
		how.log = log
	}
	s = serve.Service{
		Load: onceGiven(first, load), Connect: c.brokerOf, Management: c.managementOf, ReloadTimeout: c.reach.connectTimeout,
		HTTP: listenAt(f.http, first.Listen.HTTP, localHTTP), Drain: f.drain, Env: c.Env, Logger: log,
		Ready:  func(report serve.Report) error { return c.reportReady(report, how) },
		Reload: reload, Hurry: hurry,
	}
	if c.Guarded {
		s.Guard = guard.New(log).Begin
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
