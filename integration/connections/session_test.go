package connections

import (
	"context"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
)

// What rehop must not do: a program that keeps a delivery tag across a reconnect, and acks it on the
// new channel, acks another message, which is then lost.
func TestNaiveLateAckHitsAnotherMessage(t *testing.T) {
	t.Parallel()
	r := lab.Single(t)
	dial := func() (*amqp.Connection, *amqp.Channel, <-chan amqp.Delivery) {
		conn, err := amqp.Dial(r.URL)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		ch, err := conn.Channel()
		if err != nil {
			t.Fatal(err)
		}
		kit.Queue(t, ch, "q", nil)
		if err := ch.Qos(1, 0, false); err != nil {
			t.Fatal(err)
		}
		deliveries, err := ch.Consume("q", "", false, false, false, false, nil)
		if err != nil {
			t.Fatal(err)
		}
		return conn, ch, deliveries
	}
	ch := r.Channel()
	conn, _, deliveries := dial()
	for _, id := range []string{"A", "B"} {
		if err := ch.PublishWithContext(t.Context(), "", "q", false, false, amqp.Publishing{MessageId: id}); err != nil {
			t.Fatal(err)
		}
	}
	old := <-deliveries // the program begins to handle A …
	if old.MessageId != "A" {
		t.Fatalf("got %q first, want A", old.MessageId)
	}
	_ = conn.Close() // … and loses its connection
	_, other, others := dial()
	if d := <-others; d.MessageId != "A" { // another process gets A
		t.Fatalf("the other process got %q, want A", d.MessageId)
	}
	conn2, ch2, deliveries2 := dial() // the program is connected again
	if d := <-deliveries2; d.MessageId != "B" {
		t.Fatalf("after the reconnect: got %q, want B", d.MessageId)
	}
	if err := ch2.Ack(old.DeliveryTag, false); err != nil { // it has finished A
		t.Fatal(err)
	}
	_ = conn2.Close() // and dies before it has handled B
	_ = other.Close()
	lab.Eventually(t, kit.Limit, "A is back", func() bool { return r.Depth(ch, "q") > 0 })
	var left []string
	for _, d := range kit.TakeAll(t, ch, "q") {
		left = append(left, d.MessageId)
	}
	if len(left) != 1 || left[0] != "A" {
		t.Fatalf("got %q left in the queue; want A alone: B was never handled and is lost", left)
	}
}

// rehop drops an ack whose session has ended: the message is delivered again, and no other is acked.
func TestLateAckIsDropped(t *testing.T) {
	t.Parallel()
	r := lab.Single(t)
	w, rec := &kit.Wire{}, kit.NewRecorder()
	c := kit.Open(t, rehop.Config{URL: r.URL, Dial: w.Dial, Hooks: rec.Hooks()})
	type run struct {
		d       rehop.Delivery
		release chan struct{}
	}
	runs := make(chan run, 10)
	sub := kit.Subscribe(t, c, rehop.Subscriber{Queue: "q", Concurrency: 3, Prefetch: 3,
		Handler: rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
			r := run{*d, make(chan struct{})}
			runs <- r
			<-r.release
			return nil
		})})
	kit.Publish(t, c, rehop.Message{ID: "A", Key: "q"})
	first := kit.Receive(t, runs, "first delivery")
	_ = w.Newest(t, "consume").Close()
	second := kit.Receive(t, runs, "after the first cut") // has the same tag, in another session
	if second.d.ID != "A" || !second.d.Redelivered {
		t.Fatalf("got %q, redelivered %v; want A again", second.d.ID, second.d.Redelivered)
	}
	close(first.release) // the late ack
	if got := kit.Receive(t, rec.Results, "result of the first run").Outcome; got != rehop.OutcomeLost {
		t.Errorf("the run whose session had ended: hook was told %q, want %q: the broker delivers it again", got, rehop.OutcomeLost)
	}
	// Something that is handled and acked after it in the same session: the late one has had its chance.
	kit.Publish(t, c, rehop.Message{ID: "B", Key: "q"})
	b := kit.Receive(t, runs, "another message")
	if b.d.ID != "B" {
		t.Fatalf("got %q, want B", b.d.ID)
	}
	close(b.release)
	ch := r.Channel()
	// If the late ack had been sent, A would be gone now. The broker still has it:
	_ = w.Newest(t, "consume").Close()
	third := kit.Receive(t, runs, "after the second cut")
	for third.d.ID == "B" { // its ack may have been under way when the connection was cut
		close(third.release)
		third = kit.Receive(t, runs, "after the second cut")
	}
	if third.d.ID != "A" {
		t.Fatalf("got %q, want A for the third time: the late ack took it", third.d.ID)
	}
	close(second.release)
	close(third.release)
	drained := make(chan struct{})
	released := make(chan struct{})
	go func() {
		defer close(released)
		for {
			select {
			case extra := <-runs: // B again, behind A
				close(extra.release)
			case <-drained:
				return
			}
		}
	}()
	kit.Drain(t, sub)
	close(drained)
	<-released
	// After the drain nothing is unacked: what is in the queue is what the broker knows as unfinished.
	if n := r.Depth(ch, "q"); n != 0 {
		t.Errorf("got %d messages left, want 0", n)
	}
	if n := r.Depth(ch, "q.failed"); n != 0 {
		t.Errorf("got %d failed messages, want 0", n)
	}
}
