package rehopotel_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/rehopotel"
	"github.com/rehop/rehop/rehoptest"
	"github.com/rehop/rehop/target"
)

// An endpoint receives the span of its attempt and what the publisher wrote. The spans of earlier attempts, which hooks write into
// the message, stay inside: in retries, in the failed queue and after a replay.
func TestEndpointSeesNoEarlierSpan(t *testing.T) {
	const publishers = "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01"
	for name, headers := range map[string]map[string]any{
		"traced publisher":   {"own": "kept", "traceparent": publishers},
		"untraced publisher": {"own": "kept"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const failures = 4 // two runs, with one retry each
			requests := make(chan http.Header, failures+1)
			endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if requests <- r.Header; len(requests) <= failures {
					w.WriteHeader(http.StatusInternalServerError)
				}
			}))
			defer endpoint.Close()
			spans := tracetest.NewSpanRecorder()
			telemetry, err := rehopotel.New(rehopotel.Config{Tracers: sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))})
			if err != nil {
				t.Fatal(err)
			}
			b := &traced{Broker: rehoptest.Open(t, withHooks(telemetry.Client())), t: t, spans: spans}
			post := &target.HTTP{URL: endpoint.URL, Carry: telemetry.Carry}
			defer post.Close()
			b.subscribe(rehop.Subscriber{Queue: "q", Retry: rehop.Steps(time.Millisecond), Handler: post})
			b.publishUntraced(rehop.Message{Key: "q", Headers: headers})
			for range 2 {
				b.AwaitFailed("q", 1)
				b.replay("q")
			}
			b.AwaitEmpty("q")
			if len(requests) != failures+1 {
				t.Fatalf("%d requests, want %d", len(requests), failures+1)
			}
			var carried []string
			for attempt := range failures + 1 {
				header := <-requests
				carried = append(carried, header.Get("Traceparent"))
				header.Del("Traceparent")
				if got := header.Get("Rehop-Header-Own"); got != "kept" {
					t.Errorf("attempt %d: header own %q, want kept", attempt+1, got)
				}
				for name, values := range header {
					known := name == "Rehop-Header-Own" || name == "Rehop-Header-Traceparent" && slices.Equal(values, []string{publishers})
					if !known && (strings.HasPrefix(name, "Rehop-Header-") || strings.Contains(name, "Traceparent")) {
						t.Errorf("attempt %d: the endpoint received %s: %q", attempt+1, name, values)
					}
				}
			}
			var want []string
			for _, s := range b.spans.Started() {
				if s.Name() == "process q" {
					want = append(want, "00-"+s.SpanContext().TraceID().String()+"-"+s.SpanContext().SpanID().String()+"-01")
				}
			}
			if !slices.Equal(carried, want) {
				t.Errorf("the endpoint received the spans %q, want those of the attempts %q", carried, want)
			}
		})
	}
}
