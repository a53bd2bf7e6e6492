package kit

import (
	"fmt"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop/integration/lab"
	"github.com/rehop/rehop/internal/envelope"
	"github.com/rehop/rehop/internal/rabbit"
	"github.com/rehop/rehop/layout"
)

// EachType runs a test for both types of queues, in parallel.
func EachType(t *testing.T, test func(t *testing.T, kind layout.QueueType)) {
	t.Helper()
	for _, kind := range []layout.QueueType{layout.Quorum, layout.Classic} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			test(t, kind)
		})
	}
}

// Queue declares a queue by hand, and binds it to pairs of an exchange and a key.
func Queue(t testing.TB, ch *amqp.Channel, name string, args amqp.Table, bindings ...[2]string) {
	t.Helper()
	if _, err := ch.QueueDeclare(name, true, false, false, false, args); err != nil {
		t.Fatal(err)
	}
	for _, b := range bindings {
		if err := ch.QueueBind(name, b[1], b[0], false, nil); err != nil {
			t.Fatal(err)
		}
	}
}

// Exchange declares an exchange by hand.
func Exchange(t testing.TB, ch *amqp.Channel, name, kind string) {
	t.Helper()
	if err := ch.ExchangeDeclare(name, kind, true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
}

// DeleteQueue deletes a queue whatever is in it, and returns how many messages it had.
func DeleteQueue(t testing.TB, ch *amqp.Channel, name string) int {
	t.Helper()
	n, err := ch.QueueDelete(name, false, false, false)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// Take waits for a message in a queue and removes it.
func Take(t testing.TB, ch *amqp.Channel, queue string) amqp.Delivery {
	t.Helper()
	var d amqp.Delivery
	lab.Eventually(t, Limit, "a message in "+queue, func() bool {
		got, ok, err := ch.Get(queue, true)
		if err != nil {
			t.Fatalf("get from %q: %v", queue, err)
		}
		d = got
		return ok
	})
	return d
}

// TakeAll removes what is in a queue now.
func TakeAll(t testing.TB, ch *amqp.Channel, queue string) []amqp.Delivery {
	t.Helper()
	q, err := ch.QueueDeclarePassive(queue, true, false, false, false, nil)
	if err != nil {
		t.Fatalf("look at queue %q: %v", queue, err)
	}
	var all []amqp.Delivery
	if q.Messages >= manyMessages {
		all = consume(t, ch, queue, q.Messages)
	}
	for {
		d, ok, err := ch.Get(queue, true)
		if err != nil {
			t.Fatalf("get from %q: %v", queue, err)
		}
		if !ok {
			return all
		}
		all = append(all, d)
	}
}

// manyMessages are read by a consumer. Fewer are read one by one, which needs no consumer that others could see.
const manyMessages = 1000

// consume removes the first n messages of a queue.
func consume(t testing.TB, ch *amqp.Channel, queue string, n int) []amqp.Delivery {
	t.Helper()
	const prefetch = 1000
	if err := ch.Qos(prefetch, 0, false); err != nil {
		t.Fatal(err)
	}
	deliveries, err := ch.Consume(queue, "take-all", false, false, false, false, nil)
	if err != nil {
		t.Fatalf("consume from %q: %v", queue, err)
	}
	late := time.NewTimer(Limit)
	defer late.Stop()
	all := make([]amqp.Delivery, 0, n)
	take := func(d amqp.Delivery) {
		if all = append(all, d); len(all)%(prefetch/2) == 0 || len(all) >= n {
			if err := d.Ack(true); err != nil {
				t.Fatal(err)
			}
		}
	}
	for len(all) < n {
		select {
		case d, ok := <-deliveries:
			if !ok {
				t.Fatalf("queue %q: the consumer ended after %d of %d messages", queue, len(all), n)
			}
			take(d)
			late.Reset(Limit)
		case <-late.C:
			t.Fatalf("queue %q: no message after %d of %d", queue, len(all), n)
		}
	}
	if err := ch.Cancel("take-all", false); err != nil {
		t.Fatal(err)
	}
	for d := range deliveries { // that arrived meanwhile
		take(d)
	}
	if err := ch.Qos(0, 0, false); err != nil {
		t.Fatal(err)
	}
	return all
}

// Failure is what the headers of a failed message contain.
func Failure(d amqp.Delivery) envelope.Failure {
	return envelope.ReadDead(rabbit.FromTable(d.Headers), d.Exchange, d.RoutingKey)
}

// WantDepth waits until a queue has exactly n ready messages.
func WantDepth(t testing.TB, r *lab.Rabbit, ch *amqp.Channel, queue string, n int) {
	t.Helper()
	got := -1
	defer func() {
		if got != n {
			t.Errorf("queue %q: got %d ready messages, want %d", queue, got, n)
		}
	}()
	lab.Eventually(t, Limit, fmt.Sprintf("%d messages in %q", n, queue), func() bool {
		got = r.Depth(ch, queue)
		return got == n
	})
}
