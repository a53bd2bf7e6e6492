package admin_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/layout"
	"github.com/rehop/rehop/rehoptest"
	"github.com/rehop/rehop/topology"
)

// Messages of another application have no time of failure, or have it in their own form. What is not known to be old is never chosen
// as old: failed drop would lose it.
func TestAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := rehoptest.Open(t).Config()
		a, err := admin.Open(t.Context(), admin.Config{URL: config.URL, Dial: config.Dial, Layout: layout.PubSub{}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(a.Close)
		if _, err := a.Apply(t.Context(), topology.Plan{Queues: layouts.Must(layout.PubSub{}).RetryTopology(layouts.QueueSpec{Name: "q"}).Queues}, admin.ApplyOptions{}); err != nil {
			t.Fatal(err)
		}
		now := time.Now()
		old, young := now.Add(-1000*time.Hour), now.Add(-time.Minute)
		died := func(times ...time.Time) amqp091.Table {
			var deaths []any
			for _, at := range times {
				deaths = append(deaths, amqp091.Table{"queue": "q@retry", "reason": "expired", "count": int64(1), "time": at})
			}
			return amqp091.Table{"x-death": deaths}
		}
		ch := channelOf(t, config)
		for id, m := range map[string]amqp091.Publishing{
			"unknown":             {},
			"published old":       {Timestamp: old},
			"published young":     {Timestamp: young},
			"died old":            {Headers: died(old)},
			"died young":          {Headers: died(young), Timestamp: old},
			"died young and old":  {Headers: died(old, young), Timestamp: old},
			"failed old":          {Headers: amqp091.Table{"rehop-queue": "q", "rehop-rests": true, "rehop-failed-at": old.UnixMilli()}, Timestamp: young},
			"failed young of old": {Headers: amqp091.Table{"rehop-queue": "q", "rehop-rests": true, "rehop-failed-at": young.UnixMilli()}, Timestamp: old},
		} {
			m.MessageId = id
			if err := ch.PublishWithContext(t.Context(), "", "q@failed", false, false, m); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		aged := []string{"published old", "died old", "failed old"}
		wantIDs(t, a, admin.Filter{Before: now.Add(-720 * time.Hour)}, aged...)
		wantIDs(t, a, admin.Filter{Since: now.Add(-720 * time.Hour)}, "published young", "died young", "died young and old", "failed young of old")

		// A command that drops counts first, and drops what it has counted, known or not.
		n, err := a.CountFailed(t.Context(), "q", admin.Filter{})
		if err != nil || n.Messages != 8 || n.Latest.Sub(young).Abs() > time.Second {
			t.Errorf("all: got %+v, %v, want 8, the last at %v", n, err, young)
		}
		since := amqp091.Publishing{MessageId: "since", Timestamp: now}
		if err := ch.PublishWithContext(t.Context(), "", "q@failed", false, false, since); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if p, err := a.Discard(t.Context(), "q", admin.Options{Filter: admin.Filter{Before: now.Add(-720 * time.Hour)}.UpTo(n)}); err != nil || p.Done != len(aged) {
			t.Errorf("drop what is old: got %+v, %v, want %d done", p, err, len(aged))
		}
		if p, err := a.Discard(t.Context(), "q", admin.Options{Filter: admin.Filter{}.UpTo(n)}); err != nil || p.Done != 5 {
			t.Errorf("drop the others: got %+v, %v, want 5 done", p, err)
		}
		wantIDs(t, a, admin.Filter{}, "since")
	})
}

func wantIDs(t *testing.T, a *admin.Admin, f admin.Filter, want ...string) {
	t.Helper()
	found, err := a.Failed(t.Context(), "q", 100, f)
	if err != nil {
		t.Fatal(err)
	}
	left := make(map[string]bool)
	for _, id := range want {
		left[id] = true
	}
	for _, m := range found {
		if !left[m.ID] {
			t.Errorf("got %q, want only %q", m.ID, want)
		}
		delete(left, m.ID)
	}
	for id := range left {
		t.Errorf("%q is not among those that were found", id)
	}
}

// channelOf is a channel of a program without rehop.
func channelOf(t *testing.T, config rehop.Config) *amqp091.Channel {
	t.Helper()
	uri, err := amqp091.ParseURI(config.URL)
	if err != nil {
		t.Fatal(err)
	}
	line, err := config.Dial(t.Context(), "tcp", uri.Host)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := amqp091.Open(line, amqp091.Config{SASL: []amqp091.Authentication{uri.PlainAuth()}, Vhost: uri.Vhost})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	return ch
}
