package rehop_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/rehoptest"
)

// openWith opens a further client with other settings, which the test closes.
func openWith(t *testing.T, b *rehoptest.Broker, change func(*rehop.Config)) *rehop.Client {
	t.Helper()
	config := b.Config()
	change(&config)
	client, err := rehop.Open(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// narrow allows few messages without a confirm, and fewer that wait.
func narrow(c *rehop.Config) { c.MaxUnconfirmed, c.MaxWaiting = 4, 2 }

func isDone(c *rehop.Confirmation) bool {
	select {
	case <-c.Done():
		return true
	default:
		return false
	}
}

func TestAsyncOutcomes(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		client := openWith(t, b, func(c *rehop.Config) { c.MaxBody = 10 })
		log := newLogbook(succeed)
		subscribe(t, client, rehop.Subscriber{Queue: "q", Handler: log})
		b.Refuse(func(_, key string) bool { return key == "full" })
		subscribe(t, client, rehop.Subscriber{Queue: "full", Handler: newLogbook(succeed)})
		for name, c := range map[string]struct {
			m    rehop.Message
			want error
		}{
			"confirmed":   {rehop.Message{Key: "q"}, nil},
			"delayed":     {rehop.Message{Key: "q", Delay: time.Minute}, nil},
			"no queue":    {rehop.Message{Key: "missing"}, rehop.ErrUnroutable},
			"no exchange": {rehop.Message{Exchange: "missing"}, rehop.ErrUnroutable},
			"refused":     {rehop.Message{Key: "full"}, rehop.ErrRefused},
			"too large":   {rehop.Message{Key: "q", Body: make([]byte, 11)}, rehop.ErrTooLarge},
			"invalid":     {rehop.Message{Key: "q", Headers: map[string]any{"rehop-x": 1}}, rehop.ErrInvalid},
		} {
			if err := client.PublishAsync(t.Context(), c.m).Wait(t.Context()); !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
				t.Errorf("%s: got %v, want %v", name, err, c.want)
			}
		}
		if err := client.Close(context.Background()); err != nil {
			t.Errorf("close: got %v, want nil", err)
		}
		if err := client.PublishAsync(t.Context(), rehop.Message{Key: "q"}).Wait(context.Background()); !errors.Is(err, rehop.ErrClosed) {
			t.Errorf("after close: got %v, want ErrClosed", err)
		}
	})
}

// What one goroutine publishes is sent in order, without waiting for confirms.
func TestAsyncKeepsOrder(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		log := newLogbook(succeed)
		subscribe(t, b.Client, rehop.Subscriber{Queue: "q", Handler: log})
		b.HoldConfirms()
		var all []*rehop.Confirmation
		for i := range 100 {
			all = append(all, b.Client.PublishAsync(t.Context(), rehop.Message{ID: strconv.Itoa(i), Key: "q"}))
		}
		b.AwaitEmpty("q")
		for i, r := range log.all() {
			if r.ID != strconv.Itoa(i) {
				t.Fatalf("handled at %d: got message %s, want %d", i, r.ID, i)
			}
		}
		if isDone(all[0]) {
			t.Error("there is an outcome without a confirm")
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if err := all[0].Wait(ended); !errors.Is(err, rehop.ErrUnknown) || !errors.Is(err, context.Canceled) {
			t.Errorf("wait within an ended context: got %v, want ErrUnknown", err)
		}
		b.ReleaseConfirms()
		for i, c := range all {
			if err := c.Wait(context.Background()); err != nil {
				t.Errorf("message %d: got %v, want nil", i, err)
			}
		}
		if err := all[0].Wait(ended); err != nil {
			t.Errorf("wait for a known outcome within an ended context: got %v, want nil", err)
		}
	})
}

// The context bounds the call, and not what comes after it.
func TestAsyncOutlivesItsContext(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		subscribe(t, b.Client, rehop.Subscriber{Queue: "q", Handler: newLogbook(succeed)})
		b.HoldConfirms()
		ctx, cancel := context.WithCancel(t.Context())
		c := b.Client.PublishAsync(ctx, rehop.Message{Key: "q"})
		cancel()
		time.Sleep(time.Second)
		if isDone(c) {
			t.Errorf("the end of the context: got %v, want no outcome yet", c.Err())
		}
		b.ReleaseConfirms()
		if err := c.Wait(context.Background()); err != nil {
			t.Errorf("got %v, want nil", err)
		}
	})
}

// However the broker fails, no more messages are held than the window has places: further calls block until
// their context ends, and when the broker is back everything has an outcome.
func TestAsyncIsBounded(t *testing.T) {
	const window = 4 // as in narrow
	for name, c := range map[string]struct {
		fail, repair func(*rehoptest.Broker)
		sent         int // how many calls return before the broker is back
		want         error
	}{
		"no confirms":                    {(*rehoptest.Broker).HoldConfirms, (*rehoptest.Broker).ReleaseConfirms, window, rehop.ErrBlocked},
		"blocked":                        {(*rehoptest.Broker).Block, (*rehoptest.Broker).Unblock, 0, rehop.ErrBlocked},
		"down":                           {(*rehoptest.Broker).Down, (*rehoptest.Broker).Up, 0, rehop.ErrDisconnected},
		"down with unconfirmed messages": {nil, func(b *rehoptest.Broker) { b.ReleaseConfirms(); b.Up() }, window, rehop.ErrDisconnected},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
				client := openWith(t, b, narrow)
				log := newLogbook(succeed)
				subscribe(t, client, rehop.Subscriber{Queue: "q", Handler: log})
				publish(t, client, rehop.Message{Key: "q"})
				if c.fail != nil {
					c.fail(b)
				} else {
					b.HoldConfirms()
				}
				synctest.Wait()
				returned := make(chan *rehop.Confirmation, 20)
				call := func(ctx context.Context) { returned <- client.PublishAsync(ctx, rehop.Message{Key: "q"}) }
				for range 10 {
					go call(t.Context())
				}
				time.Sleep(time.Second)
				if c.fail == nil {
					b.Down()
					time.Sleep(10 * time.Second)
				}
				if got := len(returned); got != c.sent {
					t.Errorf("calls that have returned: got %d, want %d", got, c.sent)
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if err := client.PublishAsync(ctx, rehop.Message{Key: "q"}).Wait(context.Background()); !errors.Is(err, c.want) || !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("one more within a second: got %v, want %v", err, c.want)
				}
				c.repair(b)
				for i := range 10 {
					if err := (<-returned).Wait(context.Background()); err != nil {
						t.Errorf("message %d: got %v, want nil when the broker is back", i, err)
					}
				}
				if err := client.Close(context.Background()); err != nil {
					t.Errorf("close: got %v, want nil", err)
				}
			})
		})
	}
}

func TestAsyncWithoutResend(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		client := openWith(t, b, func(c *rehop.Config) { c.DisableResend = true })
		subscribe(t, client, rehop.Subscriber{Queue: "q", Handler: newLogbook(succeed)})
		b.HoldConfirms()
		c := client.PublishAsync(t.Context(), rehop.Message{Key: "q"})
		b.Drop()
		if err := c.Wait(context.Background()); !errors.Is(err, rehop.ErrUnknown) {
			t.Errorf("got %v, want ErrUnknown", err)
		}
		b.ReleaseConfirms()
		if err := client.Close(context.Background()); err != nil {
			t.Errorf("close: got %v, want nil", err)
		}
	})
}

// Close waits for outcomes, and leaves none open.
func TestAsyncAtClose(t *testing.T) {
	for name, c := range map[string]struct {
		confirmed         bool
		underway, waiting error
	}{
		"the confirms come": {true, nil, rehop.ErrClosed},
		"no confirm comes":  {false, rehop.ErrUnknown, rehop.ErrClosed},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
				client := openWith(t, b, narrow)
				subscribe(t, client, rehop.Subscriber{Queue: "q", Handler: newLogbook(succeed)})
				b.HoldConfirms()
				var underway []*rehop.Confirmation
				for range 4 {
					underway = append(underway, client.PublishAsync(t.Context(), rehop.Message{Key: "q"}))
				}
				waiting := make(chan error, 1)
				go func() {
					waiting <- client.PublishAsync(context.Background(), rehop.Message{Key: "q"}).Wait(context.Background())
				}()
				synctest.Wait()
				if c.confirmed {
					time.AfterFunc(10*time.Second, b.ReleaseConfirms)
				}
				if err := client.Close(context.Background()); !errors.Is(err, c.underway) || (err == nil) != c.confirmed {
					t.Errorf("close: got %v, want %v", err, c.underway)
				}
				for i, u := range underway {
					if !isDone(u) {
						t.Fatalf("message %d has no outcome when Close has returned", i)
					}
					if err := u.Wait(context.Background()); !errors.Is(err, c.underway) || (err == nil) != c.confirmed {
						t.Errorf("message %d: got %v, want %v", i, err, c.underway)
					}
				}
				if err := <-waiting; !errors.Is(err, c.waiting) {
					t.Errorf("one that was not sent: got %v, want %v", err, c.waiting)
				}
				b.ReleaseConfirms()
			})
		})
	}
}

func TestAsyncHooks(t *testing.T) {
	type mark struct{}
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		outcomes := make(chan string, 2)
		var client *rehop.Client
		client = openWith(t, b, func(c *rehop.Config) {
			c.Hooks = append(c.Hooks, rehop.Hooks{
				OnPublishStart: func(ctx context.Context, m *rehop.Message) context.Context {
					m.Headers = map[string]any{"trace": "t"}
					return context.WithValue(ctx, mark{}, m.Key)
				},
				OnPublishEnd: func(ctx context.Context, m *rehop.Message, _ time.Duration, err error) {
					if closed := client.Close(context.Background()); closed == nil {
						t.Error("close from a hook: got nil, want an error")
					}
					outcomes <- fmt.Sprint(ctx.Value(mark{}), " ", m.ID, " ", errors.Is(err, rehop.ErrUnroutable))
				},
			})
		})
		log := newLogbook(succeed)
		subscribe(t, client, rehop.Subscriber{Queue: "q", Handler: log})
		for _, m := range []rehop.Message{{ID: "1", Key: "q"}, {ID: "2", Key: "missing"}} {
			c := client.PublishAsync(t.Context(), m)
			if got, want := <-outcomes, fmt.Sprintf("%s %s %t", m.Key, m.ID, m.Key == "missing"); got != want {
				t.Errorf("hook: got %q, want %q", got, want)
			}
			<-c.Done()
		}
		b.AwaitEmpty("q")
		if got := log.all()[0].Headers["trace"]; got != "t" {
			t.Errorf("header of the hook: got %v, want t", got)
		}
		if err := client.Close(context.Background()); err != nil {
			t.Errorf("close: got %v, want nil", err)
		}
	})
}

// A hook that ends its goroutine leaves no outcome open and no place taken.
func TestAsyncHookThatEndsItsGoroutine(t *testing.T) {
	for name, c := range map[string]struct {
		hook rehop.Hooks
		m    rehop.Message // what is published: it finds a queue, or is refused before it is sent
	}{
		"Goexit at the start":                 {rehop.Hooks{OnPublishStart: func(context.Context, *rehop.Message) context.Context { runtime.Goexit(); return nil }}, rehop.Message{Key: "q"}},
		"panic at the start":                  {rehop.Hooks{OnPublishStart: func(context.Context, *rehop.Message) context.Context { panic("hook") }}, rehop.Message{Key: "q"}},
		"Goexit at the end":                   {rehop.Hooks{OnPublishEnd: func(context.Context, *rehop.Message, time.Duration, error) { runtime.Goexit() }}, rehop.Message{Key: "q"}},
		"Goexit at the end of an invalid one": {rehop.Hooks{OnPublishEnd: func(context.Context, *rehop.Message, time.Duration, error) { runtime.Goexit() }}, rehop.Message{Key: "q", Expiration: -1}},
		"panic at the end of an invalid one":  {rehop.Hooks{OnPublishEnd: func(context.Context, *rehop.Message, time.Duration, error) { panic("hook") }}, rehop.Message{Key: "q", Expiration: -1}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
				client := openWith(t, b, func(c2 *rehop.Config) {
					narrow(c2)
					c2.Hooks = append(c2.Hooks, c.hook)
				})
				subscribe(t, client, rehop.Subscriber{Queue: "q", Handler: newLogbook(succeed)})
				for range 10 { // more than there are places
					ended := make(chan struct{})
					go func() {
						defer close(ended)
						defer func() { _ = recover() }()
						<-client.PublishAsync(t.Context(), c.m).Done()
					}()
					<-ended
				}
				if err := client.Close(context.Background()); err != nil {
					t.Errorf("close: got %v, want nil", err)
				}
			})
		})
	}
}
