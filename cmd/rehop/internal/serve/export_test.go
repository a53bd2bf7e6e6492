package serve_test

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/rehop/rehop/cmd/rehop/internal/config"
	"github.com/rehop/rehop/cmd/rehop/internal/serve"
)

// A service does not start if the environment asks for an export that it cannot do: metrics that are missing would be noticed late.
func TestExportRefused(t *testing.T) {
	for name, tt := range map[string]struct {
		env  environment
		want string
	}{
		"exporter": {environment{"OTEL_TRACES_EXPORTER": "zipkin"}, `export traces: $OTEL_TRACES_EXPORTER is "zipkin": rehop exports by otlp`},
		"protocol": {environment{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4317", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, `export metrics: $OTEL_EXPORTER_OTLP_PROTOCOL is "grpc": rehop exports by http/protobuf`},
		"protocol of one signal": {environment{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:4317", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "grpc"},
			`export traces: $OTEL_EXPORTER_OTLP_TRACES_PROTOCOL is "grpc"`},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve.Service{
				Load: func() (*config.File, error) {
					return config.Parse("rehop.yaml", []byte("flows: {work: {target: {command: 'true'}}}"), tt.env.lookup)
				},
				Embedded: &serve.Embedded{AMQP: "127.0.0.1:0", Management: "127.0.0.1:0"}, HTTP: "127.0.0.1:0",
				Env: tt.env.lookup, Logger: slog.New(slog.DiscardHandler), Ready: func(serve.Report) error { return nil },
			}
			if err := s.Run(t.Context()); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want an error with %q", err, tt.want)
			}
		})
	}
}
