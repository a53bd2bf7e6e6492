package serve

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/contrib/exporters/autoexport"
	"go.opentelemetry.io/otel/attribute"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/rehopotel"
)

// telemetry is what the service tells others about itself.
type telemetry struct {
	config  rehopotel.Config
	metrics http.Handler // for Prometheus
	ends    []func(context.Context) error
}

// startTelemetry makes metrics for Prometheus, and sends metrics and traces by OTLP if the environment says where to.
func (r *run) startTelemetry(ctx context.Context) (*telemetry, error) {
	t := &telemetry{}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	t.metrics = promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError})
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
	if r.exports("METRICS") {
		pushed, err := autoexport.NewMetricReader(ctx)
		if err != nil {
			return nil, fmt.Errorf("export metrics as the environment says: %w", err)
		}
		meters = append(meters, sdkmetric.WithReader(pushed))
	}
	if r.exports("TRACES") {
		spans, err := autoexport.NewSpanExporter(ctx)
		if err != nil {
			return nil, fmt.Errorf("export traces as the environment says: %w", err)
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

// exports reports whether the environment asks for a signal to be sent. Unlike autoexport by itself, nothing is sent to nobody.
func (r *run) exports(signal string) bool {
	get := func(name string) string {
		value, _ := r.Env(name)
		return value
	}
	if get("OTEL_SDK_DISABLED") == "true" {
		return false
	}
	if chosen := get("OTEL_" + signal + "_EXPORTER"); chosen != "" {
		return chosen != "none"
	}
	return get("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || get("OTEL_EXPORTER_OTLP_"+signal+"_ENDPOINT") != ""
}

// observe makes a hook for a client.
func (t *telemetry) observe() (rehop.Hook, error) { return rehopotel.New(t.config) }

// watchQueues reports how full queues are, if there is a management API that can tell. For want of it nothing else suffers.
func (r *run) watchQueues(ctx context.Context, t *telemetry) {
	settings := admin.Config{Management: r.Management}
	switch {
	case r.Embedded != nil && r.report.Management != "":
		settings = admin.Config{Dial: r.Embedded.server.Dial, Management: r.report.Management}
	case r.Embedded != nil || r.Management == "":
		return
	default:
		client, err := r.Connect(r.file)
		if err != nil {
			return // the runner says so
		}
		settings.URLs, settings.TLS = client.URLs, client.TLS
	}
	opening, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	looker, err := admin.Open(opening, settings)
	if err != nil {
		r.Logger.Warn("metrics of queues are missing: the broker cannot be looked at", "err", err)
		return
	}
	registration, err := rehopotel.Watch(looker, t.config)
	if err != nil {
		r.Logger.Warn("metrics of queues are missing", "err", err)
		looker.Close()
		return
	}
	t.ends = append(t.ends, func(context.Context) error {
		defer looker.Close()
		return registration.Unregister()
	})
}

// closeTelemetry sends what has not been sent yet. That nobody takes it is no fault of the service.
func (r *run) closeTelemetry(t *telemetry) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	for i := len(t.ends) - 1; i >= 0; i-- {
		if err := t.ends[i](ctx); err != nil {
			r.Logger.Warn("the last metrics or traces were not sent", "err", err)
		}
	}
	return nil
}
