package rehopotel

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/rehop/rehop"
)

const opProcess = "process"

type run struct {
	span trace.Span

	// The span of the outcome. Only the goroutine that settles the delivery uses these fields. That is not the handler's goroutine if the
	// handler was abandoned.
	settle trace.Span
	began  time.Time
}

type runKey struct{}

func runOf(ctx context.Context) *run {
	r, _ := ctx.Value(runKey{}).(*run)
	return r
}

// onHandleStart starts the span of an attempt, which is in the handler's context.
func (c *client) onHandleStart(ctx context.Context, d *rehop.Delivery) context.Context {
	of := c.labels.of(label{queue: d.Queue})
	if d.Attempt > 1 && !d.FirstFailed.IsZero() {
		c.count.retryAge.Record(ctx, max(0, time.Since(d.FirstFailed)).Seconds(), of.record...)
	}
	c.count.inFlight.Add(ctx, 1, of.add...)
	if trace.SpanContextFromContext(ctx).IsValid() { // of the call of Subscribe, which ended long ago
		ctx = trace.ContextWithSpanContext(ctx, trace.SpanContext{})
	}
	if len(d.Headers) > 0 {
		ctx = c.propagator.Extract(ctx, headers(d.Headers))
	}
	created := trace.SpanContextFromContext(ctx)
	if !created.IsValid() {
		created = noted(d, headerFirst)
	}
	above, options := c.place(created, d)
	if above.IsValid() {
		ctx = trace.ContextWithRemoteSpanContext(ctx, above)
	}
	ctx, span := c.tracer.Start(ctx, opProcess+" "+d.Queue, append(options, trace.WithSpanKind(trace.SpanKindConsumer))...)
	if span.IsRecording() {
		span.SetAttributes(c.deliveryAttributes(d, opProcess, semconv.MessagingOperationTypeProcess)...)
	}
	return context.WithValue(ctx, runKey{}, &run{span: span})
}

// place returns the parent and the links of an attempt. The parent is the publish, or the first attempt if the publisher is not traced.
// The first attempt after a replay starts a new trace, and is the parent of its retries.
func (c *client) place(created trace.SpanContext, d *rehop.Delivery) (above trace.SpanContext, options []trace.SpanStartOption) {
	if d.Replays == 0 && d.Attempt == 1 {
		return created, nil
	}
	last := noted(d, headerLast)
	switch {
	case d.Replays > 0 && d.Attempt == 1:
		return trace.SpanContext{}, []trace.SpanStartOption{trace.WithNewRoot(), trace.WithLinks(linksTo(created, last)...)}
	case d.Replays > 0:
		if replay := noted(d, headerReplay); replay.IsValid() {
			created = replay
		}
	}
	return created, []trace.SpanStartOption{trace.WithLinks(linksTo(last)...)}
}

func (c *client) onHandleEnd(ctx context.Context, d *rehop.Delivery, took time.Duration, err error) {
	c.count.inFlight.Add(ctx, -1, c.labels.of(label{queue: d.Queue}).add...)
	l := label{operation: opProcess, kind: typeProcess, destination: d.Queue}
	if err != nil {
		l.fault = handlerFault(err)
	}
	if r := runOf(ctx); r != nil {
		if err != nil {
			r.span.SetAttributes(semconv.ErrorTypeKey.String(l.fault))
			r.span.SetStatus(codes.Error, err.Error())
		}
		r.span.End()
	}
	c.count.process.Inst().Record(ctx, took.Seconds(), c.labels.of(l).record...)
}

// handlerFault is the error.type of a handler's error. What it means for the message is in the outcome.
func handlerFault(err error) string {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	case errors.Is(err, context.Canceled):
		return "canceled"
	}
	return "error"
}

// onMove starts the span of moving a message, and writes its context into the message, so that the next attempt can link to it.
func (c *client) onMove(ctx context.Context, d *rehop.Delivery, result rehop.Result, added map[string]any) {
	r := runOf(ctx)
	if r == nil { // no handler was run
		origin := c.origin(d)
		if origin.IsValid() {
			ctx = trace.ContextWithRemoteSpanContext(ctx, origin)
		}
		span := c.startSettle(ctx, d, result)
		span.End()
		note(added, headerLast, span.SpanContext())
		if !origin.IsValid() {
			note(added, headerFirst, span.SpanContext())
		}
		return
	}
	r.settle, r.began = c.startSettle(ctx, d, result), time.Now()
	note(added, headerLast, r.settle.SpanContext())
	if !c.origin(d).IsValid() {
		note(added, headerFirst, r.span.SpanContext())
	}
	if d.Replays > 0 && d.Attempt == 1 {
		note(added, headerReplay, r.span.SpanContext())
	}
}

func (c *client) startSettle(ctx context.Context, d *rehop.Delivery, result rehop.Result) trace.Span {
	name := operation(result.Outcome)
	_, span := c.tracer.Start(ctx, name+" "+d.Queue, trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(c.deliveryAttributes(d, name, semconv.MessagingOperationTypeSettle)...))
	return span
}

// operation is the messaging.operation.name of an outcome: the outcome, or "ack", the name by the conventions, for a handled message.
func operation(o rehop.Outcome) string {
	if o == rehop.OutcomeDone {
		return "ack"
	}
	return string(o)
}

// onResult ends the span of the outcome and counts it. A message that is only acked has no such span.
func (c *client) onResult(ctx context.Context, d *rehop.Delivery, result rehop.Result) {
	if r := runOf(ctx); r != nil && (r.settle != nil || result.Outcome != rehop.OutcomeDone) {
		if r.settle == nil {
			r.settle, r.began = c.startSettle(ctx, d, result), time.Now()
		}
		r.settle.SetAttributes(keyOutcome.String(string(result.Outcome)), keyKind.String(string(result.Kind)), keyDelay.Float64(result.Delay.Seconds()))
		r.settle.End()
		c.count.operation.Inst().Record(ctx, time.Since(r.began).Seconds(), c.labels.of(label{operation: operation(result.Outcome), kind: typeSettle, destination: d.Queue}).record...)
	}
	c.count.consumed.Inst().Add(ctx, 1, c.labels.of(label{operation: opProcess, kind: typeProcess, destination: d.Queue,
		outcome: string(result.Outcome), fault: string(result.Kind)}).add...)
	switch result.Outcome {
	case rehop.OutcomeRetry:
		c.count.retries.Add(ctx, 1, with(keyQueue.String(d.Queue), keyKind.String(string(result.Kind))))
	case rehop.OutcomeFailed:
		c.count.failed.Add(ctx, 1, with(keyQueue.String(d.Queue), keyKind.String(string(result.Kind))))
	}
}

func (c *client) deliveryAttributes(d *rehop.Delivery, operation string, kind attribute.KeyValue) []attribute.KeyValue {
	return append(messageAttributes(&d.Message, &c.standing.consume), semconv.MessagingSystemRabbitMQ, semconv.MessagingOperationName(operation), kind,
		semconv.MessagingDestinationName(d.Queue), keyExchange.String(destination(d.Exchange)), keyAttempt.Int(d.Attempt),
		keyMaxAttempts.Int(d.MaxAttempts), keyReplays.Int(d.Replays), keyRedelivered.Bool(d.Redelivered))
}

func with(attributes ...attribute.KeyValue) metric.MeasurementOption {
	return metric.WithAttributeSet(attribute.NewSet(attributes...))
}
