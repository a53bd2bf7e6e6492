package rehop_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/rehoptest"
)

// replies subscribes a handler that replies to everything in q.
func replies(t *testing.T, c *rehop.Client, body string) {
	t.Helper()
	subscribe(t, c, rehop.Subscriber{Queue: "q", Handler: rehop.HandlerFunc(func(ctx context.Context, d *rehop.Delivery) error {
		return c.Reply(ctx, rehop.Message{Body: []byte(body)})
	})})
}

// within10s is a context for requests that are answered.
func within10s(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func TestRequestsThatCannotBeSent(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		client := openWith(t, b, func(c *rehop.Config) { c.MaxBody = 10 })
		replies(t, client, "reply")
		for name, c := range map[string]struct {
			ctx  context.Context
			m    rehop.Message
			want error
			text string
		}{
			"no deadline": {t.Context(), rehop.Message{Key: "q"}, rehop.ErrInvalid, "deadline"},
			"reply-to":    {within10s(t), rehop.Message{Key: "q", ReplyTo: "mine"}, rehop.ErrInvalid, `"mine"`},
			"delay":       {within10s(t), rehop.Message{Key: "q", Delay: time.Second}, rehop.ErrInvalid, "delayed"},
			"at a time":   {within10s(t), rehop.Message{Key: "q", At: time.Now()}, rehop.ErrInvalid, "delayed"},
			"too large":   {within10s(t), rehop.Message{Key: "q", Body: make([]byte, 11)}, rehop.ErrTooLarge, "the maximum of the client is 10"},
			"bad header":  {within10s(t), rehop.Message{Key: "q", Headers: map[string]any{"rehop-x": 1}}, rehop.ErrInvalid, "rehop-x"},
		} {
			if _, err := client.Request(c.ctx, c.m); !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
				t.Errorf("%s: got %v, want %v that has %q", name, err, c.want, c.text)
			}
		}
		if err := client.Close(context.Background()); err != nil {
			t.Errorf("close: got %v, want nil", err)
		}
		if _, err := client.Request(within10s(t), rehop.Message{Key: "q"}); !errors.Is(err, rehop.ErrClosed) {
			t.Errorf("after close: got %v, want ErrClosed", err)
		}
	})
}

func TestRepliesThatCannotBeSent(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		if err := b.Client.Reply(t.Context(), rehop.Message{}); !errors.Is(err, rehop.ErrInvalid) {
			t.Errorf("outside of a handler: got %v, want ErrInvalid", err)
		}
		for name, c := range map[string]struct {
			replyTo string
			reply   rehop.Message
		}{
			"no reply-to": {"", rehop.Message{}},
			"exchange":    {"x", rehop.Message{Exchange: "x"}},
			"key":         {"x", rehop.Message{Key: "x"}},
			"delay":       {"x", rehop.Message{Delay: time.Second}},
			"at a time":   {"x", rehop.Message{At: time.Now().Add(time.Second)}},
		} {
			errs := make(chan error, 1)
			sub := subscribe(t, b.Client, rehop.Subscriber{Queue: "q", Handler: rehop.HandlerFunc(func(ctx context.Context, d *rehop.Delivery) error {
				errs <- b.Client.Reply(ctx, c.reply)
				return nil
			})})
			publish(t, b.Client, rehop.Message{Key: "q", ReplyTo: c.replyTo})
			if err := <-errs; !errors.Is(err, rehop.ErrInvalid) {
				t.Errorf("%s: got %v, want ErrInvalid", name, err)
			}
			sub.Stop()
		}
	})
}

// A request waits for the broker, within its deadline, and was not sent if that was in vain.
func TestRequestWaitsForBroker(t *testing.T) {
	for name, c := range map[string]struct {
		fail, repair func(*rehoptest.Broker)
		want         error
	}{
		"blocked": {(*rehoptest.Broker).Block, (*rehoptest.Broker).Unblock, rehop.ErrBlocked},
		"down":    {(*rehoptest.Broker).Down, (*rehoptest.Broker).Up, rehop.ErrDisconnected},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
				replies(t, b.Client, "reply")
				if _, err := b.Client.Request(within10s(t), rehop.Message{Key: "q"}); err != nil {
					t.Fatal(err)
				}
				c.fail(b)
				synctest.Wait()
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if _, err := b.Client.Request(ctx, rehop.Message{Key: "q"}); !errors.Is(err, c.want) || errors.Is(err, rehop.ErrUnknown) {
					t.Errorf("got %v, want %v", err, c.want)
				}
				time.AfterFunc(5*time.Second, func() { c.repair(b) })
				ctx, cancel = context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				if got, err := b.Client.Request(ctx, rehop.Message{Key: "q"}); err != nil || string(got.Body) != "reply" {
					t.Errorf("one that can wait: got %q and %v, want the reply", got.Body, err)
				}
			})
		})
	}
}

// A reply shows that the request has arrived, whether or not its confirm has come.
func TestReplyBeforeConfirm(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		replies(t, b.Client, "reply")
		b.HoldConfirmsOf(func(_, key string) bool { return key == "q" })
		if got, err := b.Client.Request(within10s(t), rehop.Message{Key: "q"}); err != nil || string(got.Body) != "reply" {
			t.Errorf("got %q and %v, want the reply", got.Body, err)
		}
		b.HoldConfirmsOf(nil)
	})
}

// Close does not wait forever for a reply, and the request ends with it.
func TestRequestAtClose(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		client := openWith(t, b, func(*rehop.Config) {})
		subscribe(t, b.Client, rehop.Subscriber{Queue: "q", Handler: newLogbook(succeed)})
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		errs := make(chan error, 1)
		go func() {
			_, err := client.Request(ctx, rehop.Message{Key: "q"})
			errs <- err
		}()
		synctest.Wait()
		clock := startClock()
		if err := client.Close(context.Background()); !errors.Is(err, rehop.ErrUnknown) || !strings.Contains(err.Error(), "requests without a reply: 1;") {
			t.Errorf("close: got %v, want ErrUnknown about one request", err)
		}
		within(t, "close", clock.now(), 30*time.Second, 40*time.Second)
		if err := <-errs; !errors.Is(err, rehop.ErrUnknown) {
			t.Errorf("request: got %v, want ErrUnknown", err)
		}
	})
}

// Hooks see requests as what is published: confirmed, also if no reply comes.
func TestRequestHooks(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		outcomes := make(chan string, 1)
		var client *rehop.Client
		client = openWith(t, b, func(c *rehop.Config) {
			c.Hooks = append(c.Hooks, rehop.Hooks{
				OnPublishStart: func(ctx context.Context, m *rehop.Message) context.Context {
					m.Headers = map[string]any{"trace": m.CorrelationID}
					return ctx
				},
				OnPublishEnd: func(_ context.Context, m *rehop.Message, _ time.Duration, err error) {
					if closed := client.Close(context.Background()); closed == nil {
						t.Error("close from a hook: got nil, want an error")
					}
					outcomes <- fmt.Sprint(m.CorrelationID, " ", err == nil, " ", errors.Is(err, rehop.ErrUnroutable))
				},
			})
		})
		log := newLogbook(succeed)
		subscribe(t, b.Client, rehop.Subscriber{Queue: "q", Handler: log})
		for _, c := range []struct {
			key, hook string
			want      error
		}{{"q", "mine true false", rehop.ErrUnknown}, {"missing", "mine false true", rehop.ErrUnroutable}} {
			if _, err := client.Request(within10s(t), rehop.Message{Key: c.key, CorrelationID: "mine"}); !errors.Is(err, c.want) {
				t.Errorf("request to %s: got %v, want %v", c.key, err, c.want)
			}
			if got := <-outcomes; got != c.hook {
				t.Errorf("hook of a request to %s: got %q, want %q", c.key, got, c.hook)
			}
		}
		if got := log.all()[0].Headers["trace"]; got != "mine" {
			t.Errorf("header of the hook: got %v, want mine", got)
		}
		if err := client.Close(context.Background()); err != nil {
			t.Errorf("close: got %v, want nil", err)
		}
	})
}

// A hook that ends the goroutine of a request leaves nothing that Close would wait for.
func TestRequestHookThatEndsItsGoroutine(t *testing.T) {
	for name, hook := range map[string]rehop.Hooks{
		"Goexit": {OnPublishEnd: func(context.Context, *rehop.Message, time.Duration, error) { runtime.Goexit() }},
		"panic":  {OnPublishEnd: func(context.Context, *rehop.Message, time.Duration, error) { panic("hook") }},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
				client := openWith(t, b, func(c *rehop.Config) { c.Hooks = append(c.Hooks, hook) })
				subscribe(t, b.Client, rehop.Subscriber{Queue: "q", Handler: newLogbook(succeed)})
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					defer func() { _ = recover() }()
					_, _ = client.Request(within10s(t), rehop.Message{Key: "q"})
				}()
				<-ended
				clock := startClock()
				if err := client.Close(context.Background()); err != nil {
					t.Errorf("close: got %v, want nil", err)
				}
				within(t, "close", clock.now(), 0, time.Second)
			})
		})
	}
}
