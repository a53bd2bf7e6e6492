package admin_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/layout"
)

// Messages are not replayed to queues of rehop itself, where they would be deleted or sent elsewhere.
func TestCheckTarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWard(t, nil)
		client, err := rehop.Open(t.Context(), rehop.Config{URL: "amqp://guest:guest@embedded/", Dial: w.server.Dial})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = client.Close(context.Background()) })
		handler := rehop.HandlerFunc(func(context.Context, *rehop.Delivery) error { return nil })
		for _, s := range []rehop.Subscriber{
			{Queue: "orders", Handler: handler, Retry: rehop.Steps(10 * time.Second)}, {Queue: "mail", Handler: handler, Layout: layout.PubSub{}},
			{Queue: "ordered", Handler: handler, OrderBy: func(d *rehop.Delivery) string { return d.Key }},
		} {
			if _, err := client.Subscribe(t.Context(), s); err != nil {
				t.Fatal(err)
			}
		}
		for _, name := range []string{"plain", "plain.failures"} {
			if _, err := w.ch.QueueDeclare(name, true, false, false, false, amqp.Table{}); err != nil {
				t.Fatal(err)
			}
		}
		config := admin.Config{URL: "amqp://guest:guest@embedded/", Dial: w.server.Dial, Layouts: map[string]layout.Layout{"mail": layout.PubSub{}}, Layout: layout.Native{}}
		for _, management := range []bool{false, true} {
			if management {
				config.Management, config.HTTP = "http://guest:guest@embedded", &http.Client{Transport: w}
			}
			a, err := admin.Open(t.Context(), config)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(a.Close)
			for name, want := range map[string]error{
				"orders": nil, "mail": nil, "ordered": nil, "plain": nil, "plain.failures": nil, "nowhere": admin.ErrNoQueue, "rehop.triage": admin.ErrTarget, "rehop.step.10s": admin.ErrTarget,
				"orders.failed": admin.ErrTarget, "mail@failed": admin.ErrTarget, "ordered.failed": admin.ErrTarget, "ordered.held": admin.ErrTarget,
			} {
				if err := a.CheckTarget(t.Context(), name); !errors.Is(err, want) {
					t.Errorf("%s, management API %v: got %v, want %v", name, management, err, want)
				}
			}
			if err := a.CheckTarget(t.Context(), "mail@retry"); management && !errors.Is(err, admin.ErrTarget) {
				t.Errorf("got %v, want ErrTarget", err)
			}
			if _, err := a.Replay(t.Context(), "orders", admin.Options{To: "mail@failed"}); !errors.Is(err, admin.ErrTarget) {
				t.Errorf("a replay: got %v, want ErrTarget", err)
			}
			if _, err := a.ErrorQueue("plain").Replay(t.Context(), "rehop.triage", admin.Options{}); !errors.Is(err, admin.ErrTarget) {
				t.Errorf("a replay of an error queue: got %v, want ErrTarget", err)
			}
		}
	})
}
