package publishing

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
)

// open is kit.Open for a client that must close without an error.
func open(t testing.TB, config rehop.Config) *rehop.Client {
	t.Helper()
	c := kit.Open(t, config)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), kit.Limit)
		defer cancel()
		if err := c.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return c
}

// wired is a fresh virtual host with a queue "q", a channel for what the test does by hand, and a
// client whose connections the test can hold up and cut.
func wired(t testing.TB, config rehop.Config) (*lab.Rabbit, *amqp.Channel, *kit.Wire, *rehop.Client) {
	t.Helper()
	r, w := lab.Single(t), &kit.Wire{}
	config.URL, config.Dial = r.URL, w.Dial
	c, ch := open(t, config), r.Channel()
	kit.Queue(t, ch, "q", nil)
	return r, ch, w, c
}

// outcomes are the errors that Publish promises.
var outcomes = []error{rehop.ErrUnroutable, rehop.ErrRefused, rehop.ErrUnknown, rehop.ErrBlocked, rehop.ErrDisconnected,
	rehop.ErrTooLarge, rehop.ErrInvalid, rehop.ErrClosed}

// wantError checks that err is want, and no other of the promised outcomes.
func wantError(t testing.TB, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: got %v, want %v", what, err, want)
		return
	}
	for _, other := range outcomes {
		if other != want && errors.Is(err, other) {
			t.Errorf("%s: got %v, which is also %q; want only %q", what, err, other, want)
		}
	}
}

func depth(t testing.TB, r *lab.Rabbit, ch *amqp.Channel, queue string, want int) {
	t.Helper()
	if got := r.Depth(ch, queue); got != want {
		t.Errorf("queue %s: got %d messages, want %d", queue, got, want)
	}
}

// publishHook remembers what became of messages.
type publishHook struct {
	mu       sync.Mutex
	outcomes map[string]error
}

func (h *publishHook) OnPublishEnd(_ context.Context, m *rehop.Message, _ time.Duration, err error) {
	h.mu.Lock()
	h.outcomes[m.ID] = err
	h.mu.Unlock()
}

func (h *publishHook) get(id string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.outcomes[id]
}
