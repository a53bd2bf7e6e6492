package sweeps

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/layout"
)

func limitCases() []Case {
	all := []Case{
		{"limit/ManyLooks", func(b *Bench) { b.manyLooks(layout.Native{}, resting(layout.Quorum)) }},
		{"limit/ManyLooksWithDeliveryLimit", func(b *Bench) {
			b.manyLooks(layout.PubSub{}, amqp091.Table{"x-queue-type": "quorum", "x-delivery-limit": int32(20)})
		}},
	}
	for _, l := range []layout.Layout{layout.PubSub{}, layout.Sneakers{}, layout.DLX{}, layout.Envelope{}, layout.Tiers{}} {
		name := strings.TrimPrefix(fmt.Sprintf("%T", l), "layout.")
		all = append(all, Case{"limit/LooksChangeNothing" + name, func(b *Bench) { b.looksChangeNothing(l) }})
	}
	return all
}

// looksChangeNothing: however often a message was looked at, it is the one that it was: it came from the same exchange with the same key.
func (b *Bench) looksChangeNothing(l layout.Layout) {
	const looks = 30
	name, limited := l.FailedQueue(queue), amqp091.Table{"x-queue-type": "quorum", "x-delivery-limit": int32(20)}
	b.declare(name, limited)
	b.declare(queue, amqp091.Table{"x-queue-type": "quorum", "x-dead-letter-exchange": "orders.fail"})
	for exchange, to := range map[string]string{"orders": queue, "orders.fail": name} {
		b.must(b.ch.ExchangeDeclare(exchange, "topic", true, false, false, false, nil))
		b.must(b.ch.QueueBind(to, "#", exchange, false, nil))
	}
	// The first was published to the failed exchange, the other was rejected.
	for i, exchange := range []string{"orders.fail", "orders"} {
		confirm, err := b.ch.PublishWithDeferredConfirm(exchange, "order.created", true, false, amqp091.Publishing{
			MessageId: strconv.Itoa(i), DeliveryMode: amqp091.Persistent, Timestamp: time.Unix(1, 0), Body: []byte("{}"), Headers: amqp091.Table{"n": int32(i)}})
		b.must(err)
		confirm.Wait()
	}
	d, _, err := b.ch.Get(queue, false)
	b.must(err)
	b.must(d.Nack(false, false))
	b.wantDepth(name, 2)
	a := b.admin(func(c *admin.Config) { c.Layout = l })
	at := queue
	if l.FailedQueue("another") == name { // all of them, although it is not known whose the first is
		at = name
	}
	look := func() []admin.Message {
		found, err := a.Failed(b.context(), at, 10, admin.Filter{})
		b.must(err)
		slices.SortFunc(found, func(x, y admin.Message) int { return strings.Compare(x.ID, y.ID) })
		b.wantIDs("a look", idsOf(found), 2, nil)
		return found
	}
	first := look()
	for i := range looks {
		for j, m := range look() {
			if !reflect.DeepEqual(m, first[j]) {
				b.t.Fatalf("look %d: got %+v, want what it was: %+v", i+2, m, first[j])
			}
		}
	}
	if !l.KeepsKey() || at == name {
		return
	}
	_, err = a.Replay(b.context(), queue, admin.Options{Filter: admin.Filter{IDs: []string{"0"}}})
	b.must(err)
	b.wantDepth(queue, 1)
	if d, _, err = b.ch.Get(queue, true); err != nil || d.RoutingKey != first[0].Key {
		b.t.Errorf("replayed: got a message with the key %q and %v, want the key %q", d.RoutingKey, err, first[0].Key)
	}
}

// manyLooks: a message is not lost because it was looked at too often. RabbitMQ drops what was given back more often than the delivery limit
// says, and from 4.0 on that is 20 unless the queue says otherwise.
func (b *Bench) manyLooks(l layout.Layout, args amqp091.Table) {
	const n, looks = 40, 30
	name := l.FailedQueue(queue)
	b.declare(name, args, queue)
	b.fill(name, n)
	a := b.admin(func(c *admin.Config) { c.Layout = l })
	for i := range looks {
		found, err := a.Failed(b.context(), queue, 2*n, admin.Filter{})
		b.must(err)
		ids := idsOf(found)
		slices.SortFunc(ids, func(x, y string) int {
			i, _ := strconv.Atoi(x)
			j, _ := strconv.Atoi(y)
			return i - j
		})
		b.wantIDs("look "+strconv.Itoa(i+1), ids, n, nil)
		p, err := a.Replay(b.context(), queue, admin.Options{Filter: admin.Filter{IDs: []string{"none"}}})
		b.must(err)
		if p.Kept != n {
			b.t.Fatalf("a replay of nothing, after look %d: got %+v, want all kept", i+1, p)
		}
	}
	b.wantDepth(name, n)
}
