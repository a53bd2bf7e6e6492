package migrating

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/integration/kit"
)

func id(n int) string { return strconv.Itoa(n) }

// books are the results that publishers got: at the end each confirmed message must be there once.
type books struct {
	t  *testing.T
	mu sync.Mutex
	// What became of each message.
	confirmed, refused, unknown map[string]bool
	next                        int

	stop    context.CancelFunc
	running sync.WaitGroup
}

// publishing begins to publish to exchange order, from several goroutines, until end: each a message after every pause, or, with none, as fast as
// they are confirmed.
func (s *site) publishing(pause time.Duration) *books {
	s.t.Helper()
	return s.publishingTo(s.rabbit.URL, 1_000_000, pause)
}

// publishingTo publishes to one node, with ids from first on.
func (s *site) publishingTo(url string, first int, pause time.Duration) *books {
	s.t.Helper()
	b := &books{t: s.t, confirmed: make(map[string]bool), refused: make(map[string]bool), unknown: make(map[string]bool), next: first}
	client := kit.Open(s.t, rehop.Config{URL: url})
	ctx, stop := context.WithCancel(s.ctx)
	b.stop = stop
	for range 3 {
		b.running.Go(func() {
			tick := time.NewTicker(max(pause, 1))
			defer tick.Stop()
			for ctx.Err() == nil {
				b.publish(client)
				<-tick.C
			}
		})
	}
	s.t.Cleanup(b.end)
	return b
}

func (b *books) publish(client *rehop.Client) {
	b.mu.Lock()
	n := id(b.next)
	b.next++
	b.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), kit.Limit)
	defer cancel()
	err := client.Publish(ctx, rehop.Message{ID: n, Exchange: "order", Key: "order." + n, Body: []byte(n)})
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case err == nil:
		b.confirmed[n] = true
	case errors.Is(err, rehop.ErrUnknown):
		b.unknown[n] = true
	default:
		b.refused[n] = true
		b.t.Logf("message %s: %v", n, err)
	}
}

func (b *books) end() {
	b.stop()
	b.running.Wait()
}

// add books messages that were published by hand.
func (b *books) add(first, n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range n {
		b.confirmed[id(first+i)] = true
	}
}

// merge adds the results of other publishers.
func (b *books) merge(other *books) {
	for n := range other.confirmed {
		b.confirmed[n] = true
	}
	for n := range other.unknown {
		b.unknown[n] = true
	}
	for n := range other.refused {
		b.refused[n] = true
	}
}

// count is how many were confirmed.
func (b *books) count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.confirmed)
}

// audit takes everything out of a queue, and checks that each confirmed message was there once; up to twice of them may have
// been there twice.
func (b *books) audit(s *site, queue string, twice int) {
	b.t.Helper()
	b.end()
	seen := make(map[string]int)
	for _, d := range s.takeAll(queue) {
		seen[d.MessageId]++
	}
	var lost []string
	copies := 0
	for n := range b.confirmed {
		if seen[n] == 0 {
			lost = append(lost, n)
		}
		copies += max(0, seen[n]-1)
	}
	if len(lost) > 0 {
		b.t.Errorf("%d confirmed messages are lost, among them %s", len(lost), lost[0])
	}
	if copies > twice {
		b.t.Errorf("got %d messages twice, want at most %d", copies, twice)
	}
	for n := range b.refused {
		if seen[n] > 0 {
			b.t.Errorf("message %s was refused, and is there", n)
		}
	}
	b.t.Logf("confirmed=%d lost=%d twice=%d refused=%d unknown=%d", len(b.confirmed), len(lost), copies, len(b.refused), len(b.unknown))
	if len(b.refused) > 0 {
		b.t.Errorf("%d messages were refused", len(b.refused))
	}
}

// wantOrder checks that a queue has exactly the messages with ids from first on, in order.
func wantOrder(s *site, queue string, first, n int) {
	s.t.Helper()
	got := s.takeAll(queue)
	if len(got) != n {
		s.t.Fatalf("queue %q: got %d messages, want %d", queue, len(got), n)
	}
	for i, d := range got {
		if want := id(first + i); d.MessageId != want || string(d.Body) != want || fmt.Sprint(d.Headers["n"]) != want {
			s.t.Fatalf("message %d: got id %q body %q header %v, want %s", i, d.MessageId, d.Body, d.Headers["n"], want)
		}
	}
}

// takeAll empties a queue to which nobody publishes, in its order.
func (s *site) takeAll(queue string) []amqp.Delivery {
	s.t.Helper()
	all := make([]amqp.Delivery, s.rabbit.Depth(s.ch, queue))
	ch := s.rabbit.Channel()
	deliveries, err := ch.Consume(queue, "", true, false, false, false, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	for i := range all {
		all[i] = kit.Receive(s.t, deliveries, fmt.Sprintf("message %d of %d in %q", i+1, len(all), queue))
	}
	if err := ch.Close(); err != nil {
		s.t.Fatal(err)
	}
	if left := s.rabbit.Depth(s.ch, queue); left > 0 || len(deliveries) > 0 {
		s.t.Fatalf("queue %q still has %d messages", queue, left)
	}
	return all
}
