package rehopotel

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/outbox"
)

// scope is the instrumentation scope of spans and metrics.
const scope = "github.com/rehop/rehop/rehopotel"

// Config is where spans and metrics go. The zero value uses OpenTelemetry's global providers.
type Config struct {
	// Tracers creates the tracer. Default: otel.GetTracerProvider().
	Tracers trace.TracerProvider
	// Meters creates the meter. Default: otel.GetMeterProvider().
	Meters metric.MeterProvider
	// Propagator writes the publisher's context into headers and reads it there. Default: W3C trace context.
	Propagator propagation.TextMapPropagator
	// Outbox is the name of the outbox in metrics. Set it in programs with relays of several databases. Default: no name.
	Outbox string
}

func (c Config) withDefaults() Config {
	if c.Tracers == nil {
		c.Tracers = otel.GetTracerProvider()
	}
	if c.Meters == nil {
		c.Meters = otel.GetMeterProvider()
	}
	if c.Propagator == nil {
		c.Propagator = propagation.TraceContext{}
	}
	return c
}

func (c Config) meter() metric.Meter {
	return c.Meters.Meter(scope, metric.WithSchemaURL(semconv.SchemaURL))
}

// Telemetry creates hooks of clients, outboxes and inboxes that report to the same providers. It is
// safe for concurrent use. A program needs one, or one for each outbox with a name.
type Telemetry struct {
	tracer     trace.Tracer
	propagator propagation.TextMapPropagator
	count      *instruments
	labels     labels
	outbox     []attribute.KeyValue
}

// New returns a Telemetry. The error names the instruments that the meter refused.
func New(config Config) (*Telemetry, error) {
	config = config.withDefaults()
	count, err := newInstruments(config.meter())
	if err != nil {
		return nil, fmt.Errorf("rehopotel: %w", err)
	}
	var named []attribute.KeyValue
	if config.Outbox != "" {
		named = append(named, keyOutbox.String(config.Outbox))
	}
	t := &Telemetry{
		tracer:     config.Tracers.Tracer(scope, trace.WithSchemaURL(semconv.SchemaURL)),
		propagator: config.Propagator,
		count:      count,
		labels:     labels{known: make(map[label]*made)},
		outbox:     named,
	}
	t.knowExchange("")
	if config.Outbox != "" {
		t.knowOutbox()
	}
	return t, nil
}

// Client returns the hooks of one client, for [rehop.Config.Hooks]. Call it once for each client:
// connections and subscriptions are counted by what one client reports.
func (t *Telemetry) Client() rehop.Hooks {
	c := &client{Telemetry: t, standing: newStanding()}
	return rehop.Hooks{
		OnOpen:         c.onOpen,
		OnState:        c.onState,
		OnPublishStart: c.onPublishStart,
		OnPublishEnd:   c.onPublishEnd,
		OnHandleStart:  c.onHandleStart,
		OnHandleEnd:    c.onHandleEnd,
		OnMove:         c.onMove,
		OnResult:       c.onResult,
		OnConsumer:     c.onConsumer,
		OnStuck:        c.onStuck,
		OnPause:        c.onPause,
		OnHeld:         c.onHeld,
	}
}

type client struct {
	*Telemetry
	standing *standing
}

// Outbox returns the hooks of relays and spills, for [outbox.Relay.Hooks] and [outbox.Spill.Hooks].
// Those of one outbox can share them.
func (t *Telemetry) Outbox() outbox.Hooks {
	return outbox.Hooks{OnBacklog: t.onBacklog, OnBatch: t.onBatch, OnLease: t.onLease, OnFault: t.onFault, OnSpill: t.onSpill}
}

// Duplicate counts a message that was not handled because a copy was. It is for
// inbox.Inbox.OnDuplicate.
func (t *Telemetry) Duplicate(ctx context.Context, _ string, d *rehop.Delivery) {
	t.count.duplicates.Add(ctx, 1, t.labels.of(label{queue: d.Queue}).add...)
}
