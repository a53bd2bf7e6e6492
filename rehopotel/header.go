package rehopotel

import (
	"context"
	"maps"
	"slices"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/rehop/rehop"
)

// Headers with the context of earlier attempts. The context of the publisher stays in the propagator's header, usually traceparent.
const (
	headerFirst  = rehop.HookPrefix + "first-traceparent"  // the first attempt, if the publisher is not traced
	headerLast   = rehop.HookPrefix + "last-traceparent"   // the span that last moved the message
	headerReplay = rehop.HookPrefix + "replay-traceparent" // the first attempt after a replay, the parent of its retries
)

// headers are the headers of a message, for a propagator. Some clients write text as bytes.
type headers map[string]any

func (h headers) Get(name string) string {
	switch value := h[name].(type) {
	case string:
		return value
	case []byte:
		return string(value)
	}
	return ""
}

func (h headers) Set(name, value string) { h[name] = value }

func (h headers) Keys() []string {
	return slices.Collect(maps.Keys(h))
}

// Inject writes the context of the current span into a message. Call it for messages that another component publishes later, such as the
// relay of an outbox; the client's own hooks do this when it publishes. It does nothing if ctx has no span.
func (t *Telemetry) Inject(ctx context.Context, m *rehop.Message) {
	if trace.SpanContextFromContext(ctx).IsValid() {
		t.inject(ctx, m)
	}
}

// Carry passes the context of an attempt on to a target. It is for the field Carry of target.HTTP and target.Command.
func (t *Telemetry) Carry(ctx context.Context, set func(name, value string)) {
	t.propagator.Inject(ctx, setter(set))
}

// setter is a write-only carrier.
type setter func(name, value string)

func (s setter) Get(string) string      { return "" }
func (s setter) Set(name, value string) { s(name, value) }
func (s setter) Keys() []string         { return nil }

// inject replaces the headers and does not change the map, which the caller may use for several messages.
func (t *Telemetry) inject(ctx context.Context, m *rehop.Message) {
	own := make(headers, len(m.Headers)+2)
	maps.Copy(own, m.Headers)
	t.propagator.Inject(ctx, own)
	m.Headers = own
}

// origin is the context to which all attempts of a message belong: that of the publish or, if that is not known, of the first attempt.
func (t *Telemetry) origin(d *rehop.Delivery) trace.SpanContext {
	if created := t.creation(d.Headers); created.IsValid() {
		return created
	}
	return noted(d, headerFirst)
}

// creation is the context in which a message was published.
func (t *Telemetry) creation(of map[string]any) trace.SpanContext {
	if len(of) == 0 {
		return trace.SpanContext{}
	}
	return trace.SpanContextFromContext(t.propagator.Extract(context.Background(), headers(of)))
}

// noted reads the context in one of the headers above.
func noted(of *rehop.Delivery, name string) trace.SpanContext {
	value := headers{name: of.HookHeader(name)}.Get(name)
	if value == "" {
		return trace.SpanContext{}
	}
	return trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{"traceparent": value}))
}

// note writes a context into one of the headers above.
func note(in map[string]any, name string, of trace.SpanContext) {
	if !of.IsValid() {
		return
	}
	written := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(trace.ContextWithSpanContext(context.Background(), of), written)
	in[name] = written["traceparent"]
}

// linksTo returns links to the valid ones of some contexts.
func linksTo(contexts ...trace.SpanContext) []trace.Link {
	var links []trace.Link
	for _, c := range contexts {
		if c.IsValid() {
			links = append(links, trace.Link{SpanContext: c})
		}
	}
	return links
}
