package rehopotel

import (
	"fmt"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
)

// scope is how spans and metrics say who has made them.
const scope = "github.com/rehop/rehop/rehopotel"

// Config says where spans and metrics go. The zero value uses what the program has set for all.
type Config struct {
	// Tracers makes the tracer. Default: otel.GetTracerProvider().
	Tracers trace.TracerProvider
	// Meters makes the meter. Default: otel.GetMeterProvider().
	Meters metric.MeterProvider
	// Propagator writes the publisher's context into headers, and reads it. Default: W3C trace context.
	Propagator propagation.TextMapPropagator
	// Outbox names the outbox in metrics, for processes with relays of several databases. Default: it has no name.
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

// Hook implements the hooks of package rehop and of package outbox. A client and a relay may share one; each client needs its own, for
// connections and subscriptions are counted by what one client tells.
type Hook struct {
	tracer     trace.Tracer
	propagator propagation.TextMapPropagator
	count      *instruments
	labels     labels
	outbox     []attribute.KeyValue
	standing   *standing
}

// New makes a hook.
func New(config Config) (*Hook, error) {
	config = config.withDefaults()
	count, err := newInstruments(config.meter())
	if err != nil {
		return nil, fmt.Errorf("rehopotel: %w", err)
	}
	var outbox []attribute.KeyValue
	if config.Outbox != "" {
		outbox = append(outbox, keyOutbox.String(config.Outbox))
	}
	h := &Hook{
		tracer:     config.Tracers.Tracer(scope, trace.WithSchemaURL(semconv.SchemaURL)),
		propagator: config.Propagator,
		count:      count,
		labels:     labels{known: make(map[label]*made)},
		outbox:     outbox,
		standing:   newStanding(),
	}
	h.knowExchange("")
	if config.Outbox != "" {
		h.knowOutbox()
	}
	return h, nil
}
