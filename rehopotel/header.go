package rehopotel

import (
	"context"
	"maps"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/rehop/rehop"
)

// Headers in which the context of earlier attempts travels. The publisher's own stays in the propagator's, traceparent as a rule.
const (
	headerFirst  = rehop.HookPrefix + "first-traceparent"  // the first attempt, if the publisher is not traced
	headerLast   = rehop.HookPrefix + "last-traceparent"   // what sent the message on its way the last time
	headerReplay = rehop.HookPrefix + "replay-traceparent" // the first attempt after a replay, below which its retries belong
)

// headers are a message's, as a propagator sees them. Other clients write texts as bytes.
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
	names := make([]string, 0, len(h))
	for name := range h {
		names = append(names, name)
	}
	return names
}

// Inject writes the context of the present span into a message. Publishing does that by itself; this is for messages that somebody else
// publishes later, such as the relay of an outbox.
func (t *Telemetry) Inject(ctx context.Context, m *rehop.Message) {
	if trace.SpanContextFromContext(ctx).IsValid() {
		t.inject(ctx, m)
	}
}

// Carry passes on the context of an attempt, for whoever does the work: give it to target.HTTP and target.Command.
func (t *Telemetry) Carry(ctx context.Context, set func(name, value string)) {
	t.propagator.Inject(ctx, setter(set))
}

// setter is a carrier that can only be written to.
type setter func(name, value string)

func (s setter) Get(string) string      { return "" }
func (s setter) Set(name, value string) { s(name, value) }
func (s setter) Keys() []string         { return nil }

// inject leaves the map as it is: it belongs to whoever publishes, and may be used for several messages.
func (t *Telemetry) inject(ctx context.Context, m *rehop.Message) {
	own := make(headers, len(m.Headers)+2)
	maps.Copy(own, m.Headers)
	t.propagator.Inject(ctx, own)
	m.Headers = own
}

// origin is the context to which all attempts of a message belong: in which it was published, or, if that is not known, its first
// attempt.
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

// noted is the context in a header of our own.
func noted(of *rehop.Delivery, name string) trace.SpanContext {
	value := headers{name: of.HookHeader(name)}.Get(name)
	if value == "" {
		return trace.SpanContext{}
	}
	return trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{"traceparent": value}))
}

// note writes a context into a header of our own.
func note(in map[string]any, name string, of trace.SpanContext) {
	if !of.IsValid() {
		return
	}
	written := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(trace.ContextWithSpanContext(context.Background(), of), written)
	in[name] = written["traceparent"]
}

// linksTo are links to those contexts that there are.
func linksTo(contexts ...trace.SpanContext) []trace.Link {
	var links []trace.Link
	for _, c := range contexts {
		if c.IsValid() {
			links = append(links, trace.Link{SpanContext: c})
		}
	}
	return links
}
