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

// OnPublishStart starts the span of a publish, and writes its context into the message. A message that has one already, by Inject or
// because it is passed on, keeps it, and the span has a link to it.
func (h *Hook) OnPublishStart(ctx context.Context, m *rehop.Message) context.Context {
	made := h.creation(m.Headers)
	options := []trace.SpanStartOption{
		trace.WithSpanKind(trace.SpanKindProducer),
		trace.WithAttributes(append(messageAttributes(m), semconv.MessagingSystemRabbitMQ, semconv.MessagingOperationName(opPublish),
			semconv.MessagingOperationTypeSend, semconv.MessagingDestinationName(destination(m.Exchange)))...),
	}
	if made.IsValid() {
		options = append(options, trace.WithSpanKind(trace.SpanKindClient), trace.WithLinks(trace.Link{SpanContext: made}))
	}
	ctx, _ = h.tracer.Start(ctx, opPublish+" "+destination(m.Exchange), options...)
	if !made.IsValid() {
		h.inject(ctx, m)
	}
	return ctx
}

// OnPublish ends the span.
func (h *Hook) OnPublish(ctx context.Context, m *rehop.Message, took time.Duration, err error) {
	var more []attribute.KeyValue
	span := trace.SpanFromContext(ctx)
	if err != nil {
		why := semconv.ErrorTypeKey.String(publishFault(err))
		more = append(more, why)
		span.SetAttributes(why)
		span.SetStatus(codes.Error, err.Error())
	}
	span.End()
	set := about(opPublish, semconv.MessagingOperationTypeSend, destination(m.Exchange), more...)
	h.count.sent.AddSet(ctx, 1, set)
	h.count.operation.RecordSet(ctx, took.Seconds(), set)
	if errors.Is(err, rehop.ErrUnroutable) {
		h.count.unrouted.Add(ctx, 1, with(keyExchange.String(destination(m.Exchange))))
	}
}

// messageAttributes are what the span of a message says of it.
func messageAttributes(m *rehop.Message) []attribute.KeyValue {
	attributes := make([]attribute.KeyValue, 0, 12)
	attributes = append(attributes, semconv.MessagingMessageBodySize(len(m.Body)), semconv.MessagingRabbitMQDestinationRoutingKey(m.Key))
	if m.ID != "" {
		attributes = append(attributes, semconv.MessagingMessageID(m.ID))
	}
	if m.CorrelationID != "" {
		attributes = append(attributes, semconv.MessagingMessageConversationID(m.CorrelationID))
	}
	return attributes
}

// publishFault is the error as a word.
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
