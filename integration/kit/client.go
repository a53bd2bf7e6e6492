package kit

import (
	"context"
	"log/slog"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/integration/lab"
)

// Open opens a client that is closed with the test. By default it is named
// "test", and its log is shown if the test fails.
func Open(t testing.TB, config rehop.Config) *rehop.Client {
	t.Helper()
	return open(t, config, 5*time.Second)
}

// OpenQuick is Open for a client that soon connects again after a loss. It gets little time to close,
// since some tests leave handlers behind that do not return.
func OpenQuick(t testing.TB, r *lab.Rabbit, config rehop.Config) *rehop.Client {
	t.Helper()
	config.URL = r.URL
	config.ReconnectMin, config.ReconnectMax = 20*time.Millisecond, 100*time.Millisecond
	return open(t, config, time.Second)
}

// Setup is a fresh virtual host, a channel for what the test does by hand, and a quick client of which
// everything is recorded.
func Setup(t testing.TB) (*lab.Rabbit, *amqp.Channel, *Recorder, *rehop.Client) {
	t.Helper()
	r, rec := lab.Single(t), NewRecorder()
	return r, r.Channel(), rec, OpenQuick(t, r, rehop.Config{Hooks: rec.Hooks()})
}

func open(t testing.TB, config rehop.Config, grace time.Duration) *rehop.Client {
	t.Helper()
	log := &Log{}
	if config.Logger == nil {
		config.Logger = slog.New(slog.NewTextHandler(log, nil))
	}
	if config.Name == "" {
		config.Name = "test"
	}
	c, err := rehop.Open(Context(t), config)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), grace)
		defer cancel()
		_ = c.Close(ctx)
		if t.Failed() {
			t.Logf("log:\n%s", log)
		}
	})
	return c
}
