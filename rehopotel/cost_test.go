package rehopotel_test

import (
	"testing"
	"time"

	"go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/rehopotel"
)

// BenchmarkMessage is what the hooks cost for a message that is published and handled.
func BenchmarkMessage(b *testing.B) {
	for name, sampler := range map[string]sdktrace.Sampler{"metrics": sdktrace.NeverSample(), "metrics and spans": sdktrace.AlwaysSample()} {
		b.Run(name, func(b *testing.B) {
			telemetry, err := rehopotel.New(rehopotel.Config{
				Meters:  metric.NewMeterProvider(metric.WithReader(metric.NewManualReader())),
				Tracers: sdktrace.NewTracerProvider(sdktrace.WithSampler(sampler)),
			})
			if err != nil {
				b.Fatal(err)
			}
			hooks := telemetry.Client()
			b.ReportAllocs()
			for b.Loop() {
				m := rehop.Message{ID: "7", Exchange: "shop", Key: "order.created"}
				ctx := hooks.OnPublishStart(b.Context(), &m)
				hooks.OnPublishEnd(ctx, &m, time.Millisecond, nil)
				d := &rehop.Delivery{Message: m, Queue: "orders", Attempt: 1}
				ctx = hooks.OnHandleStart(b.Context(), d)
				hooks.OnHandleEnd(ctx, d, time.Millisecond, nil)
				hooks.OnResult(ctx, d, rehop.Result{Outcome: rehop.OutcomeDone})
			}
		})
	}
}
