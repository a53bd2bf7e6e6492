package rehopotel

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/rehop/rehop"
)

const opPublish = "publish"

// The types of operations.
var (
	typeSend    = semconv.MessagingOperationTypeSend.Value.AsString()
	typeProcess = semconv.MessagingOperationTypeProcess.Value.AsString()
	typeSettle  = semconv.MessagingOperationTypeSettle.Value.AsString()
)

// onPublishStart starts the span of a publish, and writes its context into the message. A message that already has a context, because of
// Inject or because it is forwarded, keeps it, and the span has a link to it.
func (c *client) onPublishStart(ctx context.Context, m *rehop.Message) context.Context {
	created := c.creation(m.Headers)
	kind := trace.SpanKindProducer
	if created.IsValid() {
		kind = trace.SpanKindClient
	}
	ctx, span := c.tracer.Start(ctx, opPublish+" "+destination(m.Exchange), trace.WithSpanKind(kind), trace.WithLinks(linksTo(created)...))
	if span.IsRecording() {
		span.SetAttributes(append(messageAttributes(m, &c.standing.publish), semconv.MessagingSystemRabbitMQ, semconv.MessagingOperationName(opPublish),
			semconv.MessagingOperationTypeSend, semconv.MessagingDestinationName(destination(m.Exchange)))...)
	}
	if !created.IsValid() && span.SpanContext().IsValid() {
		c.inject(ctx, m)
	}
	return ctx
}

func (c *client) onPublishEnd(ctx context.Context, m *rehop.Message, took time.Duration, err error) {
	l := label{operation: opPublish, kind: typeSend, destination: destination(m.Exchange)}
	span := trace.SpanFromContext(ctx)
	if err != nil {
		l.fault = publishFault(err)
		span.SetAttributes(semconv.ErrorTypeKey.String(l.fault))
		span.SetStatus(codes.Error, err.Error())
	}
	span.End()
	of := c.labels.of(l)
	if !of.announced.Load() && of.announced.CompareAndSwap(false, true) {
		c.knowExchange(m.Exchange)
	}
	c.count.sent.Inst().Add(ctx, 1, of.add...)
	c.count.operation.Inst().Record(ctx, took.Seconds(), of.record...)
	if errors.Is(err, rehop.ErrUnroutable) {
		c.count.unroutable.Add(ctx, 1, with(keyExchange.String(destination(m.Exchange))))
	}
}

// messageAttributes are the attributes of a message and the broker in a span.
func messageAttributes(m *rehop.Message, broker *server) []attribute.KeyValue {
	attributes := append(make([]attribute.KeyValue, 0, 16), broker.attributes()...)
	attributes = append(attributes, semconv.MessagingMessageBodySize(len(m.Body)), semconv.MessagingRabbitMQDestinationRoutingKey(m.Key))
	if m.ID != "" {
		attributes = append(attributes, semconv.MessagingMessageID(m.ID))
	}
	if m.CorrelationID != "" {
		attributes = append(attributes, semconv.MessagingMessageConversationID(m.CorrelationID))
	}
	return attributes
}

// publishFault is the error.type of a publish.
func publishFault(err error) string {
	for _, fault := range []struct {
		is   error
		word string
	}{
		{rehop.ErrUnroutable, "unroutable"}, {rehop.ErrRefused, "refused"}, {rehop.ErrUnknown, "unknown"}, {rehop.ErrBlocked, "blocked"},
		{rehop.ErrDisconnected, "disconnected"}, {rehop.ErrTooLarge, "too_large"}, {rehop.ErrInvalid, "invalid"}, {rehop.ErrClosed, "closed"},
		{context.DeadlineExceeded, "timeout"}, {context.Canceled, "canceled"},
	} {
		if errors.Is(err, fault.is) {
			return fault.word
		}
	}
	return semconv.ErrorTypeOther.Value.AsString()
}
