package sweeps_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/broker"
	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/layout"
	"github.com/rehop/rehop/rehoptest"
)

// desk is a queue q on a broker of its own, with failed messages m0, m1, and so on, in virtual time.
func desk(t *testing.T, n int) (*rehoptest.Broker, *admin.Admin) {
	t.Helper()
	all := make([]rehop.Message, n)
	for i := range all {
		all[i] = rehop.Message{ID: fmt.Sprintf("m%d", i), Headers: map[string]any{"odd": fmt.Sprint(i%2 == 1)}}
	}
	return deskOf(t, all)
}

// deskOf is a desk with these failed messages.
func deskOf(t *testing.T, all []rehop.Message, options ...rehoptest.Option) (*rehoptest.Broker, *admin.Admin) {
	t.Helper()
	b := rehoptest.Open(t, options...)
	client := b.Client
	sub, err := client.Subscribe(t.Context(), rehop.Subscriber{Queue: "q", Concurrency: 1, Retry: rehop.NoRetry(), Handler: rehop.HandlerFunc(func(context.Context, *rehop.Delivery) error {
		return errors.New("no such customer")
	})})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range all {
		m.Key = "q"
		if err := client.Publish(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	b.AwaitFailed("q", len(all))
	if err := sub.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	config := b.Config()
	a, err := admin.Open(t.Context(), admin.Config{URL: config.URL, Dial: config.Dial, ConsumerTimeout: 30 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	return b, a
}

// channelOf is a channel with a connection of its own, which end closes: what it has got goes back then.
func channelOf(t *testing.T, b *rehoptest.Broker) (ch *amqp091.Channel, end func()) {
	t.Helper()
	config := b.Config()
	conn, err := amqp091.DialConfig(config.URL, amqp091.Config{Dial: func(network, addr string) (net.Conn, error) { return config.Dial(t.Context(), network, addr) }})
	if err != nil {
		t.Fatal(err)
	}
	if ch, err = conn.Channel(); err != nil {
		t.Fatal(err)
	}
	return ch, func() { _ = conn.Close() }
}

// read returns the first message of a queue.
func read(t *testing.T, b *rehoptest.Broker, queue string) amqp091.Delivery {
	t.Helper()
	ch, end := channelOf(t, b)
	defer end()
	d, ok, err := ch.Get(queue, false)
	if err != nil || !ok {
		t.Fatalf("look at queue %q: got %v and %v, want a message", queue, ok, err)
	}
	return d
}

// slowly takes a while for each line.
type slowly struct {
	bytes.Buffer
	pause time.Duration
}

func (s *slowly) Write(p []byte) (int, error) {
	time.Sleep(s.pause * time.Duration(bytes.Count(p, []byte("\n"))))
	return s.Buffer.Write(p)
}

// An export that takes longer than the broker's consumer timeout gives back in time what it holds, and writes every message once.
func TestSlowExport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 700
		b, a := desk(t, n)
		out := &slowly{pause: time.Second / 2 * 7}
		count, err := a.Export(t.Context(), "q", out, admin.Filter{})
		if err != nil || count != n || bytes.Count(out.Bytes(), []byte("\n")) != n {
			t.Fatalf("got %d messages, %d lines and %v, want %d of each", count, bytes.Count(out.Bytes(), []byte("\n")), err, n)
		}
		for i := range n {
			if bytes.Count(out.Bytes(), fmt.Appendf(nil, `"id":"m%d"`, i)) != 1 {
				t.Fatalf("message m%d was not written once", i)
			}
		}
		// It took more than 40 minutes, and a consumer may hold a message for 30. What the broker takes back counts as a failed delivery.
		first := read(t, b, "q.failed")
		if _, failed := first.Headers["x-delivery-count"]; first.MessageId != "m0" || failed || first.Headers["x-acquired-count"] == nil {
			t.Errorf("the first message is %s with the headers %v, want m0, which was given back before the broker took it back", first.MessageId, first.Headers)
		}
	})
}

// A replay that is so slow that the messages it keeps would be held for too long gives them back in time.
func TestSlowReplay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 40
		_, a := desk(t, n)
		var last admin.Progress
		p, err := a.Replay(t.Context(), "q", admin.Options{Rate: 1.0 / 3600, Filter: admin.Filter{Header: map[string]string{"odd": "true"}}, Progress: func(p admin.Progress) { last = p }})
		if want := (admin.Progress{Seen: n, Done: n / 2, Kept: n / 2, Total: n}); err != nil || p != want || last != p {
			t.Fatalf("got %+v and %v, want %+v", p, err, want)
		}
		left, err := a.Failed(t.Context(), "q", n, admin.Filter{})
		if err != nil || len(left) != n/2 {
			t.Fatalf("got %d messages and %v, want %d", len(left), err, n/2)
		}
		for i, m := range left {
			if m.ID != fmt.Sprintf("m%d", 2*i) {
				t.Errorf("at %d is %s, want m%d", i, m.ID, 2*i)
			}
		}
	})
}

// A replay whose connection is lost while it pauses ends: it has no right to the queue any more, and another one reads it alone.
func TestSlowReplayLosesConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 6
		b, a := desk(t, n)
		time.AfterFunc(30*time.Minute, func() { b.Drop() })
		p, err := a.Replay(t.Context(), "q", admin.Options{Rate: 1.0 / 3600})
		if !errors.Is(err, rehop.ErrDisconnected) || !strings.Contains(err.Error(), "run the command again") || p.Done == n {
			t.Errorf("got %+v and %v, want that the connection was lost", p, err)
		}
		if rest, err := a.Replay(t.Context(), "q", admin.Options{}); err != nil || rest.Done != n-p.Done {
			t.Errorf("run again: got %+v and %v, want %d done", rest, err, n-p.Done)
		}
		if queue := len(b.Messages("q")); queue != n {
			t.Errorf("got %d messages in the queue, want %d", queue, n)
		}
	})
}

// limitedQueue is a broker by the rules of a release, with a failed queue of another layout that has a delivery limit and messages of these sizes. The
// admin does not know the limit, unless a change has it ask the management API.
func limitedQueue(t *testing.T, release broker.Compat, limit int, sizes []int, change ...func(*admin.Config)) (b *rehoptest.Broker, a *admin.Admin, name string) {
	t.Helper()
	var server *broker.Server
	b = rehoptest.Open(t, rehoptest.WithServer(func(s *broker.Server) { s.Compat, server = release, s }))
	l, config := layout.PubSub{}, b.Config()
	ch, end := channelOf(t, b)
	defer end()
	name = layouts.Must(l).FailedQueue("q")
	if _, err := ch.QueueDeclare(name, true, false, false, false, amqp091.Table{"x-queue-type": "quorum", "x-delivery-limit": int32(limit)}); err != nil {
		t.Fatal(err)
	}
	for i, size := range sizes {
		if err := ch.Publish("", name, true, false, amqp091.Publishing{MessageId: fmt.Sprint(i), DeliveryMode: amqp091.Persistent, Body: make([]byte, size)}); err != nil {
			t.Fatal(err)
		}
	}
	synctest.Wait()
	asking := admin.Config{URL: config.URL, Dial: config.Dial, Layout: l, HTTP: managementOf(t, server)}
	for _, f := range change {
		f(&asking)
	}
	a, err := admin.Open(t.Context(), asking)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	return b, a, name
}

// small are the sizes of n messages.
func small(n int) []int { return slices.Repeat([]int{8 << 10}, n) }

// wantEachOnce checks that each of n messages is in a queue once.
func wantEachOnce(t *testing.T, b *rehoptest.Broker, name string, n int) {
	t.Helper()
	ids := make(map[string]int)
	for _, m := range b.Messages(name) {
		ids[m.ID]++
	}
	for i := range n {
		if ids[fmt.Sprint(i)] != 1 {
			t.Errorf("message %d: got it %d times, want once", i, ids[fmt.Sprint(i)])
		}
	}
}

// An export, or a replay of a few, that gives messages back before the broker's consumer timeout more often than their delivery limit allows loses
// none: neither of those that it has come to, nor of those that were only sent ahead.
func TestSlowLosesNothing(t *testing.T) {
	const n, limit = 300, 5
	for _, release := range []broker.Compat{broker.RabbitMQ310, broker.RabbitMQ40} {
		t.Run(release.String()+"/export", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, a, name := limitedQueue(t, release, limit, small(n))
				out := &slowly{pause: time.Minute}
				if count, err := a.Export(t.Context(), "q", out, admin.Filter{}); err != nil || count != n {
					t.Errorf("export: got %d messages and %v, want %d", count, err, n)
				}
				wantEachOnce(t, b, name, n)
			})
		})
		t.Run(release.String()+"/replay", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, a, name := limitedQueue(t, release, limit, small(n))
				_, err := a.Replay(t.Context(), "q", admin.Options{Rate: 1.0 / 3600, Limit: 2 * limit, Filter: admin.Filter{IDs: []string{"none"}}})
				if err != nil {
					t.Fatal(err)
				}
				wantEachOnce(t, b, name, n)
			})
		})
	}
}

// A queue that may drop what is returned to it is not looked at while messages cannot be published anew. So however often that is tried, nothing is
// lost.
func TestReadsInAlarm(t *testing.T) {
	const n, limit = 20, 2
	synctest.Test(t, func(t *testing.T) {
		b, a, name := limitedQueue(t, broker.RabbitMQ40, limit, small(n))
		b.Block()
		for range limit + 2 {
			if found, err := a.Failed(t.Context(), "q", n, admin.Filter{}); !errors.Is(err, admin.ErrNotRepublished) {
				t.Errorf("in an alarm: got %d messages and %v, want %v", len(found), err, admin.ErrNotRepublished)
			}
		}
		b.Unblock()
		if found, err := a.Failed(t.Context(), "q", n, admin.Filter{}); err != nil || len(found) != n {
			t.Errorf("after the alarm: got %d messages and %v, want %d", len(found), err, n)
		}
		wantEachOnce(t, b, name, n)
	})
}

// A sweep that ends early returns what the broker has sent ahead. Where that was returned often, and the broker does not accept copies of it any more,
// the error reports it: it may be dropped when it is read again.
func TestEndWithoutRenewal(t *testing.T) {
	const limit = 2
	for _, release := range []broker.Compat{broker.RabbitMQ310, broker.RabbitMQ40} {
		for _, n := range []int{
			20, // the others are so few that they are read to keep the order
			60, // they are not, and some were sent ahead
		} {
			t.Run(fmt.Sprintf("%v/messages=%d", release, n), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					sizes := small(n)
					b, a, name := limitedQueue(t, release, limit, sizes, func(c *admin.Config) { c.ReadAhead = 36 * sizes[0] }) // half of them are taken at first
					returnAll(t, b, name, n)
					full := errors.New("no space left")
					_, err := a.Export(t.Context(), "q", writer(func([]byte) (int, error) {
						b.Refuse(func(_, key string) bool { return key == name })
						return 0, full
					}), admin.Filter{})
					if !errors.Is(err, full) || !errors.Is(err, admin.ErrNotRepublished) || !strings.Contains(err.Error(), name) {
						t.Errorf("got %v, want %v, and that messages of queue %q could not be published anew", err, full, name)
					}
					wantEachOnce(t, b, name, n)
				})
			})
		}
	}
}

// writer is a function that is written to.
type writer func(p []byte) (int, error)

func (f writer) Write(p []byte) (int, error) { return f(p) }

// Messages that were given back often are published anew. If the broker has taken them back by then, they are removed when they come again, and
// there is no second copy of any.
func TestRenewedAndTakenBack(t *testing.T) {
	for _, release := range []broker.Compat{broker.RabbitMQ310, broker.RabbitMQ40} {
		t.Run(release.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const n = 5
				b, a, name := limitedQueue(t, release, 20, small(n))
				for range 11 {
					if found, err := a.Failed(t.Context(), "q", n, admin.Filter{}); err != nil || len(found) != n {
						t.Fatalf("got %d messages and %v, want %d", len(found), err, n)
					}
				}
				out := &slowly{pause: 10 * time.Minute} // longer than the broker's consumer timeout for all of them
				if count, err := a.Export(t.Context(), "q", out, admin.Filter{}); err != nil || count != n {
					t.Errorf("export: got %d messages and %v, want %d", count, err, n)
				}
				wantEachOnce(t, b, name, n)
			})
		})
	}
}
