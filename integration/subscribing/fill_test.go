package subscribing

import (
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
)

// fill declares a subscription's queue and puts n messages into it before anybody consumes.
func fill(t testing.TB, r *lab.Rabbit, s rehop.Subscriber, n int) {
	t.Helper()
	c := kit.OpenQuick(t, r, rehop.Config{})
	s.Handler = kit.Nop
	kit.Stop(t, kit.Subscribe(t, c, s))
	kit.Publish(t, c, kit.Numbered(s.Queue, n)...)
}

// wantGone waits until all of a queue's messages are acked: with no consumer left, none is ready.
func wantGone(t testing.TB, r *lab.Rabbit, ch *amqp.Channel, queue string) {
	t.Helper()
	lab.Eventually(t, kit.Limit, "no consumer on "+queue, func() bool {
		q, err := ch.QueueDeclarePassive(queue, true, false, false, false, nil)
		if err != nil {
			t.Fatalf("look at %q: %v", queue, err)
		}
		return q.Consumers == 0
	})
	kit.WantDepth(t, r, ch, queue, 0)
}
