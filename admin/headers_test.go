package admin_test

import (
	"reflect"
	"testing"
	"testing/synctest"

	"github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop/admin"
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
		config := rehoptest.Open(t).Config()
		a, err := admin.Open(t.Context(), admin.Config{URL: config.URL, Dial: config.Dial, Layout: layout.DLX{}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(a.Close)
		whole, err := layout.Whole(layout.DLX{}, layout.Native{}, layout.QueueSpec{Name: "q", Exchange: "order"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := a.Apply(t.Context(), whole, admin.ApplyOptions{}); err != nil {
			t.Fatal(err)
		}
		ch := channelOf(t, config)
		marked := amqp091.Table{
			"tenant": "seven", "x-retries": int64(3), "x-tries-left": int64(0),
			"rascal": amqp091.Table{
				"originalExchange": "order", "redeliveries": int64(2), "error": amqp091.Table{"message": "boom"},
				"recovery": amqp091.Table{"q": amqp091.Table{"immediateNack": true, "xDeath": amqp091.Table{"count": int64(0), "time": amqp091.Table{"value": int64(0)}}}},
			},
		}
		if err := ch.PublishWithContext(t.Context(), "", "q", false, false, amqp091.Publishing{MessageId: "1", Headers: marked}); err != nil {
			t.Fatal(err)
		}
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
