package publishing

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
)

// What the broker would answer by closing the channel is turned away before it is sent: those who
// publish to the same exchange notice nothing.
func TestBadMessageHarmsNobodyElse(t *testing.T) {
	t.Parallel()
	for name, bad := range map[string]rehop.Message{
		"CC is no list":          {Headers: map[string]any{"CC": "q"}},
		"CC is of numbers":       {Headers: map[string]any{"CC": []any{"q", 1}}},
		"CC is nil":              {Headers: map[string]any{"CC": nil}},
		"expires too late":       {Expiration: 2_000_000 * time.Hour},
		"BCC is no list":         {Headers: map[string]any{"BCC": 7}},
		"direct reply-to":        {ReplyTo: "amq.rabbitmq.reply-to"},
		"delayed, CC is no list": {Headers: map[string]any{"CC": "q"}, Delay: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const publishers, each = 8, 50
			r, ch, _, c := wired(t, rehop.Config{})
			bad.Key = "q"
			ctx := kit.Context(t)
			var all sync.WaitGroup
			for range publishers {
				all.Go(func() {
					for range each {
						wantError(t, "bad message", c.Publish(ctx, bad), rehop.ErrInvalid)
					}
				})
			}
			for range publishers {
				all.Go(func() {
					for range each {
						if err := c.Publish(ctx, rehop.Message{Key: "q"}); err != nil {
							t.Errorf("innocent message: got %v, want nil", err)
						}
					}
				})
			}
			all.Wait()
			depth(t, r, ch, "q", publishers*each) // once each: none had to be sent again
		})
	}
}

// Each outcome is one of the promised errors, and only one.
func TestOutcomesAreDistinct(t *testing.T) {
	t.Parallel()
	r, ch, w, c := wired(t, rehop.Config{MaxUnconfirmed: 1, MaxBody: 10})
	kit.Queue(t, ch, "full", amqp.Table{"x-max-length": int32(0), "x-overflow": "reject-publish"})
	publish := func(m rehop.Message) error { return c.Publish(kit.Context(t), m) }
	wantError(t, "missing queue", publish(rehop.Message{Key: "missing"}), rehop.ErrUnroutable)
	wantError(t, "missing exchange", publish(rehop.Message{Exchange: "missing"}), rehop.ErrUnroutable)
	wantError(t, "full queue", publish(rehop.Message{Key: "full"}), rehop.ErrRefused)
	wantError(t, "large body", publish(rehop.Message{Key: "q", Body: make([]byte, 11)}), rehop.ErrTooLarge)
	wantError(t, "negative expiration", publish(rehop.Message{Key: "q", Expiration: -1}), rehop.ErrInvalid)

	kit.Publish(t, c, rehop.Message{Key: "q"})
	tap := w.Newest(t, "publish")
	tap.Hold()
	ctx, cancel := context.WithCancel(kit.Context(t))
	result := make(chan error, 1)
	go func() { result <- c.Publish(ctx, rehop.Message{Key: "q"}) }()
	lab.Eventually(t, kit.Limit, "message on the broker", func() bool { return r.Depth(ch, "q") == 2 })
	cancel()
	wantError(t, "no confirm", kit.Receive(t, result, "outcome"), rehop.ErrUnknown)
	wantError(t, "full window", c.Publish(kit.Timeout(t, 100*time.Millisecond), rehop.Message{Key: "q"}), rehop.ErrBlocked)
	w.Lead(nowhere(t))
	_ = tap.Close()
	lab.Eventually(t, kit.Limit, "loss noticed", func() bool { return c.State() == rehop.StateRecovering })
	for name, delay := range map[string]time.Duration{"broker away": 0, "broker away, delayed": time.Second} {
		err := c.Publish(kit.Timeout(t, 100*time.Millisecond), rehop.Message{Key: "q", Delay: delay})
		wantError(t, name, err, rehop.ErrDisconnected)
	}
	if err := c.Close(kit.Context(t)); err != nil {
		t.Errorf("close: got %v, want nil", err)
	}
	wantError(t, "closed", publish(rehop.Message{Key: "q"}), rehop.ErrClosed)
}

// A message that may be stored stays unknown, whatever becomes of sending it again: the errors that
// report "not sent" and "stored nowhere" would not be true.
func TestUnknownStaysUnknown(t *testing.T) {
	t.Parallel()
	type world struct {
		ch     *amqp.Channel
		w      *kit.Wire
		c      *rehop.Client
		cancel context.CancelFunc
	}
	for name, goOn := range map[string]func(t *testing.T, x world){
		"broker stays away": func(_ *testing.T, x world) { x.cancel() },
		"client is closed": func(t *testing.T, x world) {
			if err := x.c.Close(kit.Context(t)); err != nil {
				t.Errorf("close: got %v, want nil", err)
			}
		},
		"queue is gone": func(t *testing.T, x world) {
			kit.DeleteQueue(t, x.ch, "q")
			x.w.Lead("")
		},
	} {
		for _, batch := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, batch=%v", name, batch), func(t *testing.T) {
				t.Parallel()
				r, ch, w, c := wired(t, rehop.Config{})
				kit.Publish(t, c, rehop.Message{Key: "q"})
				tap := w.Newest(t, "publish")
				tap.Hold()
				ctx, cancel := context.WithCancel(kit.Context(t))
				defer cancel()
				result := make(chan error, 1)
				go func() {
					if batch {
						result <- c.PublishBatch(ctx, []rehop.Message{{Key: "q"}})
						return
					}
					result <- c.Publish(ctx, rehop.Message{Key: "q"})
				}()
				lab.Eventually(t, kit.Limit, "message on the broker", func() bool { return r.Depth(ch, "q") == 2 })
				w.Lead(nowhere(t))
				before := w.Dials()
				_ = tap.Close()
				lab.Eventually(t, kit.Limit, "tries to connect", func() bool { return w.Dials() >= before+2 })
				goOn(t, world{ch, w, c, cancel})
				wantError(t, name, kit.Receive(t, result, "outcome"), rehop.ErrUnknown)
			})
		}
	}
}

// nowhere is an address at which nobody listens.
func nowhere(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(l.Addr().(*net.TCPAddr).Port))
}
