package publishing

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
)

// What the protocol or the settings do not allow is refused before it is sent.
func TestTooLargeOrInvalid(t *testing.T) {
	t.Parallel()
	r, ch, w, c := wired(t, rehop.Config{MaxBody: 1000})
	kit.Publish(t, c, rehop.Message{Key: "q"})
	tap := w.Newest(t, "publish")
	long := strings.Repeat("x", 256)
	nested := map[string]any{}
	for range 40 {
		nested = map[string]any{"n": nested}
	}
	for _, test := range []struct {
		name string
		m    rehop.Message
		want error
	}{
		{"body", rehop.Message{Body: make([]byte, 1001)}, rehop.ErrTooLarge},
		{"headers over a frame", rehop.Message{Headers: map[string]any{"h": strings.Repeat("x", 128<<10)}}, rehop.ErrTooLarge},
		{"many small headers", rehop.Message{Headers: map[string]any{"h": make([]any, 140_000)}}, rehop.ErrTooLarge},
		{"id", rehop.Message{ID: long}, rehop.ErrInvalid},
		{"exchange", rehop.Message{Exchange: long}, rehop.ErrInvalid},
		{"key", rehop.Message{Key: long}, rehop.ErrInvalid},
		{"content type", rehop.Message{ContentType: long}, rehop.ErrInvalid},
		{"content encoding", rehop.Message{ContentEncoding: long}, rehop.ErrInvalid},
		{"correlation id", rehop.Message{CorrelationID: long}, rehop.ErrInvalid},
		{"reply-to", rehop.Message{ReplyTo: long}, rehop.ErrInvalid},
		{"type", rehop.Message{Type: long}, rehop.ErrInvalid},
		{"app id", rehop.Message{AppID: long}, rehop.ErrInvalid},
		{"header name", rehop.Message{Headers: map[string]any{long: 1}}, rehop.ErrInvalid},
		{"nested header name", rehop.Message{Headers: map[string]any{"a": map[string]any{long: 1}}}, rehop.ErrInvalid},
		{"header type", rehop.Message{Headers: map[string]any{"c": make(chan int)}}, rehop.ErrInvalid},
		{"header type in a list", rehop.Message{Headers: map[string]any{"c": []any{1, struct{}{}}}}, rehop.ErrInvalid},
		{"integer above 63 bits", rehop.Message{Headers: map[string]any{"n": uint64(1) << 63}}, rehop.ErrInvalid},
		{"nesting", rehop.Message{Headers: nested}, rehop.ErrInvalid},
		{"rehop's header", rehop.Message{Headers: map[string]any{"rehop-attempt": 1}}, rehop.ErrInvalid},
		{"negative expiration", rehop.Message{Expiration: -time.Second}, rehop.ErrInvalid},
	} {
		if test.m.Key == "" {
			test.m.Key = "q"
		}
		wantError(t, test.name, c.Publish(kit.Context(t), test.m), test.want)
	}
	if err := c.Publish(kit.Context(t), rehop.Message{Key: "q", Body: make([]byte, 1000)}); err != nil {
		t.Errorf("a body of exactly MaxBody: got %v, want nil", err)
	}
	if w.Newest(t, "publish") != tap {
		t.Error("the connection was lost and made again; want it untouched")
	}
	depth(t, r, ch, "q", 2)
}

// The largest headers that are let pass do pass.
func TestLargestHeaders(t *testing.T) {
	t.Parallel()
	_, _, w, c := wired(t, rehop.Config{})
	publish := func(size int) error {
		return c.Publish(kit.Context(t), rehop.Message{ID: "id", Key: "q", Type: "t", AppID: "a", ReplyTo: "r", CorrelationID: "c",
			ContentType: "text/plain", ContentEncoding: "none", Expiration: time.Hour, Priority: 3,
			Headers: map[string]any{"h": strings.Repeat("x", size)}})
	}
	if err := publish(1); err != nil {
		t.Fatal(err)
	}
	tap := w.Newest(t, "publish")
	refused := 128 << 10 // the smallest size known to be refused
	passed := 1
	for refused-passed > 1 {
		size := (refused + passed) / 2
		if err := publish(size); err == nil {
			passed = size
		} else {
			wantError(t, fmt.Sprintf("headers of %d bytes", size), err, rehop.ErrTooLarge)
			refused = size
		}
	}
	if passed < 120<<10 {
		t.Errorf("the largest header has %d bytes, want almost a frame of %d", passed, 128<<10)
	}
	if w.Newest(t, "publish") != tap {
		t.Error("the connection was lost and made again; want it untouched")
	}
}

// Not more than MaxUnconfirmed messages are under way.
func TestBoundedWindow(t *testing.T) {
	t.Parallel()
	for name, config := range map[string]rehop.Config{
		"messages": {MaxUnconfirmed: 4},
		"bytes":    {MaxUnconfirmedBytes: 4*(1000+512) + 100},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			starts := &startHook{}
			config.Hooks = []rehop.Hooks{{OnPublishStart: starts.OnPublishStart}}
			r, ch, w, c := wired(t, config)
			body := []byte("MARK" + strings.Repeat("x", 996))
			kit.Publish(t, c, rehop.Message{Key: "q", Body: body})
			tap := w.Newest(t, "publish")
			release := tap.Hold()
			results := make(chan error, 10)
			for range 10 {
				go func() { results <- c.Publish(kit.Context(t), rehop.Message{Key: "q", Body: body}) }()
			}
			lab.Eventually(t, kit.Limit, "all have started", func() bool { return starts.n.Load() == 11 })
			lab.Eventually(t, kit.Limit, "4 more messages on the broker", func() bool { return r.Depth(ch, "q") == 5 })
			err := c.Publish(kit.Timeout(t, 300*time.Millisecond), rehop.Message{Key: "q", Body: body})
			if err == nil {
				t.Error("a message beyond the window: got nil, want an error by the context")
			}
			promised(t, err)
			if got := tap.Count("MARK"); got != 5 {
				t.Errorf("got %d messages sent in all, want 5: 4 are under way", got)
			}
			release()
			for range 10 {
				if err := <-results; err != nil {
					t.Errorf("after the confirms: got %v, want nil", err)
				}
			}
			depth(t, r, ch, "q", 11)
		})
	}
}

// startHook counts messages that are about to be published.
type startHook struct{ n atomic.Int64 }

func (h *startHook) OnPublishStart(ctx context.Context, _ *rehop.Message) context.Context {
	h.n.Add(1)
	return ctx
}

// The broker's own limit: it closes the channel, and reports how much it accepts.
func TestBrokersOwnLimit(t *testing.T) {
	t.Parallel()
	r := lab.Alone(t) // it changes the whole node
	c := open(t, rehop.Config{URL: r.URL})
	ch := r.Channel()
	kit.Queue(t, ch, "q", nil)
	// RabbitMQ 3 looks at the setting, RabbitMQ 4 at a term that it makes of it when it starts.
	r.Services("ctl", "single", "eval", "application:set_env(rabbit, max_message_size, 100000), persistent_term:put(max_message_size, 100000).")
	err := c.Publish(kit.Context(t), rehop.Message{Key: "q", Body: make([]byte, 100_001)})
	if err == nil {
		t.Fatal("got nil, want an error")
	}
	if !strings.Contains(err.Error(), "100000") {
		t.Errorf("got %q, want the broker's limit in it", err)
	}
	wantError(t, "beyond the broker's limit", err, rehop.ErrTooLarge)
	if err := c.Publish(kit.Context(t), rehop.Message{Key: "q", Body: make([]byte, 100_000)}); err != nil {
		t.Errorf("just the broker's limit: got %v, want nil", err)
	}
	depth(t, r, ch, "q", 1)
}
