package kit

import (
	"fmt"
	"testing"

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
	var all []amqp.Delivery
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
