package connections

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/broker"
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
)

// The broker closes both connections, and what was declared is gone: all of it comes back.
func TestBrokerClosesConnections(t *testing.T) {
	t.Parallel()
	r := lab.Single(t)
	e := &events{}
	c := kit.Open(t, rehop.Config{URL: r.URL, Hooks: e.hooks(), Exchanges: []rehop.Exchange{{Name: "declared", Type: "fanout"}}})
	got := make(chan *rehop.Delivery, 10)
	for _, q := range []string{"one", "two"} {
		kit.Subscribe(t, c, rehop.Subscriber{Queue: q, Exchange: "order", Keys: []string{q}, Handler: kit.Into(got)})
		settle(t, c, e, q, got)
	}
	for _, x := range []string{"order", "declared", "rehop.return"} {
		r.API("DELETE", "/api/exchanges/"+r.Vhost+"/"+x, nil, nil)
	}
	before := connections(t, r, 2)
	closeAll(r, before)
	e.await(t, "consuming again", func() bool { return e.ups("one") > 2 && e.ups("two") > 2 })
	for _, q := range []string{"one", "two"} {
		kit.Publish(t, c, rehop.Message{Exchange: "order", Key: q, Body: []byte(q)})
		if d := kit.Receive(t, got, "message"); string(d.Body) != q || d.Queue != q {
			t.Errorf("got %q from queue %q, want %q", d.Body, d.Queue, q)
		}
	}
	lab.Eventually(t, kit.Limit, "exchange of the config declared again", func() bool {
		return r.TryAPI("GET", "/api/exchanges/"+r.Vhost+"/declared", nil, nil) == nil
	})
	lab.Eventually(t, kit.Limit, "way back to a queue declared again", func() bool {
		return r.TryAPI("GET", "/api/exchanges/"+r.Vhost+"/rehop.return", nil, nil) == nil
	})
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, connection := range []string{"publish", "consume"} {
		if n := e.in(connection, rehop.StateRecovering); n < 1 || n > 3 {
			t.Errorf("%s: told %d times that it is recovering, want once or a little more", connection, n)
		}
		if n := e.in(connection, rehop.StateOpen); n != 2 {
			t.Errorf("%s: told %d times that it is open, want 2", connection, n)
		}
	}
}

func TestQueueDeletedUnderConsumer(t *testing.T) {
	t.Parallel()
	r := lab.Single(t)
	w, e := &kit.Wire{}, &events{}
	c := kit.Open(t, rehop.Config{URL: r.URL, Dial: w.Dial, Hooks: e.hooks()})
	got := make(chan *rehop.Delivery, 10)
	for _, q := range []string{"doomed", "other"} {
		kit.Subscribe(t, c, rehop.Subscriber{Queue: q, Exchange: "order", Keys: []string{q}, Handler: kit.Into(got)})
		settle(t, c, e, q, got)
	}
	for i := range 3 {
		downs := e.downsOf("doomed")
		r.API("DELETE", "/api/queues/"+r.Vhost+"/doomed", nil, nil)
		// A broker may still know the queue when it ends the consumer: then a declare succeeds, what follows it is
		// refused, and the subscription is interrupted more than once.
		e.await(t, "consuming again", func() bool { return e.downs("doomed") > downs && e.isUp("doomed") })
		kit.Publish(t, c, rehop.Message{Exchange: "order", Key: "doomed", Body: fmt.Append(nil, i)})
		if d := kit.Receive(t, got, "message"); d.Queue != "doomed" || string(d.Body) != fmt.Sprint(i) {
			t.Errorf("got %q from queue %q, want %d from doomed", d.Body, d.Queue, i)
		}
	}
	kit.Publish(t, c, rehop.Message{Exchange: "order", Key: "other"})
	kit.Receive(t, got, "message")
	wantUntouched(t, w, e, "other")
}

// The broker closes the channel of a consumer that does not ack for too long (406). Its message goes
// to somebody else, and other subscriptions live on.
// awaitTimeout waits until a consumer of a quorum queue of its own is cancelled because it does not ack.
func awaitTimeout(t *testing.T, ch *amqp.Channel, queue string) {
	t.Helper()
	kit.Queue(t, ch, queue, amqp.Table{"x-queue-type": "quorum"})
	cancelled := ch.NotifyCancel(make(chan string, 1))
	if _, err := ch.Consume(queue, "forgetful", false, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	if err := ch.PublishWithContext(t.Context(), "", queue, false, false, amqp.Publishing{}); err != nil {
		t.Fatal(err)
	}
	kit.Receive(t, cancelled, "the end of a consumer that does not ack")
}

func TestConsumerTimeout(t *testing.T) {
	t.Parallel()
	r := lab.Alone(t) // it changes the whole node
	// Longer than other messages are unacked on a busy machine.
	r.Services("ctl", "single", "eval", "application:set_env(rabbit, consumer_timeout, 10000), application:set_env(rabbit, channel_tick_interval, 500).")
	w, e := &kit.Wire{}, &events{}
	c := kit.Open(t, rehop.Config{URL: r.URL, Dial: w.Dial, Hooks: e.hooks()})
	runs := make(chan *rehop.Delivery, 10)
	first := make(chan struct{})
	var run atomic.Int32
	kit.Subscribe(t, c, rehop.Subscriber{Queue: "slow", Concurrency: 2, Handler: rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
		runs <- d
		if d.ID == "m" && run.Add(1) == 1 {
			<-first
		}
		return nil
	})})
	settle(t, c, e, "slow", runs)
	got := make(chan *rehop.Delivery, 10)
	kit.Subscribe(t, c, rehop.Subscriber{Queue: "other", Handler: kit.Into(got)})
	settle(t, c, e, "other", got)
	kit.Publish(t, c, rehop.Message{ID: "m", Key: "slow"})
	if d := kit.Receive(t, runs, "message"); d.ID != "m" || d.Redelivered {
		t.Errorf("got %q, redelivered %v; want m for the first time", d.ID, d.Redelivered)
	}
	if lab.Release() >= broker.RabbitMQ43 {
		// rehop's consumers ask for a timeout that leaves handlers their time. One that does not is cancelled, so the limit holds.
		awaitTimeout(t, r.Channel(), "m2")
	} else {
		if d := kit.Receive(t, runs, "message"); d.ID != "m" || !d.Redelivered {
			t.Errorf("got %q, redelivered %v; want m again, after the consumer timeout", d.ID, d.Redelivered)
		}
		e.await(t, "told of the interruption", func() bool { return e.downs("slow") == 1 })
	}
	close(first) // the late ack of the first run must hurt nobody
	kit.Publish(t, c, rehop.Message{ID: "n", Key: "slow"})
	if d := kit.Receive(t, runs, "message"); d.ID != "n" {
		t.Errorf("got %q, want n", d.ID)
	}
	kit.Publish(t, c, rehop.Message{ID: "o", Key: "other"})
	if d := kit.Receive(t, got, "message"); d.ID != "o" {
		t.Errorf("got %q, want o", d.ID)
	}
	wantUntouched(t, w, e, "other")
}
