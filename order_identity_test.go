package rehop_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/rehoptest"
)

// raw publishes as a program without rehop does.
func raw(t *testing.T, ch *amqp091.Channel, queue string, p amqp091.Publishing) {
	t.Helper()
	p.DeliveryMode = 2
	if err := ch.PublishWithContext(t.Context(), "", queue, true, false, p); err != nil {
		t.Fatal(err)
	}
}

// failsFirst fails the messages with the ids the first time.
func failsFirst(ids ...string) func(context.Context, *rehop.Delivery) error {
	return func(_ context.Context, d *rehop.Delivery) error {
		if slices.Contains(ids, d.ID) && d.Attempt == 1 {
			return errNotYet
		}
		return nil
	}
}

// TestOrderedSeqMillion is about a defect that there was: numbers of the held queue are read with
// envelope.Count, which has a maximum of 1,000,000. The copy that has the number 1,000,001 is not recognized
// when it comes back, is acked, and so is the original.
func TestOrderedSeqMillion(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		log := &orderLog{answer: failsFirst("a/1")}
		settings := rehop.Subscriber{Queue: "orders", Handler: log, OrderBy: byKey, Retry: rehop.Steps(10*time.Second, 10*time.Second)}
		first := subscribe(t, b.Client, settings)
		time.Sleep(time.Second)
		if err := first.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		// A message that waits, unchanged when a million were moved before it.
		raw(t, channel(t, b), "orders.held", amqp091.Publishing{MessageId: "z/1", Headers: amqp091.Table{"rehop-order-kind": "copy", "rehop-order-key": "z",
			"rehop-order-seq": int64(1_000_000), "rehop-order-epoch": int64(2), "rehop-order-session": "before"}})
		subscribe(t, b.Client, settings)
		publishKeys(t, b, "orders", "a/1", "a/2")
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		if got := log.of("z"); !slices.Equal(got, []string{"z/1"}) {
			t.Errorf("z: %v", got)
		}
		if got, want := log.of("a"), []string{"a/1", "a/2"}; !slices.Equal(got, want) {
			t.Errorf("have ended %v, want %v; begun %v\n%v", got, want, log.begun, b)
		}
	})
}

// TestOrderedEqualIDs is about a defect that there was: two messages with the same id and body, and other
// routing keys and headers: the second is taken for the first.
func TestOrderedEqualIDs(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		var mu sync.Mutex
		var done []string
		handler := rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
			event, _ := d.Headers["event"].(string)
			if event == "placed" && d.Attempt == 1 {
				return errNotYet
			}
			mu.Lock()
			defer mu.Unlock()
			done = append(done, event)
			return nil
		})
		subscribe(t, b.Client, rehop.Subscriber{Queue: "orders", Handler: handler, OrderBy: func(d *rehop.Delivery) string { return d.ID }, Retry: rehop.Steps(time.Second)})
		publish(t, b.Client, rehop.Message{Key: "orders", ID: "order-7", Type: "", Headers: map[string]any{"event": "placed"}})
		publish(t, b.Client, rehop.Message{Key: "orders", ID: "order-7", Headers: map[string]any{"event": "paid"}})
		time.Sleep(100 * time.Millisecond)
		b.Drop()
		time.Sleep(time.Hour)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if !slices.Contains(done, "paid") || !slices.Contains(done, "placed") {
			t.Errorf("handled %v, want placed and paid", done)
		}
	})
}

// TestOrderedForgedKinds is about a defect that there was: messages whose publisher has written rehop-order-
// kind.
func TestOrderedForgedKinds(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		log := &orderLog{answer: succeed}
		subscribe(t, b.Client, rehop.Subscriber{Queue: "orders", Handler: log, OrderBy: byKey})
		ch := channel(t, b)
		var want []string
		for _, kind := range []string{"copy", "block", "replay", "probe", "hello", "mark", "bye", "calm", "trial", "skip", "list", "other", ""} {
			want = append(want, "a/"+kind)
			raw(t, ch, "orders", amqp091.Publishing{MessageId: "a/" + kind, Body: []byte("payload"), Headers: amqp091.Table{"rehop-order-kind": kind}})
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := log.of("a"); !slices.Equal(got, want) {
			t.Errorf("handled %v, want %v", got, want)
		}
	})
}

// TestOrderedForeignHeld is about a defect that there was: messages in the held queue that are not rehop's: all
// but one of a key are lost.
func TestOrderedForeignHeld(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		log := &orderLog{answer: succeed}
		subscribe(t, b.Client, rehop.Subscriber{Queue: "orders", Handler: log, OrderBy: byKey})
		time.Sleep(time.Second)
		ch := channel(t, b)
		b.Client.Publish(t.Context(), rehop.Message{Key: "orders", ID: "a/0"})
		time.Sleep(time.Second)
		slow := make(chan struct{})
		log.set(func(_ context.Context, d *rehop.Delivery) error {
			if d.ID == "a/1" {
				<-slow
			}
			return nil
		})
		for i := range 5 {
			raw(t, ch, "orders.held", amqp091.Publishing{MessageId: fmt.Sprint("a/", i+1), Body: []byte("payload")})
		}
		time.Sleep(time.Second)
		close(slow)
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := log.of("a"); len(got) != 6 {
			t.Errorf("handled %v, want a/0 to a/5", got)
		}
	})
}

// TestOrderedLargeKey is about a defect that there was: a key that does not fit into the headers of a block:
// after a session, nothing is handled any more.
func TestOrderedLargeKey(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		log := &orderLog{answer: func(_ context.Context, d *rehop.Delivery) error {
			if d.ID == "a/1" {
				return rehop.Permanent(errNotYet)
			}
			return nil
		}}
		subscribe(t, b.Client, rehop.Subscriber{Queue: "orders", Handler: log, OrderBy: func(d *rehop.Delivery) string { return string(d.Body) }, AfterFail: rehop.Halt, Concurrency: 4})
		publish(t, b.Client, rehop.Message{Key: "orders", ID: "a/1", Body: []byte(strings.Repeat("x", 140_000))})
		time.Sleep(15 * time.Minute)
		publishKeys(t, b, "orders", "b/1")
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if got := log.of("b"); len(got) != 1 {
			t.Errorf("handled of b: %v, want b/1\n%v", got, b)
		}
	})
}
