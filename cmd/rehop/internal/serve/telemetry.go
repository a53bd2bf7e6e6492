package serve

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/cmd/rehop/internal/config"
	"github.com/rehop/rehop/cmd/rehop/internal/flow"
	"github.com/rehop/rehop/outbox"
	"github.com/rehop/rehop/rehopotel"
)

// telemetry is the metrics and traces of the service.
type telemetry struct {
	config  rehopotel.Config
	metrics http.Handler // for Prometheus
	ends    []func(context.Context) error

	watched  settings // of the broker whose queues are watched
	unwatch  func(context.Context) error
	mu       sync.Mutex
	outboxes map[string]outbox.Hooks
}

// settings identify the broker whose queues are watched.
type settings struct {
	urls       string
	management string
	tls        config.TLS
}

// outboxesNamed bounds the names in metrics, in case files with new names are loaded again and again.
const outboxesNamed = 100

// startTelemetry starts metrics for Prometheus, and exports metrics and traces by OTLP if the environment asks for it.
func (r *running) startTelemetry(ctx context.Context) (*telemetry, error) {
	t := &telemetry{outboxes: make(map[string]outbox.Hooks)}
	failures := &quietLogger{logger: r.Logger, every: time.Minute}
	otel.SetErrorHandler(failures)
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	t.metrics = promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError, ErrorLog: failures})
	about, err := resource.New(ctx, resource.WithAttributes(attribute.String("service.name", "rehop")), resource.WithFromEnv(), resource.WithTelemetrySDK())
	if err != nil && !errors.Is(err, resource.ErrPartialResource) {
		return nil, fmt.Errorf("start metrics: %w", err)
	}
	pulled, err := exporter.New(exporter.WithRegisterer(registry), exporter.WithoutScopeInfo())
	if err != nil {
		return nil, fmt.Errorf("start metrics: %w", err)
	}
	meters := []sdkmetric.Option{sdkmetric.WithResource(about), sdkmetric.WithReader(pulled)}
	t.config.Tracers = noop.NewTracerProvider()
	pushes, err := r.exports("METRICS")
	if err != nil {
		return nil, fmt.Errorf("export metrics: %w", err)
	}
	if pushes {
		metrics, err := otlpmetrichttp.New(ctx) // reads the environment, as otlptracehttp does
		if err != nil {
			return nil, fmt.Errorf("export metrics: %w", err)
		}
		meters = append(meters, sdkmetric.WithReader(sdkmetric.NewPeriodicReader(metrics)))
	}
	traces, err := r.exports("TRACES")
	if err != nil {
		return nil, fmt.Errorf("export traces: %w", err)
	}
	if traces {
		spans, err := otlptracehttp.New(ctx)
		if err != nil {
			return nil, fmt.Errorf("export traces: %w", err)
		}
		tracers := sdktrace.NewTracerProvider(sdktrace.WithResource(about), sdktrace.WithBatcher(spans)) // with the environment's sampler
		t.config.Tracers = tracers
		t.ends = append(t.ends, tracers.Shutdown)
	}
	provider := sdkmetric.NewMeterProvider(meters...)
	t.config.Meters = provider
	t.ends = append(t.ends, provider.Shutdown)
	return t, nil
}

// exports reports whether the environment asks for a signal to be exported. Without a variable, nothing is exported.
func (r *running) exports(signal string) (bool, error) {
	get := func(name string) string {
		value, _ := r.Env(name)
		return strings.TrimSpace(value)
	}
	if strings.EqualFold(get("OTEL_SDK_DISABLED"), "true") {
		return false, nil
	}
	variable := "OTEL_" + signal + "_EXPORTER"
	switch chosen := get(variable); {
	case chosen == "none", signal == "METRICS" && chosen == "prometheus": // metrics for Prometheus are always served
		return false, nil
	case chosen == "" && get("OTEL_EXPORTER_OTLP_ENDPOINT") == "" && get("OTEL_EXPORTER_OTLP_"+signal+"_ENDPOINT") == "":
		return false, nil
	case chosen != "" && chosen != "otlp":
		return false, fmt.Errorf("$%s is %q: rehop exports by otlp; set it to otlp or none", variable, chosen)
	}
	variable = "OTEL_EXPORTER_OTLP_" + signal + "_PROTOCOL"
	if get(variable) == "" {
		variable = "OTEL_EXPORTER_OTLP_PROTOCOL"
	}
	if protocol := get(variable); protocol != "" && protocol != "http/protobuf" {
		return false, fmt.Errorf("$%s is %q: rehop exports by http/protobuf, which collectors receive on port 4318", variable, protocol)
	}
	return true, nil
}

func (t *telemetry) observe() (flow.Observer, error) {
	made, err := rehopotel.New(t.config)
	if err != nil {
		return flow.Observer{}, err
	}
	return flow.Observer{Hooks: made.Client(), Carry: made.Carry}, nil
}

// observeOutbox returns hooks for the relay of an outbox. Its metrics have the name of the outbox.
func (t *telemetry) observeOutbox(name string) (outbox.Hooks, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, known := t.outboxes[name]; !known && len(t.outboxes) >= outboxesNamed {
		name = "(others)"
	}
	if hooks, known := t.outboxes[name]; known {
		return hooks, nil
	}
	named := t.config
	named.Outbox = name
	made, err := rehopotel.New(named)
	if err != nil {
		return outbox.Hooks{}, err
	}
	t.outboxes[name] = made.Outbox()
	return t.outboxes[name], nil
}

// watchQueues exports the numbers of messages in queues, if the management API of the current file can be reached. Nothing else depends
// on it.
func (r *running) watchQueues(ctx context.Context) {
	t := r.telemetry
	reach, now, err := r.overview()
	if err != nil {
		r.Logger.Warn("metrics of queues are missing: the settings of the management API are invalid", "err", err)
	}
	if t.unwatch != nil && now == t.watched && err == nil {
		return
	}
	if t.unwatch != nil && now.urls != t.watched.urls && now.management == t.watched.management {
		r.Logger.Warn("the broker has changed but the management API has not: metrics of queues may belong to another broker")
	}
	t.stopWatching(ctx)
	if err != nil || reach.Management == "" {
		return
	}
	opening, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	looker, err := admin.Open(opening, reach)
	if err != nil {
		r.Logger.Warn("metrics of queues are missing: cannot connect to the broker", "err", err)
		return
	}
	registration, err := rehopotel.Watch(looker, t.config)
	if err != nil {
		r.Logger.Warn("metrics of queues are missing", "err", err)
		looker.Close()
		return
	}
	t.watched, t.unwatch = now, func(context.Context) error {
		defer looker.Close()
		return registration.Unregister()
	}
}

// overview returns how to list the queues of the current broker. Management is empty if that is not possible.
func (r *running) overview() (admin.Config, settings, error) {
	if r.Embedded != nil {
		e := r.Embedded
		return admin.Config{Dial: e.server.Dial, Management: withinURL, HTTP: e.pipe.client(), Credentials: e.credentials}, settings{management: withinURL}, nil
	}
	at, client, err := r.Management(r.file)
	if err != nil || at == "" {
		return admin.Config{}, settings{}, err
	}
	broker, err := r.Connect(r.file)
	if err != nil {
		return admin.Config{}, settings{}, err
	}
	return admin.Config{URLs: broker.URLs, TLS: broker.TLS, Management: at, HTTP: client}, settings{strings.Join(broker.URLs, " "), at, r.file.TLS}, nil
}

func (t *telemetry) stopWatching(ctx context.Context) {
	if t.unwatch != nil {
		_ = t.unwatch(ctx) // it cannot fail
		t.unwatch = nil
	}
}

// ObserveFlows exports the state of each flow, and the exchanges that the broker refuses. They are those of the file that is loaded, so
// their names are bounded.
func ObserveFlows(meters metric.MeterProvider, status func() flow.Status) error {
	meter := meters.Meter("github.com/rehop/rehop/cmd/rehop")
	flows, err := meter.Int64ObservableGauge("rehop.flows", metric.WithDescription("1 for the state of a flow, 0 for its other states"), metric.WithUnit("{flow}"))
	if err != nil {
		return fmt.Errorf("start metrics: %w", err)
	}
	exchanges, err := meter.Int64ObservableGauge("rehop.exchanges.refused", metric.WithDescription("1 for an exchange of the file that the broker refuses"), metric.WithUnit("{exchange}"))
	if err != nil {
		return fmt.Errorf("start metrics: %w", err)
	}
	_, err = meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		now := status()
		for _, f := range now.Flows {
			for _, state := range flow.States() {
				value := int64(0)
				if state == f.State() {
					value = 1
				}
				o.ObserveInt64(flows, value, metric.WithAttributes(attribute.String("rehop.flow", f.Flow), attribute.String("rehop.state", state)))
			}
		}
		for _, x := range now.Exchanges {
			o.ObserveInt64(exchanges, 1, metric.WithAttributes(attribute.String("rehop.exchange", x.Exchange)))
		}
		return nil
	}, flows, exchanges)
	return err
}

// closeTelemetry exports what has not been exported yet. Errors do not affect the service.
func (r *running) closeTelemetry(t *telemetry) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	t.stopWatching(ctx)
	for _, end := range slices.Backward(t.ends) {
		if err := end(ctx); err != nil {
			r.Logger.Warn("the last metrics or traces were not sent", "err", err)
		}
	}
	return nil
}
