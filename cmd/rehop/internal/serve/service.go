package serve

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/cmd/rehop/internal/config"
	"github.com/rehop/rehop/cmd/rehop/internal/flow"
)

// Service runs the flows of a file until its context ends.
type Service struct {
	// Load reads the file, at the start and for every reload.
	Load func() (*config.File, error)
	// Connect returns how to reach the broker of a file. It is not called if there is an Embedded one.
	Connect func(*config.File) (rehop.Config, error)
	// Management returns how to reach the management API of the broker of a file. Without a URL there are no metrics of queues.
	Management func(*config.File) (url string, client *http.Client, err error)
	// Embedded is the embedded broker. Nil: there is none.
	Embedded *Embedded
	// HTTP is the address for the console, health and metrics. Empty: they are not served.
	HTTP string
	// Drain is how long handlers may take to finish at the end. 0: drain of the file.
	Drain time.Duration
	// ReloadTimeout is how long a reload waits until the flows that it starts consume. Default: see flow.Runner.
	ReloadTimeout time.Duration
	// Env looks up a variable of the environment.
	Env    func(name string) (value string, set bool)
	Logger *slog.Logger

	// Ready is called once, when all flows run, except those that the broker refuses.
	Ready func(Report) error
	// Follow is the path of the file if it is to be loaded when it has changed. Empty: only Reload loads it.
	Follow string
	// Reload makes the service read the file again. Hurry ends draining.
	Reload, Hurry <-chan struct{}
}

// Report has the addresses of the service, and what it runs.
type Report struct {
	AMQP       string         `json:"amqp,omitempty"`       // URL of the embedded broker
	Management string         `json:"management,omitempty"` // URL of its management API
	Login      *Login         `json:"login,omitempty"`      // how to log in to both
	Broker     []string       `json:"broker,omitempty"`     // URLs of another broker, without passwords
	HTTP       string         `json:"http,omitempty"`       // URL of health and metrics
	Console    *ConsoleReport `json:"console,omitempty"`    // URL of the console, and how to log in
	Data       string         `json:"data,omitempty"`       // directory of the embedded broker
	Memory     bool           `json:"memory,omitempty"`     // the embedded broker keeps nothing on disk
	Flows      []FlowReport   `json:"flows"`
	Outboxes   []string       `json:"outboxes"`
}

// FlowReport is a flow in a Report.
type FlowReport struct {
	Name   string `json:"name"`
	Queue  string `json:"queue"`
	Target string `json:"target"`
	Error  string `json:"error,omitempty"` // why the broker refuses it; rehop keeps trying
}

type run struct {
	Service
	file          *config.File
	runner        *flow.Runner
	telemetry     *telemetry
	consoleBroker *consoleBroker // nil: there is no console
	ending        atomic.Bool
	failed        chan error // why something has ended unexpectedly; has room for one
	serving       sync.WaitGroup
	report        Report
	reported      bool // Ready was called
}

// closers end what was started, the last first.
type closers []func() error

func (c closers) close() (err error) {
	for _, end := range slices.Backward(c) {
		err = errors.Join(err, end())
	}
	return err
}

// Run runs the service until ctx ends, and then drains. It returns an error if something could not be started or has failed.
func (s Service) Run(ctx context.Context) (err error) {
	file, err := s.Load()
	if err != nil {
		return err
	}
	r := &run{Service: s, file: file, failed: make(chan error, 1)}
	var ends closers
	defer func() {
		err = errors.Join(err, ends.close())
		r.serving.Wait()
	}()
	if s.Embedded != nil {
		end, err := r.startBroker(ctx)
		if end != nil {
			ends = append(ends, end)
		}
		if err != nil {
			return err
		}
	}
	t, err := r.startTelemetry(ctx)
	if err != nil {
		return err
	}
	r.telemetry = t
	ends = append(ends, func() error { return r.closeTelemetry(t) })
	r.runner = &flow.Runner{Connect: r.connect, Observe: t.observe, ObserveOutbox: t.observeOutbox, ReloadTimeout: s.ReloadTimeout, Logger: s.Logger}
	if err := ObserveFlows(t.config.Meters, r.runner.Status); err != nil {
		return err
	}
	if s.HTTP != "" {
		end, err := r.startHTTP(t)
		if err != nil {
			return err
		}
		ends = append(ends, end)
	}
	ends = append(ends, r.drain)
	if err := r.runner.Start(ctx, file); err != nil {
		if ctx.Err() != nil {
			return nil // it was ended before it had started
		}
		return err
	}
	return r.wait(ctx)
}

// connect is how the flows reach their broker.
func (r *run) connect(f *config.File) (rehop.Config, error) {
	if r.Embedded != nil {
		return rehop.Config{Dial: r.Embedded.server.Dial, Credentials: r.Embedded.credentials}, nil
	}
	return r.Connect(f)
}

func withoutPasswords(urls []string) []string {
	var shown []string
	for _, one := range urls {
		u, err := url.Parse(one)
		if err != nil {
			continue // the client reports the error
		}
		if u.User != nil {
			u.User = url.User(u.User.Username())
		}
		u.RawQuery = ""
		shown = append(shown, u.String())
	}
	return shown
}

// wait runs until the end, and reloads the file when asked to.
func (r *run) wait(ctx context.Context) error {
	waiting, stop := context.WithCancel(ctx)
	ready := make(chan struct{})
	go func() {
		defer close(ready)
		_ = r.runner.AwaitSettled(waiting)
	}()
	defer func() {
		stop()
		if ready != nil {
			<-ready
		}
	}()
	changed := make(chan config.Sum)
	if r.Follow != "" {
		r.serving.Go(func() { follow(r.Follow).run(waiting, r.file.Sum, changed) })
	}
	retry := time.NewTimer(0)
	defer retry.Stop()
	for {
		retry.Stop()
		if at, due := r.runner.RetryAt(); due {
			retry.Reset(time.Until(at))
		}
		select {
		case <-retry.C:
			r.runner.Retry(ctx)
		case <-ready:
			ready = nil
			if ctx.Err() == nil {
				if err := r.reportReady(); err != nil {
					return err
				}
				r.reported = true
				r.watchQueues(ctx) // now that the broker is reachable
			}
		case <-r.Reload:
			r.reload(ctx)
		case sum := <-changed:
			if sum != r.file.Sum { // otherwise it was loaded already
				r.Logger.Info("the file has changed", "file", r.Follow)
				r.reload(ctx)
			}
		case err := <-r.failed:
			return err
		case <-ctx.Done():
			return nil
		}
	}
}

func (r *run) reportReady() error {
	report := r.report
	report.Flows, report.Outboxes = []FlowReport{}, []string{}
	if r.Embedded == nil {
		settings, err := r.Connect(r.file)
		if err != nil {
			return err
		}
		report.Broker = withoutPasswords(settings.URLs)
	}
	refused := make(map[string]string)
	for _, f := range r.runner.Status().Flows {
		if f.Refused {
			refused[f.Flow] = f.Error
		}
	}
	for _, f := range r.file.Flows {
		report.Flows = append(report.Flows, FlowReport{f.Name, f.Subscriber.Queue, f.Target.String(), refused[f.Name]})
	}
	for _, o := range r.file.Outboxes {
		report.Outboxes = append(report.Outboxes, o.Name)
	}
	return r.Ready(report)
}

// reload reads the file again. If it has errors, nothing changes.
func (r *run) reload(ctx context.Context) {
	file, err := r.Load()
	if faults, ok := errors.AsType[config.Faults](err); ok {
		for _, f := range faults {
			r.Logger.Error("the file has an error", "file", f.File, "line", f.Line, "err", f.Text)
		}
		r.Logger.Error("the file was not loaded; everything continues as before", "errors", len(faults))
		return
	}
	if err == nil {
		var changes flow.Changes
		if changes, err = r.runner.Reload(ctx, file); err == nil {
			r.warnOfRestart(file)
			r.file = file
			r.consoleBroker.use(file)
			if r.reported {
				r.watchQueues(ctx)
			}
			r.Logger.Info("the file was loaded", "begun", changes.Begun, "changed", changes.Changed, "ended", changes.Ended, "reconnected", changes.Client)
			return
		}
	}
	r.Logger.Error("the file was not loaded; everything continues as before", "err", err)
}

func (r *run) warnOfRestart(file *config.File) {
	needs := func(key string, before, now any) {
		if !reflect.DeepEqual(before, now) {
			r.Logger.Warn("a change in the file needs a restart", "key", key)
		}
	}
	needs("listen", r.file.Listen, file.Listen)
	needs("data", r.file.Data, file.Data)
	needs("users", r.file.Users, file.Users)
	needs("hosts", r.file.Hosts, file.Hosts)
	needs("limits", r.file.Limits, file.Limits)
	needs("log", r.file.Log, file.Log)
	if r.Embedded != nil {
		needs("broker", r.file.Broker, file.Broker)
		needs("rabbitmq", r.file.RabbitMQ, file.RabbitMQ)
		needs("max-body", r.file.MaxBody, file.MaxBody) // the broker has this limit, too
	}
}

// drain ends the flows when their handlers have finished, or their time is up.
func (r *run) drain() error {
	r.ending.Store(true)
	limit := cmp.Or(r.Drain, r.file.Drain)
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	ended := make(chan struct{})
	defer close(ended)
	go func() { // ends with this function
		select {
		case <-r.Hurry:
			cancel()
		case <-r.brokerDone():
			cancel() // it accepts no acks any more, so there is nothing to wait for
		case <-ended:
		}
	}()
	r.Logger.Info("draining: handlers may finish", "limit", limit)
	began := time.Now()
	if err := r.runner.Close(ctx); err != nil {
		// Nothing is lost: the broker has the unfinished messages.
		r.Logger.Warn("the connection was not closed cleanly", "err", err)
	}
	n := r.runner.Counts()
	r.Logger.Info("stopped", "handled", n.Done, "retried", n.Retried, "failed", n.Failed, "discarded", n.Discarded, "postponed", n.Postponed,
		"returned", n.Returned, "took", time.Since(began).Round(time.Millisecond))
	return nil
}

// serve serves HTTP until the end that it returns is called. what is its name in errors.
func (r *run) serve(listener net.Listener, what string, handler http.Handler, encryption *tls.Config) (at string, end func() error) {
	server := &http.Server{Handler: handler, TLSConfig: encryption, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute,
		ErrorLog: slog.NewLogLogger(r.Logger.Handler(), slog.LevelWarn)}
	at = "http://" + listener.Addr().String()
	accept := server.Serve
	if encryption != nil {
		at = "https://" + listener.Addr().String()
		accept = func(l net.Listener) error { return server.ServeTLS(l, "", "") }
	}
	r.serving.Go(func() {
		if err := accept(listener); !errors.Is(err, http.ErrServerClosed) {
			r.fail(fmt.Errorf("serve %s: %w", what, err))
		}
	})
	return at, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if server.Shutdown(ctx) != nil {
			return server.Close()
		}
		return nil
	}
}

// hosts are the names under which a listener with an address is reached: those of the file, and the one in the address.
func (r *run) hosts(address string) []string {
	names := slices.Clone(r.file.Hosts)
	host, _, err := net.SplitHostPort(address)
	if _, notIP := netip.ParseAddr(host); err == nil && host != "" && notIP != nil {
		names = append(names, host)
	}
	return names
}

func (r *run) fail(err error) {
	select {
	case r.failed <- err:
	default:
	}
}

// listen listens on an address, or returns nil if it is empty.
func listen(address, what, key string) (net.Listener, error) {
	if address == "" {
		return nil, nil
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen for %s: %w; choose another address with --listen-%s, or listen.%s in the file", what, err, key, key)
	}
	return listener, nil
}

// closing closes a listener if nobody has done it.
func closing(listener net.Listener) func() error {
	return func() error {
		if listener == nil {
			return nil
		}
		if err := listener.Close(); !errors.Is(err, net.ErrClosed) {
			return err
		}
		return nil
	}
}
