package admin_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/layout"
)

// Flows have another layout on the target: what was ready or waits is handled there, with its attempts counted on and not before it is due, and what has
// failed is in the failed queue of the old layout.
func TestMoveToAnotherLayout(t *testing.T) {
	t.Parallel()
	others := map[string]layout.Layout{"dlx": layout.DLX{}, "tiers": layout.Tiers{}, "pubsub": layout.PubSub{}, "sneakers": layout.Sneakers{}, "envelope": layout.Envelope{Name: "order"}}
	for name, other := range others {
		t.Run("native to "+name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { moveToAnotherLayout(t, layout.Native{}, other) })
		})
		if name == "dlx" {
			continue // has no retries of its own, so nothing waits there
		}
		t.Run(name+" to native", func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { moveToAnotherLayout(t, other, layout.Native{}) })
		})
	}
}

// bare opens a client that declares no exchanges, and closes it with the test at the latest.
func (w *ward) bare() *rehop.Client {
	w.t.Helper()
	c, err := rehop.Open(w.t.Context(), rehop.Config{URL: "amqp://guest:guest@embedded/", Dial: w.server.Dial, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

func moveToAnotherLayout(t *testing.T, before, after layout.Layout) {
	t.Helper()
	const each = 5
	from, to := newWard(t, nil), newWard(t, nil)
	subscriber := func(of layout.Layout, h rehop.Handler) rehop.Subscriber {
		return rehop.Subscriber{Queue: "orders", Exchange: "order", ExistingExchange: true, Keys: []string{"order.#"}, Layout: of, Handler: h}
	}
	if err := from.ch.ExchangeDeclare("order", "topic", true, false, false, false, nil); err != nil { // by another program
		t.Fatal(err)
	}
	client := from.bare()
	sub, err := client.Subscribe(t.Context(), subscriber(before, rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
		switch {
		case strings.HasPrefix(d.ID, "fails"):
			return rehop.Permanent(errors.New("broken"))
		case strings.HasPrefix(d.ID, "waits"):
			return errors.New("not now")
		}
		return nil
	})))
	if err != nil {
		t.Fatal(err)
	}
	publish := func(kind string) {
		t.Helper()
		for i := range each {
			if err := client.Publish(t.Context(), rehop.Message{Exchange: "order", Key: "order." + kind, ID: fmt.Sprint(kind, i), Headers: map[string]any{"kept": "yes"}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	publish("fails")
	publish("waits")
	synctest.Wait()
	if err := sub.Drain(context.Background()); err != nil {
		t.Fatal(err)
	}
	publish("now")
	closed(t, client)

	nobody := rehop.HandlerFunc(func(context.Context, *rehop.Delivery) error { return nil })
	plan, err := rehop.Topology(rehop.Config{}, subscriber(after, nobody))
	if err != nil {
		t.Fatal(err)
	}
	balance, err := from.admin.Move(t.Context(), to.admin, admin.MoveOptions{Plan: plan})
	if err != nil || balance.Sum().Moved != 3*each || balance.Left() != 0 {
		t.Fatalf("got %v and\n%s\nwant %d moved", err, balance, 3*each)
	}
	h := newHandled()
	there := to.bare()
	if _, err := there.Subscribe(t.Context(), subscriber(after, h.handler(func(*rehop.Delivery) error { return nil }))); err != nil {
		t.Fatal(err)
	}
	time.Sleep(2 * time.Hour)
	_, as := h.all()
	for kind, attempt := range map[string]int{"now": 1, "waits": 2} {
		for i := range each {
			want := fmt.Sprintf("order order.%s attempt %d, kept yes", kind, attempt)
			if got := as[fmt.Sprint(kind, i)]; got != want {
				t.Errorf("message %s%d: got %q, want %q", kind, i, got, want)
			}
		}
	}
	closed(t, there)

	// Failed messages are in the failed queue of the old layout.
	a, err := admin.Open(t.Context(), admin.Config{URL: "amqp://guest:guest@embedded/", Dial: to.server.Dial, Layout: before})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	failed, err := a.Failed(t.Context(), "orders", 100, admin.Filter{})
	if err != nil || len(failed) != each {
		t.Errorf("got %d failed messages, %v, want %d", len(failed), err, each)
	}
	if n, err := a.Replay(t.Context(), "orders", admin.Options{}); err != nil {
		t.Errorf("replay: got %v, %v", n, err)
	}
	if depth := to.depth("orders"); depth != each {
		t.Errorf("after a replay, queue orders has %d messages, want %d", depth, each)
	}
}
