package node

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/rehop/rehop/broker/internal/queue"
	"github.com/rehop/rehop/broker/internal/store"
	"github.com/rehop/rehop/internal/wire"
)

// A dead letter without a queue stays dead when the broker is restarted, cleanly or not, and moves when there is a queue.
func TestStrandedDeadLetterStaysDead(t *testing.T) {
	for _, tt := range []struct {
		reason queue.Reason
		die    func(m must, q *Queue)
	}{
		{queue.Rejected, func(m must, q *Queue) { m.v.node.Settle(q, []queue.Item{m.take(q)}, Rejected) }},
		{queue.DeliveryLimit, func(m must, q *Queue) {
			for range 2 {
				m.v.node.Settle(q, []queue.Item{m.take(q)}, Lost)
			}
		}},
		{queue.Expired, func(_ must, _ *Queue) { time.Sleep(time.Minute) }},
	} {
		t.Run(string(tt.reason), func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				m := must{t, openVhost(t, dir)}
				source := m.queue("source", "x-queue-type", "quorum", "x-delivery-limit", int32(1), "x-overflow", "reject-publish",
					"x-dead-letter-exchange", "amq.direct", "x-dead-letter-strategy", "at-least-once")
				dying := wire.Properties{DeliveryMode: 2}
				if tt.reason == queue.Expired {
					dying.Expiration = "1000"
				}
				m.publish("", "source", dying, "dead")
				tt.die(m, source)
				m.publish("", "source", wire.Properties{DeliveryMode: 2}, "alive")
				for range 2 {
					m.v = reopen(t, m.v)
					m.wantBodies("source", "alive")
					time.Sleep(10 * time.Second) // it is tried again and again
					m.wantBodies("source", "alive")
					if err := m.v.node.CheckCounts(); err != nil {
						t.Error(err)
					}
				}
				target := m.queue("target")
				m.do(m.v.Bind(m.v.Exchange("amq.direct"), Destination{Queue: target}, "source", nil))
				time.Sleep(2 * time.Second)
				seen, err := target.PeekMessages()
				m.do(err)
				if len(seen) != 1 || string(seen[0].Body) != "dead" {
					t.Fatalf("in the target: got %v, want the dead letter", seen)
				}
				if got, _ := seen[0].Properties.Headers.Get("x-first-death-reason"); got != string(tt.reason) {
					t.Errorf("got reason %v, want %s", got, tt.reason)
				}
				m.v = reopen(t, m.v)
				m.wantBodies("source", "alive")
				m.wantBodies("target", "dead")
				m.do(m.v.node.Close())
			})
		})
	}
}

// The numbers in the log never change.
func TestLoggedReasons(t *testing.T) {
	for number, want := range map[store.Death]queue.Reason{1: "rejected", 2: "expired", 3: "maxlen", 4: "delivery_limit", 200: "rejected"} {
		if got := reasonOf(number); got != want {
			t.Errorf("reason %d: got %s, want %s", number, got, want)
		}
	}
}
