package rehop_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/layout"
	"github.com/rehop/rehop/rehoptest"
)

// refusals are what a broker can do to take no failed message.
var refusals = map[string]struct{ begin, end func(*rehoptest.Broker) }{
	"alarm":      {(*rehoptest.Broker).Block, (*rehoptest.Broker).Unblock},
	"no confirm": {(*rehoptest.Broker).HoldConfirms, (*rehoptest.Broker).ReleaseConfirms},
	"refuses": {
		func(b *rehoptest.Broker) { b.Refuse(func(_, _ string) bool { return true }) },
		func(b *rehoptest.Broker) { b.Refuse(nil) },
	},
}

// halfFailing is a subscription whose handlers take 10 s. Those of messages with an even number fail.
func halfFailing(log *logbook, queue layout.QueueType) rehop.Subscriber {
	log.answer = func(ctx context.Context, d *rehop.Delivery) error {
		if err := slowly(10*time.Second).answer(ctx, d); err != nil {
			return err
		}
		if strings.ContainsAny(d.ID, "02468") {
			return errNotYet
		}
		return nil
	}
	return rehop.Subscriber{Queue: "q", QueueType: queue, Handler: log, Concurrency: 2, Prefetch: 10}
}

// openHalfFailing opens a client that has received ten messages, of which five will fail, on a broker that will not take these.
func openHalfFailing(t *testing.T, b *rehoptest.Broker, queue layout.QueueType, refuse func(*rehoptest.Broker)) (*rehop.Client, *rehop.Subscription) {
	t.Helper()
	client, err := rehop.Open(t.Context(), b.Config())
	if err != nil {
		t.Fatal(err)
	}
	sub := subscribe(t, client, halfFailing(newLogbook(nil), queue))
	for i := range 10 {
		publish(t, client, rehop.Message{ID: fmt.Sprint(i), Key: "q"})
	}
	synctest.Wait()
	refuse(b)
	return client, sub
}

// checkHalfReturned checks that exactly the five messages that failed are in the queue, as if they had not been handled. Copies of which
// the broker has not confirmed them may be there, too.
func checkHalfReturned(t *testing.T, b *rehoptest.Broker) {
	t.Helper()
	left := make(map[string]bool)
	for _, m := range b.Messages("q") {
		left[m.ID] = left[m.ID] || m.Attempts == 0
	}
	for i := range 10 {
		if id := fmt.Sprint(i); left[id] != (i%2 == 0) {
			t.Errorf("message %s is in the queue without a failure: got %v, want %v", id, left[id], i%2 == 0)
		}
	}
	if _, unacked := b.Depth("q"); unacked != 0 {
		t.Errorf("unacked: got %d, want none", unacked)
	}
}

// closeUnbounded closes a client without a deadline. If that does not end, rescue ends it.
func closeUnbounded(t *testing.T, client *rehop.Client, rescue func()) error {
	t.Helper()
	closed := make(chan error, 1)
	go func() { closed <- client.Close(context.Background()) }()
	select {
	case err := <-closed:
		return err
	case <-time.After(time.Hour):
		t.Error("close has not returned after an hour")
		rescue()
		return <-closed
	}
}

// Close ends without a deadline although the broker takes no failed message: those go back to the queue, others are acked, and the error
// has how many of which queue.
func TestCloseIsBounded(t *testing.T) {
	const handlers, broker = 5 * 10 * time.Second, 60 * time.Second
	for name, refusal := range refusals {
		for _, queue := range []layout.QueueType{layout.Classic, layout.Quorum} {
			t.Run(fmt.Sprint(name, " ", queue), func(t *testing.T) {
				inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
					client, _ := openHalfFailing(t, b, queue, refusal.begin)
					closing := startClock()
					err := closeUnbounded(t, client, func() { refusal.end(b) })
					if err == nil || !strings.Contains(err.Error(), `"q"`) || !strings.Contains(err.Error(), "failed queue: 5;") {
						t.Errorf("close: got %v, want an error about 5 messages of queue q", err)
					}
					if name == "alarm" && !errors.Is(err, rehop.ErrBlocked) {
						t.Errorf("close: got %v, want ErrBlocked", err)
					}
					within(t, "close", closing.now(), 30*time.Second, handlers+broker+5*time.Second)
					refusal.end(b)
					checkHalfReturned(t, b)
					purge(t, b)
				})
			})
		}
	}
}

// purge handles what is left in the queue.
func purge(t *testing.T, b *rehoptest.Broker) {
	t.Helper()
	subscribe(t, b.Client, rehop.Subscriber{Queue: "q", ExistingQueue: true, Handler: newLogbook(succeed)})
	b.AwaitEmpty("q")
}

// A deadline of Drain is kept, too, and its error reports what went back.
func TestDrainDeadlineWithoutBroker(t *testing.T) {
	const limit = 15 * time.Second
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		client, sub := openHalfFailing(t, b, layout.Quorum, (*rehoptest.Broker).Block)
		defer client.Close(context.Background())
		draining := startClock()
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		err := sub.Drain(ctx)
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "failed queue: 1;") {
			t.Errorf("drain: got %v, want that the deadline is exceeded, and one message", err)
		}
		within(t, "drain", draining.now(), limit, limit+10*time.Second)
		b.Unblock()
		ready, unacked := b.Depth("q")
		if ready != 9 || unacked != 0 {
			t.Errorf("left: got %d ready and %d unacked, want all but the one that was handled", ready, unacked)
		}
		purge(t, b)
	})
}

// What the broker takes late, and still in time, has failed once.
func TestCloseWaitsForTheEndOfAnAlarm(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		client, _ := openHalfFailing(t, b, layout.Quorum, (*rehoptest.Broker).Block)
		time.AfterFunc(30*time.Second, b.Unblock)
		if err := client.Close(context.Background()); err != nil {
			t.Errorf("close: got %v, want nil", err)
		}
		again := newLogbook(succeed)
		subscribe(t, b.Client, rehop.Subscriber{Queue: "q", Handler: again})
		time.Sleep(time.Minute)
		for _, r := range again.all() {
			if r.Attempt != 2 {
				t.Errorf("message %s: got attempt %d, want 2", r.ID, r.Attempt)
			}
		}
		if n := len(again.all()); n != 5 {
			t.Errorf("messages that have failed: got %d, want 5", n)
		}
	})
}

// Every call of Close returns what the first one found, when it has ended.
func TestCloseTwice(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		client, err := rehop.Open(t.Context(), b.Config())
		if err != nil {
			t.Fatal(err)
		}
		subscribe(t, client, rehop.Subscriber{Queue: "q", Handler: newLogbook(succeed)})
		b.HoldConfirms()
		published := make(chan error, 1)
		go func() { published <- client.Publish(context.Background(), rehop.Message{Key: "q"}) }()
		b.AwaitEmpty("q")
		closed := make(chan error)
		for range 2 {
			go func() { closed <- client.Close(context.Background()) }()
		}
		first, second := <-closed, <-closed
		for name, err := range map[string]error{"first": first, "second": second, "later": client.Close(context.Background())} {
			if !errors.Is(err, rehop.ErrUnknown) {
				t.Errorf("%s close: got %v, want ErrUnknown", name, err)
			}
		}
		<-published
		b.ReleaseConfirms()
	})
}

// Close ends although the broker, which is there, does not answer that the consumer, its channel or the connection has ended. A handler has
// the time that it needs.
func TestCloseWithoutAnswer(t *testing.T) {
	for name, unanswered := range map[string]method{"basic.cancel": basicCancel, "channel.close": channelClose, "connection.close": connectionClose} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
				var mute atomic.Bool
				client := openFiltered(t, b, func(c call) bool { return c.method != unanswered || !mute.Load() })
				log := slowly(4 * time.Minute)
				subscribe(t, client, rehop.Subscriber{Queue: "q", Handler: log})
				publish(t, client, rehop.Message{Key: "q"})
				synctest.Wait()
				mute.Store(true)
				closing := startClock()
				err := closeUnbounded(t, client, func() { b.Drop() })
				if says := err != nil && strings.Contains(err.Error(), "has not answered"); says != (name != "connection.close") {
					t.Errorf("close: got %v, want an error about an answer only if the subscription waits for one", err)
				}
				within(t, "close", closing.now(), 4*time.Minute, 5*time.Minute)
				if ready, unacked := b.Depth("q"); ready+unacked != 0 {
					t.Errorf("left: got %d ready and %d unacked, want none: the handler has succeeded", ready, unacked)
				}
			})
		})
	}
}

// What a subscription that pauses gives back by publishing it, as in a layout in which each redelivery counts as a failure, holds up Close no longer.
func TestCloseIsBoundedInOutage(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		client, err := rehop.Open(t.Context(), b.Config())
		if err != nil {
			t.Fatal(err)
		}
		const messages = 20
		subscribe(t, client, rehop.Subscriber{Queue: "q", Layout: layout.DLX{}, Handler: downFor(time.Hour), Prefetch: messages})
		for range messages {
			publish(t, client, rehop.Message{Key: "q"})
		}
		synctest.Wait()
		b.Block()
		closing := startClock()
		if err := closeUnbounded(t, client, b.Unblock); err != nil {
			t.Errorf("close: got %v, want nil: all went back to the queue", err)
		}
		within(t, "close", closing.now(), 0, 65*time.Second)
		b.Unblock()
		if ready, unacked := b.Depth("q"); ready != messages || unacked != 0 {
			t.Errorf("left: got %d ready and %d unacked, want %d and 0", ready, unacked, messages)
		}
		purge(t, b)
	})
}
