package rehopotel_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/broker"
	"github.com/rehop/rehop/rehopotel"
)

// A message fails once. Both attempts are in the trace of whoever published it.
func ExampleNew() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	spans := tracetest.NewSpanRecorder() // a program would have an exporter
	tracers := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
	telemetry, err := rehopotel.New(rehopotel.Config{Tracers: tracers})
	if err != nil {
		fmt.Println(err)
		return
	}
	server := &broker.Server{} // or a RabbitMQ: then Config has its URL, and no Dial
	defer server.Close()
	client, err := rehop.Open(ctx, rehop.Config{Dial: server.Dial, Hooks: []rehop.Hooks{telemetry.Client()}})
	if err != nil {
		fmt.Println(err)
		return
	}
	done := make(chan struct{})
	_, err = client.Subscribe(ctx, rehop.Subscriber{
		Queue: "payments", Retry: rehop.Steps(100 * time.Millisecond),
		Handler: rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
			if d.Attempt == 1 {
				return errors.New("the bank is closed")
			}
			close(done)
			return nil
		}),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	within, request := tracers.Tracer("shop").Start(ctx, "POST /orders")
	if err := client.Publish(within, rehop.Message{Key: "payments", Body: []byte("7 €")}); err != nil {
		fmt.Println(err)
		return
	}
	request.End()
	<-done
	if err := client.Close(ctx); err != nil {
		fmt.Println(err)
		return
	}

	for _, s := range spans.Started() {
		same := s.SpanContext().TraceID() == request.SpanContext().TraceID()
		fmt.Printf("%s, in the trace of the request: %t, links: %d\n", s.Name(), same, len(s.Links()))
	}
	// Output:
	// POST /orders, in the trace of the request: true, links: 0
	// publish (default), in the trace of the request: true, links: 0
	// process payments, in the trace of the request: true, links: 0
	// retry payments, in the trace of the request: true, links: 0
	// process payments, in the trace of the request: true, links: 1
}
