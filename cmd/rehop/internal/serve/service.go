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
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/cmd/rehop/internal/address"
	"github.com/rehop/rehop/cmd/rehop/internal/config"
	"github.com/rehop/rehop/cmd/rehop/internal/flow"
	"github.com/rehop/rehop/internal/descriptors"
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
	// Guard is called for each flow that runs a program. Default: see flow.Runner.
	Guard func() (started func(group int) (ended func()))
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
	Everywhere []string       `json:"everywhere,omitempty"` // listeners on all addresses of this machine, whose URLs have localhost
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

// running is a service that runs: what Run has started. It lives until Run returns, and so do its runner, its telemetry and what serving waits
// for. The goroutine of Run changes file, report and reported; others use only what never changes, and ending and failed.
type running struct {
	Service
	file      *config.File // the one that was loaded last
	runner    *flow.Runner
	telemetry *telemetry
	broker    *adminBroker
	index     *failedIndex
	ending    atomic.Bool    // it drains, or has drained
	failed    chan error     // why something has ended unexpectedly; has room for one
	serving   sync.WaitGroup // goroutines of listeners, the broker and the file, which end before Run does
	report    Report
	reported  bool // Ready was called
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
	r := &running{Service: s, file: file, failed: make(chan error, 1)}
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
	r.broker = newAdminBroker(r)
	ends = append(ends, func() error { r.broker.close(); return nil })
	r.index = newFailedIndex(r)
	ends = append(ends, r.index.start(ctx))
	t, err := r.startTelemetry(ctx)
	if err != nil {
		return err
	}
	r.telemetry = t
	ends = append(ends, func() error { return r.closeTelemetry(t) })
	r.runner = &flow.Runner{Connect: r.connect, Observe: t.observe, ObserveOutbox: t.observeOutbox, ReloadTimeout: s.ReloadTimeout, Guard: s.Guard, Logger: s.Logger}
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
func (r *running) connect(f *config.File) (rehop.Config, error) {
	settings := rehop.Config{}
	if r.Embedded != nil {
		settings.Dial, settings.Credentials = r.Embedded.server.Dial, r.Embedded.credentials
	} else {
		var err error
		if settings, err = r.Connect(f); err != nil {
			return settings, err
		}
	}
	settings.Reports = r.index.exists()
	return settings, nil
}

// wait runs until the end, and reloads the file when asked to.
func (r *running) wait(ctx context.Context) error {
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

func (r *running) reportReady() error {
	report := r.report
	report.Flows, report.Outboxes = []FlowReport{}, []string{}
	if r.Embedded == nil {
		settings, err := r.Connect(r.file)
		if err != nil {
			return err
		}
		for _, one := range settings.URLs {
			report.Broker = append(report.Broker, address.WithoutPassword(one))
		}
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
func (r *running) reload(ctx context.Context) {
	file, err := r.Load()
	if faults, ok := errors.AsType[config.Faults](err); ok {
		for _, f := range faults {
			r.Logger.Error("the file has an error", "file", f.File, "line", f.Line, "err", f.Text)
		}
		r.Logger.Error("the file was not loaded; everything continues as before", "errors", len(faults))
		return
	}
	if err == nil && r.Embedded != nil && len(file.Broker) > 0 {
		err = errBrokerAdded
	}
	if err == nil {
		var changes flow.Changes
		if changes, err = r.runner.Reload(ctx, file); err == nil {
			r.warnOfRestart(file)
			r.file = file
			r.broker.use(file)
			if r.reported {
				r.watchQueues(ctx)
			}
			r.Logger.Info("the file was loaded", "started", listed(changes.Started), "changed", listed(changes.Changed), "stopped", listed(changes.Stopped), "reconnected", changes.Client)
			return
		}
	}
	r.Logger.Error("the file was not loaded; everything continues as before", "err", err)
}

// errBrokerAdded: the flows would stay where they are, while all commands would use the other broker.
var errBrokerAdded = errors.New("broker was added, and the flows run on the embedded broker: restart rehop to use the other one. " +
	"It does not have the messages in the data directory; rehop move takes them there, see docs/moving.md")

// listed is a list for the log, which has [] rather than null if it is empty.
func listed(names []string) []string { return append([]string{}, names...) }

func (r *running) warnOfRestart(file *config.File) {
	needs := func(key string, before, now any) {
		if !reflect.DeepEqual(before, now) {
			r.Logger.Warn("a change in the file needs a restart", "key", key)
		}
	}
	needs("listen", r.file.Listen, file.Listen)
	needs("data", r.file.Data, file.Data)
	needs("users", r.file.Users, file.Users)
	needs("triage", r.file.Triage, file.Triage)
	needs("console", r.file.Console, file.Console)
	needs("hosts", r.file.Hosts, file.Hosts)
	needs("limits", r.file.Limits, file.Limits)
	needs("log", r.file.Log, file.Log)
	if r.Embedded != nil {
		needs("rabbitmq", r.file.RabbitMQ, file.RabbitMQ)
		needs("max-body", r.file.MaxBody, file.MaxBody) // the broker has this limit, too
	}
}

// drain ends the flows when their handlers have finished, or their time is up.
func (r *running) drain() error {
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
func (r *running) serve(listener net.Listener, what string, handler http.Handler, encryption *tls.Config) (at string, end func() error) {
	if _, own := listener.(*pipeListener); !own {
		listener, handler = newDoor(listener, descriptors.Share(8, 16, 1024)), withBodyTimeout(handler)
	}
	server := &http.Server{Handler: handler, TLSConfig: encryption, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute,
		ErrorLog: slog.NewLogLogger(r.Logger.Handler(), slog.LevelWarn)}
	at = "http://" + hostOf(listener)
	accept := server.Serve
	if encryption != nil {
		at = "https://" + hostOf(listener)
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
func (r *running) hosts(listen string) []string {
	names := slices.Clone(r.file.Hosts)
	host, _, err := net.SplitHostPort(listen)
	if err != nil || host == "" {
		return names
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return names // an IP address is no name
	}
	return append(names, host)
}

func (r *running) fail(err error) {
	select {
	case r.failed <- err:
	default:
	}
}

// listen listens on an address, or returns nil if it is empty.
func listen(at, what, key string) (net.Listener, error) {
	if at == "" {
		return nil, nil
	}
	listener, err := net.Listen("tcp", at)
	if err != nil {
		return nil, fmt.Errorf("listen for %s: %w; choose another address with --listen-%s, or listen.%s in the file", what, err, key, key)
	}
	return listener, nil
}

// hostOf is the host and port at which a client on this machine reaches a listener.
func hostOf(listener net.Listener) string {
	at := listener.Addr().String()
	if reachable, err := address.Reachable(at); err == nil {
		return reachable
	}
	return at // it is within the process
}

// reportListener notes a listener for the report, and warns if passwords cross the network in the clear.
func (r *running) reportListener(listener net.Listener, name string, passwords bool) {
	at := listener.Addr().String()
	if address.IsEverywhere(at) {
		r.report.Everywhere = append(r.report.Everywhere, name)
	}
	if passwords && !address.IsLocal(at) && !r.file.Listen.TLS.Used(name) {
		r.Logger.Warn("other machines can connect without TLS, so passwords and messages cross the network in the clear; see tls of listen in docs/flows.md", "listener", name, "address", at)
	}
}

// closeOnce closes a listener if nobody has done it.
func closeOnce(listener net.Listener) func() error {
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
