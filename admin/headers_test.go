package admin_test

import (
	"reflect"
	"testing"
	"testing/synctest"

	"github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/layout"
	"github.com/rehop/rehop/rehoptest"
)

// bounces is what a subscription of rascal does first with a message (immediateNack in lib/amqp/Subscription.js of onebeyond/rascal at 22017c3):
// it rejects one that was marked, unless its death in the queue has been counted on since.
func bounces(d amqp091.Delivery, queue string) bool {
	count := func(v any) int64 {
		death, _ := v.(amqp091.Table)
		n, _ := death["count"].(int64)
		return n
	}
	record, _ := d.Headers["rascal"].(amqp091.Table)
	recovery, _ := record["recovery"].(amqp091.Table)
	own, _ := recovery[queue].(amqp091.Table)
	if _, marked := own["immediateNack"]; !marked {
		return false
	}
	var current int64
	deaths, _ := d.Headers["x-death"].([]any)
	for _, e := range deaths {
		if death, _ := e.(amqp091.Table); death["queue"] == queue && death["reason"] == "rejected" {
			current = count(death)
		}
	}
	return current <= count(own["xDeath"])
}

// A replay removes the headers by which other programs count failures, and those that its options name.
func TestReplayDropsHeaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, ch := deadLettering(t)
		marked := amqp091.Table{
			"tenant": "seven", "x-retries": int64(3), "x-tries-left": int64(0),
			"rascal": amqp091.Table{
				"originalExchange": "order", "redeliveries": int64(2), "error": amqp091.Table{"message": "boom"},
				"recovery": amqp091.Table{"q": amqp091.Table{"immediateNack": true, "xDeath": amqp091.Table{"count": int64(0), "time": amqp091.Table{"value": int64(0)}}}},
			},
		}
		publish(t, ch, marked)
		d := get(t, ch)
		if !bounces(d, "q") {
			t.Fatal("the marked message does not bounce, so this test shows nothing")
		}
		if err := d.Reject(false); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if p, err := a.Replay(t.Context(), "q", admin.Options{DropHeaders: []string{"x-retries", "x-tries*", "none"}}); err != nil || p.Done != 1 {
			t.Fatalf("got %+v, %v, want one message replayed", p, err)
		}
		d = get(t, ch)
		if bounces(d, "q") {
			t.Error("the replayed message is rejected at once, want it handled")
		}
		if got, want := d.Headers["rascal"], (amqp091.Table{"originalExchange": "order"}); !reflect.DeepEqual(got, want) {
			t.Errorf("rascal's header: got %v, want %v", got, want)
		}
		if d.Headers["tenant"] != "seven" || d.Headers["x-retries"] != nil || d.Headers["x-tries-left"] != nil {
			t.Errorf("headers: got %v, want the tenant and no counts", d.Headers)
		}
	})
}

// Celery counts its retries in a header, and sends them to the exchange from which a task came. So a task is replayed with none, by the default exchange.
func TestReplayOfTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, ch := deadLettering(t)
		publish(t, ch, amqp091.Table{"lang": "py", "task": "shop.handle", "id": "7", "retries": int64(3), "timelimit": []any{nil, nil}, "eta": nil})
		if err := get(t, ch).Reject(false); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if p, err := a.Replay(t.Context(), "q", admin.Options{}); err != nil || p.Done != 1 {
			t.Fatalf("got %+v, %v, want one message replayed", p, err)
		}
		d := get(t, ch)
		if d.Exchange != "" || d.RoutingKey != "q" {
			t.Errorf("where it came from: got exchange %q and key %q, want the default exchange and the queue's name", d.Exchange, d.RoutingKey)
		}
		eta, kept := d.Headers["eta"]
		if d.Headers["retries"] != int32(0) || !reflect.DeepEqual(d.Headers["timelimit"], []any{nil, nil}) || !kept || eta != nil {
			t.Errorf("headers: got %v, want no retries and all others unchanged", d.Headers)
		}
	})
}

// The headers that a library writes before it rejects a message show why and how often it failed, and where it came from.
func TestFailedByLibrary(t *testing.T) {
	rascal := func(own amqp091.Table) amqp091.Table {
		return amqp091.Table{"rascal": amqp091.Table{
			"originalExchange": "order", "originalRoutingKey": "order.created", "error": amqp091.Table{"message": "boom"}, "recovery": amqp091.Table{"q": own},
		}}
	}
	const rejected = "dead-lettered by the broker: rejected"
	for _, c := range []struct {
		name          string
		headers       amqp091.Table
		attempts      int
		kind          rehop.Kind
		reason        string
		exchange, key string
	}{
		{"rascal has republished it", rascal(amqp091.Table{"republished": int64(2)}), 3, "error", "boom", "order", "order.created"},
		{"rascal has forwarded it", rascal(amqp091.Table{"republished": int64(1), "forwarded": int64(2)}), 4, "error", "boom", "order", "order.created"},
		{"rascal has marked it", rascal(amqp091.Table{"immediateNack": true}), 0, "error", "boom", "order", "order.created"},
		{"rascal has recovered it in another queue", amqp091.Table{"rascal": amqp091.Table{
			"originalRoutingKey": "order.created", "error": amqp091.Table{"message": "boom"}, "recovery": amqp091.Table{"other": amqp091.Table{"republished": int64(2)}},
		}}, 0, "dead", rejected, "", "q"},
		{"a header that is not rascal's", amqp091.Table{"rascal": "of a play"}, 0, "dead", rejected, "", "q"},
		{"Celery has retried it", amqp091.Table{"lang": "py", "task": "shop.handle", "id": "7", "retries": int64(3)}, 4, "dead", rejected, "", "q"},
		{"not a task", amqp091.Table{"retries": int64(3)}, 0, "dead", rejected, "", "q"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, ch := deadLettering(t)
				publish(t, ch, c.headers)
				if err := get(t, ch).Reject(false); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				found, err := a.Failed(t.Context(), "q", 10, admin.Filter{})
				if err != nil || len(found) != 1 {
					t.Fatalf("got %v, %v, want one message", found, err)
				}
				m := found[0]
				if m.Attempts != c.attempts || m.Kind != c.kind || m.Error != c.reason {
					t.Errorf("got %d attempts, kind %q, error %q, want %d, %q, %q", m.Attempts, m.Kind, m.Error, c.attempts, c.kind, c.reason)
				}
				if m.Queue != "q" || m.Exchange != c.exchange || m.Key != c.key {
					t.Errorf("got queue %q, exchange %q, key %q, want %q, %q, %q", m.Queue, m.Exchange, m.Key, "q", c.exchange, c.key)
				}
			})
		})
	}
}

// deadLettering is a queue q in a broker of its own, of the dlx layout.
func deadLettering(t *testing.T) (*admin.Admin, *amqp091.Channel) {
	t.Helper()
	config := rehoptest.Open(t).Config()
	a, err := admin.Open(t.Context(), admin.Config{URL: config.URL, Dial: config.Dial, Layout: layout.DLX{}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	whole, err := layouts.SubscriptionPlan(layouts.Must(layout.DLX{}), layouts.Native{}, layouts.QueueSpec{Name: "q", Exchange: "order"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Apply(t.Context(), whole, admin.ApplyOptions{}); err != nil {
		t.Fatal(err)
	}
	return a, channelOf(t, config)
}

// publish publishes a message to the queue.
func publish(t *testing.T, ch *amqp091.Channel, headers amqp091.Table) {
	t.Helper()
	if err := ch.PublishWithContext(t.Context(), "", "q", false, false, amqp091.Publishing{MessageId: "1", Headers: headers}); err != nil {
		t.Fatal(err)
	}
}

// get is the next message of the queue.
func get(t *testing.T, ch *amqp091.Channel) amqp091.Delivery {
	t.Helper()
	synctest.Wait()
	d, ok, err := ch.Get("q", false)
	if !ok || err != nil {
		t.Fatalf("got %v, %v, want a message", ok, err)
	}
	return d
}
