package sweeps

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/layout"
)

func limitCases() []Case {
	all := []Case{
		{"limit/ManyReads", func(b *Bench) { b.manyReads(layout.Native{}, failedArgs(layout.Quorum)) }},
		{"limit/ManyReadsWithDeliveryLimit", func(b *Bench) {
			b.manyReads(layout.PubSub{}, limited(20))
		}},
	}
	for _, l := range []layout.Layout{layout.PubSub{}, layout.Sneakers{}, layout.DLX{}, layout.Envelope{}, layout.Tiers{}} {
		name := strings.TrimPrefix(fmt.Sprintf("%T", l), "layout.")
		all = append(all, Case{"limit/ReadsChangeNothing" + name, func(b *Bench) { b.readsChangeNothing(l) }})
	}
	for _, c := range []struct {
		name  string
		l     layout.Layout
		args  amqp091.Table
		kind  string // of the policy; "": there is none
		limit int    // of the policy, or else of the queue
		known bool   // the admin has the management API
		many  bool   // there are many messages
	}{
		{"LimitOf1", layout.PubSub{}, limited(1), "", 1, true, false},
		{"LimitOf2", layout.PubSub{}, limited(2), "", 2, true, true},
		// The lowest that is assumed where none is known. With a higher one, a message that is lost by then would only be lost later.
		{"LimitOf2NotKnown", layout.PubSub{}, limited(2), "", 2, false, true},
		{"LimitOf5", layout.PubSub{}, limited(5), "", 5, true, true},
		{"LimitByDefault", layout.Native{}, amqp091.Table{"x-queue-type": "quorum"}, "", 20, true, false},
		{"LimitOfPolicy", layout.Native{}, failedArgs(layout.Quorum), "policies", 5, true, false},
		{"LimitOfOperatorPolicy", layout.Native{}, failedArgs(layout.Quorum), "operator-policies", 2, true, false},
	} {
		prepare := func(b *Bench) func(*admin.Config) {
			if c.kind != "" {
				b.policy(c.kind, map[string]any{"delivery-limit": c.limit})
			}
			b.declare(layouts.Must(c.l).FailedQueue(queue), c.args, queue)
			return func(config *admin.Config) {
				config.Layout = c.l
				if c.known {
					b.managed(config)
				}
			}
		}
		reads, deaths := 60, 60 // more than the first window of a sweep
		if c.many {
			reads = 1400 // too many to keep the order by reading all of them
			deaths = 600 // enough for the last window to have more than a sweep takes at once
		}
		all = append(all,
			Case{"limit/Reads" + c.name, func(b *Bench) { b.readsLoseNothing(layouts.Must(c.l).FailedQueue(queue), reads, c.limit, prepare(b)) }},
			Case{"limit/Deaths" + c.name, func(b *Bench) { b.deathsLoseNothing(layouts.Must(c.l).FailedQueue(queue), deaths, c.limit, prepare(b)) }})
	}
	return append(all,
		Case{"limit/ReadsOfPriorities", readsOfPriorities},
		Case{"limit/NoReturns", noReturns},
		Case{"limit/NoReturnsOfRefused", func(b *Bench) { b.refusedReplays(0, b.managed) }},
		Case{"limit/RefusedReplaysOfLimitOf1", func(b *Bench) { b.refusedReplays(1, b.managed) }},
		Case{"limit/RefusedReplaysOfLimitOf2", func(b *Bench) { b.refusedReplays(2, b.managed) }},
		Case{"limit/RefusedReplaysOfLimitNotKnown", func(b *Bench) { b.refusedReplays(2, func(*admin.Config) {}) }},
		Case{"limit/FullQueue", fullQueue})
}

// limited are the arguments of a quorum queue with a delivery limit.
func limited(to int) amqp091.Table {
	return amqp091.Table{"x-queue-type": "quorum", "x-delivery-limit": int32(to)}
}

// readsLoseNothing: no way of looking at messages loses one, although each is returned more often than the delivery limit allows. Those that a filter
// does not reach are returned, too.
func (b *Bench) readsLoseNothing(name string, n, limit int, config func(*admin.Config)) {
	b.fill(name, n)
	a := b.admin(config)
	for range limit + 2 {
		first, err := a.Failed(b.context(), queue, 1, admin.Filter{Header: map[string]string{"third": "1"}})
		b.must(err)
		if len(first) != 1 {
			b.t.Fatalf("list of one: got %d messages, want 1", len(first))
		}
		b.wantDepth(name, n)
	}
	for range limit + 2 {
		count, err := a.CountFailed(b.context(), queue, admin.Filter{})
		b.must(err)
		if count.Messages != n {
			b.t.Fatalf("count: got %d messages, want %d", count.Messages, n)
		}
		b.wantDepth(name, n)
	}
	b.wantEachOnce(name, n)
}

// deathsLoseNothing: processes that die while they look at messages lose none of them, although more of them die than the delivery limit allows. They
// die at the first messages, and then where the broker has sent many more ahead.
func (b *Bench) deathsLoseNothing(name string, n, limit int, config func(*admin.Config)) {
	b.fill(name, n)
	for _, at := range []int{1, n / 2} {
		for range limit + 3 {
			wire := &cable{dial: b.Dial}
			a := b.admin(config, func(c *admin.Config) { c.Dial = wire.connect })
			_, err := a.Export(b.context(), queue, &deadly{after: at, wire: wire}, admin.Filter{})
			if !errors.Is(err, errDead) {
				b.t.Fatalf("export: got %v, want that it ends as its process dies", err)
			}
			a.Close()
			b.wantDepth(name, n)
		}
	}
	b.wantEachOnce(name, n)
}

// deadly cuts the connections, as the death of the process does, when the given number of lines is written.
type deadly struct {
	after int
	wire  *cable
}

var errDead = errors.New("the process has died")

func (d *deadly) Write(p []byte) (int, error) {
	if d.after -= bytes.Count(p, []byte("\n")); d.after <= 0 {
		d.wire.cut()
		return 0, errDead
	}
	return len(p), nil
}

// wantEachOnce empties a queue, in which each message must be once.
func (b *Bench) wantEachOnce(name string, n int) {
	b.t.Helper()
	ids := b.takeAll(name)
	slices.SortFunc(ids, byNumber)
	b.wantIDs("what is in the queue", ids, n, nil)
}

func byNumber(x, y string) int {
	i, _ := strconv.Atoi(x)
	j, _ := strconv.Atoi(y)
	return i - j
}

// readsOfPriorities: messages that are published anew, and overtake others by their priority, are not listed twice in place of those.
func readsOfPriorities(b *Bench) {
	const n, reads = 400, 7
	b.declare(failed, limited(5))
	b.fill(failed, n, func(i int, p *amqp091.Publishing) { p.Priority = uint8(i % 2 * 9) })
	a := b.admin()
	for i := range reads {
		ids := b.exported(a, admin.Filter{})
		slices.SortFunc(ids, byNumber)
		b.wantIDs("look "+strconv.Itoa(i+1), ids, n, nil)
	}
}

// noReturns: a queue that drops every message which is returned is not looked at. All of its messages can be replayed.
func noReturns(b *Bench) {
	const n = 40
	b.declare(failed, limited(0), queue)
	b.fill(failed, n)
	a := b.admin(b.managed)
	_, err := a.Failed(b.context(), queue, n, admin.Filter{})
	if !errors.Is(err, admin.ErrNoReturns) || !strings.Contains(err.Error(), strconv.Quote(failed)) || !strings.Contains(err.Error(), "delivery limit is 0") {
		b.t.Fatalf("list: got %v, want that queue %q has a delivery limit of 0", err, failed)
	}
	some := admin.Options{Filter: admin.Filter{Header: map[string]string{"third": "1"}}}
	if p, err := a.Replay(b.context(), queue, some); !errors.Is(err, admin.ErrNoReturns) {
		b.t.Fatalf("replay of some: got %+v and %v, want %v", p, err, admin.ErrNoReturns)
	}
	b.wantDepth(failed, n)
	p, err := a.Replay(b.context(), queue, admin.Options{})
	b.must(err)
	if p.Done != n {
		b.t.Errorf("replay: got %+v, want %d done", p, n)
	}
	b.wantIDs("replayed", b.takeAll(queue), n, nil)
}

// refusedReplays: messages that cannot be replayed are not lost, although that is tried more often than the delivery limit allows.
func (b *Bench) refusedReplays(limit int, config func(*admin.Config)) {
	const n = 60
	b.declare(failed, limited(limit))
	b.fill(failed, n)
	a := b.admin(config)
	for range limit + 3 { // there is no queue to which they could go
		if p, err := a.Replay(b.context(), queue, admin.Options{}); err == nil || p.Done != 0 {
			b.t.Fatalf("replay: got %+v and %v, want that no message is replayed", p, err)
		}
		b.wantDepth(failed, n)
	}
	b.wantEachOnce(failed, n)
}

// countsReturns finds out whether this release counts each return of a message toward the delivery limit of a quorum queue.
func (b *Bench) countsReturns() bool {
	b.t.Helper()
	const trial = "trial"
	b.declare(trial, limited(5))
	b.fill(trial, 1)
	d, _, err := b.ch.Get(trial, false)
	b.must(err)
	b.must(d.Nack(false, true))
	b.wantDepth(trial, 1)
	d, _, err = b.ch.Get(trial, true)
	b.must(err)
	_, counts := d.Headers["x-delivery-count"]
	return counts
}

// fullQueue: a queue that is full, and refuses messages, is not looked at where each look counts toward a low delivery limit: what was returned often
// could not be published anew. All of its messages can be replayed.
func fullQueue(b *Bench) {
	const n, limit = 60, 2
	counts := b.countsReturns()
	args := limited(limit)
	args["x-max-length"], args["x-overflow"] = int32(n), "reject-publish"
	b.declare(failed, args, queue)
	b.fill(failed, n)
	a := b.admin(b.managed)
	for range limit + 3 {
		count, err := a.CountFailed(b.context(), queue, admin.Filter{})
		switch {
		case counts && (!errors.Is(err, admin.ErrNotRepublished) || !strings.Contains(err.Error(), "max-length")):
			b.t.Fatalf("count: got %d messages and %v, want that the queue is full", count.Messages, err)
		case !counts && (err != nil || count.Messages != n):
			b.t.Fatalf("count: got %d messages and %v, want %d, because looks do not count", count.Messages, err, n)
		}
		b.wantDepth(failed, n)
	}
	_, err := a.Replay(b.context(), queue, admin.Options{})
	b.must(err)
	b.wantIDs("replayed", b.takeAll(queue), n, nil)
}

// readsChangeNothing: however often a message was looked at, it is the one that it was: it came from the same exchange with the same key.
func (b *Bench) readsChangeNothing(l layout.Layout) {
	const reads = 30
	name, limited := layouts.Must(l).FailedQueue(queue), limited(20)
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
	if layouts.Must(l).FailedQueue("another") == name { // all of them, although it is not known whose the first is
		at = name
	}
	read := func() []admin.Message {
		found, err := a.Failed(b.context(), at, 10, admin.Filter{})
		b.must(err)
		slices.SortFunc(found, func(x, y admin.Message) int { return strings.Compare(x.ID, y.ID) })
		b.wantIDs("a look", idsOf(found), 2, nil)
		return found
	}
	first := read()
	for i := range reads {
		for j, m := range read() {
			if !reflect.DeepEqual(m, first[j]) {
				b.t.Fatalf("look %d: got %+v, want what it was: %+v", i+2, m, first[j])
			}
		}
	}
	if !layouts.Must(l).KeepsKey() || at == name {
		return
	}
	_, err = a.Replay(b.context(), queue, admin.Options{Filter: admin.Filter{IDs: []string{"0"}}})
	b.must(err)
	b.wantDepth(queue, 1)
	if d, _, err = b.ch.Get(queue, true); err != nil || d.RoutingKey != first[0].Key {
		b.t.Errorf("replayed: got a message with the key %q and %v, want the key %q", d.RoutingKey, err, first[0].Key)
	}
}

// manyReads: a message is not lost because it was looked at too often. RabbitMQ drops what was given back more often than the delivery limit
// allows, and from 4.0 on that is 20 by default.
func (b *Bench) manyReads(l layout.Layout, args amqp091.Table) {
	const n, reads = 40, 30
	name := layouts.Must(l).FailedQueue(queue)
	b.declare(name, args, queue)
	b.fill(name, n)
	a := b.admin(func(c *admin.Config) { c.Layout = l })
	for i := range reads {
		found, err := a.Failed(b.context(), queue, 2*n, admin.Filter{})
		b.must(err)
		ids := idsOf(found)
		slices.SortFunc(ids, byNumber)
		b.wantIDs("look "+strconv.Itoa(i+1), ids, n, nil)
		p, err := a.Replay(b.context(), queue, admin.Options{Filter: admin.Filter{IDs: []string{"none"}}})
		b.must(err)
		if p.Kept != n {
			b.t.Fatalf("a replay of nothing, after look %d: got %+v, want all kept", i+1, p)
		}
	}
	b.wantDepth(name, n)
}
