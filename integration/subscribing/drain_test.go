package subscribing

import (
	"context"
	"testing"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
)

// TestDrainAcksAll: when Drain has returned, the broker has the ack of every message, also of many that end at the same moment. A
// channel of RabbitMQ forgets acks of a quorum queue if more than 32 are under way when it closes.
func TestDrainAcksAll(t *testing.T) {
	t.Parallel()
	const messages = 400
	r := lab.Single(t)
	begun, release := make(chan struct{}, messages), make(chan struct{})
	s := rehop.Subscriber{Queue: "q", Concurrency: messages, Prefetch: messages}
	fill(t, r, s, messages)
	s.Handler = rehop.HandlerFunc(func(context.Context, *rehop.Delivery) error {
		begun <- struct{}{}
		<-release
		return nil
	})
	c := kit.OpenQuick(t, r, rehop.Config{})
	sub := kit.Subscribe(t, c, s)
	for range messages {
		<-begun
	}
	drained := make(chan error, 1)
	go func() { drained <- sub.Drain(t.Context()) }()
	lab.Eventually(t, kit.Limit, "the consumer is canceled", func() bool { return !sub.Receiving() })
	close(release)
	if err := <-drained; err != nil {
		t.Fatal(err)
	}
	// What the broker has taken back comes before a new message.
	again, last := 0, make(chan struct{})
	kit.Publish(t, c, rehop.Message{Key: "q", ID: "last"})
	s.Concurrency = 1
	s.Handler = rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
		if d.ID == "last" {
			close(last)
		} else {
			again++
		}
		return nil
	})
	kit.Subscribe(t, c, s)
	<-last
	if again > 0 {
		t.Errorf("%d of %d messages were delivered again after an orderly end, want none", again, messages)
	}
}
