package subscribing

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
)

// Methods of AMQP.
const (
	basic       = 60
	basicCancel = 30
	basicAck    = 80
	basicReject = 90
	basicNack   = 120
)

func TestAcksAreMerged(t *testing.T) {
	t.Parallel()
	const messages, prefetch = 1000, 200
	for _, concurrency := range []int{1, 8} {
		t.Run(fmt.Sprintf("%d at once", concurrency), func(t *testing.T) {
			t.Parallel()
			r := lab.Single(t)
			ch := r.Channel()
			s := rehop.Subscriber{Queue: "q", Concurrency: concurrency, Prefetch: prefetch}
			fill(t, r, s, messages)
			var w wire
			c := kit.OpenQuick(t, r, rehop.Config{Dial: w.Dial})
			var seen kit.Tally
			s.Handler = &seen
			began := time.Now()
			sub := kit.Subscribe(t, c, s)
			lab.Eventually(t, kit.Limit, "all messages handled", func() bool { return seen.Len() == messages })
			took := time.Since(began)
			kit.Drain(t, sub)
			wantGone(t, r, ch, "q")
			// A quarter of the prefetch is acked together, or what has gathered in a few milliseconds.
			// Several workers finish out of order, and what lies behind a gap needs an ack of its own.
			limit := messages / 2
			if concurrency == 1 {
				limit = 20 + messages/(prefetch/4)
			}
			limit += int(took / (5 * time.Millisecond))
			got := len(w.sent(basic, basicAck))
			t.Logf("%d ack frames for %d messages in %v", got, messages, took)
			if got == 0 || got > limit {
				t.Errorf("ack frames for %d messages in %v: got %d, want from 1 to %d", messages, took, got, limit)
			}
			if got := len(w.sent(basic, basicNack)) + len(w.sent(basic, basicReject)); got != 0 {
				t.Errorf("nack and reject frames: got %d, want none", got)
			}
			seen.WantSum(t, "handler calls", messages)
		})
	}
}

// A message that takes long keeps neither the acks of later ones back nor uses up the prefetch.
func TestLongMessageHoldsNothingBack(t *testing.T) {
	t.Parallel()
	const messages, prefetch = 100, 6
	r := lab.Single(t)
	ch := r.Channel()
	c := kit.OpenQuick(t, r, rehop.Config{})
	release := make(chan struct{})
	var seen kit.Tally
	sub := kit.Subscribe(t, c, rehop.Subscriber{Queue: "q", Concurrency: 2, Prefetch: prefetch,
		Handler: rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
			if d.ID == "0" {
				<-release
			}
			seen.Add(d.ID)
			return nil
		})})
	kit.Publish(t, c, kit.Numbered("q", messages)...)
	lab.Eventually(t, kit.Limit, "all but the first handled", func() bool { return seen.Len() == messages-1 })
	// They are acked while the first still runs: nothing but the first comes back when the connection goes.
	lab.Eventually(t, kit.Limit, "broker's count of unacked messages is 1", func() bool {
		var q struct {
			Unacked *int `json:"messages_unacknowledged"`
			Ready   *int `json:"messages_ready"`
		}
		r.API("GET", "/api/queues/"+r.Vhost+"/q", nil, &q)
		return q.Unacked != nil && *q.Unacked == 1 && *q.Ready == 0
	})
	if got := seen.Of("0"); got != 0 {
		t.Errorf("first message: got it handled before it was released")
	}
	close(release)
	kit.Drain(t, sub)
	wantGone(t, r, ch, "q")
	seen.WantSum(t, "handler calls", messages)
}
