package rehop_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/layout"
	"github.com/rehop/rehop/rehoptest"
)

func withReports() rehoptest.Option {
	return rehoptest.WithConfig(func(c *rehop.Config) { c.Reports = true })
}

// collect returns the reports from now on.
func collect(t *testing.T, b *rehoptest.Broker) <-chan amqp.Delivery {
	t.Helper()
	ch := channel(t, b)
	q, err := ch.QueueDeclare("collected", true, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := ch.QueueBind(q.Name, "", "rehop.reports", false, nil); err != nil {
		t.Fatal(err)
	}
	reports, err := ch.Consume(q.Name, "", true, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	return reports
}

// TestReports: a copy of each failed message, and the outcome of each replayed one, arrive where they are collected, for each
// way in which messages are handled.
func TestReports(t *testing.T) {
	for name, change := range map[string]func(*rehop.Subscriber){
		"Plain":    func(*rehop.Subscriber) {},
		"Ordered":  func(s *rehop.Subscriber) { s.OrderBy = func(d *rehop.Delivery) string { return d.ID } },
		"Sneakers": func(s *rehop.Subscriber) { s.Layout = layout.Sneakers{} },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *rehoptest.Broker) { reports(t, b, change) }, withReports())
		})
	}
}

func reports(t *testing.T, b *rehoptest.Broker, change func(*rehop.Subscriber)) {
	collected := collect(t, b)
	fixed := false
	s := rehop.Subscriber{Queue: "q", Retry: rehop.Steps(time.Second), Handler: rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
		switch {
		case d.ID == "stays" || !fixed:
			return fmt.Errorf("refused %s", d.ID)
		case d.ID == "dropped":
			return rehop.Discard(errors.New("not wanted"))
		}
		return nil
	})}
	change(&s)
	subscribe(t, b.Client, s)
	ids := []string{"works", "stays", "dropped"}
	for _, id := range ids {
		if err := b.Client.Publish(t.Context(), rehop.Message{Key: "q", ID: id, Body: []byte("body of " + id), Headers: map[string]any{"tenant": "t"}}); err != nil {
			t.Fatal(err)
		}
	}
	copies := make(map[string]int)
	for range ids {
		d := <-collected
		copies[d.MessageId]++
		if d.Headers["rehop-report"] != "failed" || d.Headers["rehop-queue"] != "q" || d.Headers["rehop-error"] != "refused "+d.MessageId || d.Headers["tenant"] != "t" ||
			s.Layout == nil && string(d.Body) != "body of "+d.MessageId {
			t.Errorf("got %v with body %q, want a copy of the failed message", d.Headers, d.Body)
		}
	}
	if want := map[string]int{"works": 1, "stays": 1, "dropped": 1}; !maps.Equal(copies, want) {
		t.Errorf("copies: got %v, want %v", copies, want)
	}

	synctest.Wait()
	fixed = true
	a, err := admin.Open(t.Context(), admin.Config{Dial: b.Config().Dial, Layout: s.Layout})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if _, err := a.Replay(t.Context(), "q", admin.Options{}); err != nil {
		t.Fatal(err)
	}
	outcomes, again := make(map[string]string), 0
	for len(outcomes) < len(ids) || again == 0 {
		d := <-collected
		if d.Headers["rehop-report"] == "failed" {
			again++
			continue
		}
		if d.Headers["rehop-replay-run"] == nil || d.Headers["rehop-queue"] != "q" {
			t.Errorf("outcome: got %v, want the replay and the queue", d.Headers)
		}
		outcomes[d.Headers["rehop-outcome-of"].(string)] = d.Headers["rehop-outcome"].(string)
	}
	if want := map[string]string{"works": "done", "stays": "failed", "dropped": "discarded"}; !maps.Equal(outcomes, want) {
		t.Errorf("outcomes: got %v, want %v", outcomes, want)
	}
}

// TestOutcomeAfterUnheardCopy: an outcome is reported although nobody has heard the copy of the failed message a moment ago.
func TestOutcomeAfterUnheardCopy(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		fixed := false
		subscribe(t, b.Client, rehop.Subscriber{Queue: "q", Retry: rehop.NoRetry(), Handler: rehop.HandlerFunc(func(context.Context, *rehop.Delivery) error {
			if !fixed {
				return errors.New("refused")
			}
			return nil
		})})
		if err := b.Client.Publish(t.Context(), rehop.Message{Key: "q", ID: "m"}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // it has failed, and the report was returned
		fixed = true
		collected := collect(t, b)
		a, err := admin.Open(t.Context(), admin.Config{Dial: b.Config().Dial})
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close()
		began := time.Now()
		if done, err := a.Replay(t.Context(), "q", admin.Options{Run: "r1"}); err != nil || done.Done != 1 {
			t.Fatalf("got %+v, %v, want one message replayed", done, err)
		}
		if d := <-collected; d.Headers["rehop-outcome"] != "done" || d.Headers["rehop-replay-run"] != "r1" {
			t.Errorf("got %v, want the outcome", d.Headers)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("the replay took %v, so copies were heard again: the test proves nothing", took)
		}
	}, withReports())
}

// TestReportsUnheard: messages fail and are replayed as ever if nobody collects reports, if their exchange is gone, and if the broker
// does not confirm them.
func TestReportsUnheard(t *testing.T) {
	for name, breaks := range map[string]func(t *testing.T, b *rehoptest.Broker){
		"NoQueue": func(*testing.T, *rehoptest.Broker) {},
		"NoExchange": func(t *testing.T, b *rehoptest.Broker) {
			if err := channel(t, b).ExchangeDelete("rehop.reports", false, false); err != nil {
				t.Fatal(err)
			}
		},
		"NoConfirm": func(t *testing.T, b *rehoptest.Broker) {
			collect(t, b)
			b.HoldConfirmsOf(func(exchange, _ string) bool { return exchange == "rehop.reports" })
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
				breaks(t, b)
				fixed := false
				handled := make(chan string, 100)
				subscribe(t, b.Client, rehop.Subscriber{Queue: "q", Retry: rehop.Steps(), Handler: rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
					if !fixed {
						return errors.New("refused")
					}
					handled <- d.ID
					return nil
				})})
				const n = 20
				for i := range n {
					if err := b.Client.Publish(t.Context(), rehop.Message{Key: "q", ID: fmt.Sprint(i)}); err != nil {
						t.Fatal(err)
					}
				}
				b.AwaitFailed("q", n)
				fixed = true
				a, err := admin.Open(t.Context(), admin.Config{Dial: b.Config().Dial})
				if err != nil {
					t.Fatal(err)
				}
				defer a.Close()
				if _, err := a.Replay(t.Context(), "q", admin.Options{}); err != nil {
					t.Fatal(err)
				}
				for range n {
					<-handled
				}
				b.AwaitEmpty("q")
				b.ReleaseConfirms()
			}, withReports())
		})
	}
}
