package sweeps

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/internal/conformance/await"
	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/layout"
)

func orderCases() []Case {
	return []Case{
		{"order/ReadsOfQuorum", func(b *Bench) { b.reads(failedArgs(layout.Quorum)) }},
		{"order/ReadsOfClassic", func(b *Bench) { b.reads(failedArgs(layout.Classic)) }},
		{"order/ReadsOfQuorumWithoutLimit", func(b *Bench) { b.reads(amqp091.Table{"x-queue-type": "quorum"}) }},
		{"order/FilteredReplayOfQuorum", func(b *Bench) { b.filteredReplay(failedArgs(layout.Quorum)) }},
		{"order/FilteredReplayOfClassic", func(b *Bench) { b.filteredReplay(failedArgs(layout.Classic)) }},
		{"order/ListOfOneOfQuorum", func(b *Bench) { b.listOfOne(failedArgs(layout.Quorum)) }},
		{"order/ListOfOneOfClassic", func(b *Bench) { b.listOfOne(failedArgs(layout.Classic)) }},
		{"order/ListOfOneOfLargeBodies", listOfOneLarge},
		{"order/LimitedReplay", limitedReplay},
		{"order/LimitedReplayTakesNoOther", limitedReplayTakesNoOther},
		{"order/LimitedReplayOfLateMessages", limitedReplayOfLateMessages},
		{"order/ReplayOfOne", replayOfOne},
		{"order/Discard", discard},
		{"order/ImportOfAnothers", importOfAnothers},
		{"order/ImportOfBytes", importOfBytes},
		{"order/ReadByConsumers", readByConsumers},
	}
}

// exported are the ids of what an export has written.
func (b *Bench) exported(a *admin.Admin, filter admin.Filter) []string {
	b.t.Helper()
	var out bytes.Buffer
	n, err := a.Export(b.context(), queue, &out, filter)
	b.must(err)
	ids := readIDs(b, &out)
	if len(ids) != n {
		b.t.Fatalf("export: got %d lines and the number %d, want the same", len(ids), n)
	}
	return ids
}

func readIDs(b *Bench, in io.Reader) (ids []string) {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var line struct{ ID string }
		b.must(json.Unmarshal(lines.Bytes(), &line))
		ids = append(ids, line.ID)
	}
	b.must(lines.Err())
	return ids
}

// importOfAnothers: messages that another program has put into a failed queue, or into the one for messages without a route, are there again
// after an export and an import, as they were, and can be replayed.
func importOfAnothers(b *Bench) {
	const n = 5
	a := b.admin()
	b.declare(failed, failedArgs(layout.Quorum), queue)
	b.declare(layouts.UnroutedQueue, failedArgs(layout.Quorum))
	for _, from := range []string{queue, layouts.UnroutedQueue} {
		rests := failed
		if from == layouts.UnroutedQueue {
			rests = from
		}
		b.fill(rests, n)
		var file bytes.Buffer
		_, err := a.Export(b.context(), from, &file, admin.Filter{})
		b.must(err)
		_, err = a.Discard(b.context(), from, admin.Options{})
		b.must(err)
		if imported, err := a.Import(b.context(), &file); err != nil || imported != n {
			b.t.Fatalf("import into %q: got %d and error %v, want %d", rests, imported, err, n)
		}
		found, err := a.Failed(b.context(), from, n, admin.Filter{})
		b.must(err)
		b.wantIDs("list after the import into "+rests, idsOf(found), n, nil)
		if from == layouts.UnroutedQueue && found[0].Queue != "" {
			b.t.Errorf("queue of a message without a route: got %q, want none", found[0].Queue)
		}
	}
	if p, err := a.Replay(b.context(), queue, admin.Options{}); err != nil || p.Done != n {
		b.t.Fatalf("replay: got %+v and error %v, want %d done", p, err, n)
	}
	b.wantIDs("what is in the queue", b.takeAll(queue), n, nil)
}

// importOfBytes: an id and other properties that are not text are the same after an export and an import.
func importOfBytes(b *Bench) {
	a := b.admin()
	b.declare(failed, failedArgs(layout.Quorum), queue)
	const id, kind = "id \xff\xfe", "type \xff"
	b.publish(failed, amqp091.Publishing{MessageId: id, Type: kind, AppId: "text"}, true)
	var file bytes.Buffer
	_, err := a.Export(b.context(), queue, &file, admin.Filter{})
	b.must(err)
	_, err = a.Discard(b.context(), queue, admin.Options{})
	b.must(err)
	_, err = a.Import(b.context(), &file)
	b.must(err)
	found, err := a.Failed(b.context(), queue, 1, admin.Filter{})
	b.must(err)
	if len(found) != 1 || found[0].ID != id || found[0].Type != kind || found[0].AppID != "text" {
		b.t.Errorf("after the import: got %+v, want the id %q and the type %q", found, id, kind)
	}
}

// looks: however a queue is looked at, its messages stay in their order. There are three windows of them.
func (b *Bench) reads(args amqp091.Table) {
	const n = 340
	b.declare(failed, args)
	b.fill(failed, n)
	a := b.admin()
	b.wantIDs("export", b.exported(a, admin.Filter{}), n, nil)
	for _, most := range []int{3, 40, n, 1, 300} {
		found, err := a.Failed(b.context(), queue, most, admin.Filter{})
		b.must(err)
		b.wantIDs("list", idsOf(found), most, nil)
	}
	one, err := a.Failed(b.context(), queue, 1, admin.Filter{IDs: []string{"300"}})
	b.must(err)
	if len(one) != 1 || one[0].ID != "300" {
		b.t.Fatalf("list of one id: got %v, want 300", idsOf(one))
	}
	third := func(i int) bool { return i%3 == 0 }
	b.wantIDs("filtered export", b.exported(a, admin.Filter{Header: map[string]string{"third": "0"}}), n, third)
	if count, err := a.CountFailed(b.context(), queue, admin.Filter{Header: map[string]string{"third": "0"}}); err != nil || count.Messages != (n+2)/3 {
		b.t.Fatalf("count: got %d and %v, want %d", count.Messages, err, (n+2)/3)
	}
	b.wantDepth(failed, n)
	b.wantIDs("what is in the queue", b.takeAll(failed), n, nil)
}

// little is how many bytes come from the broker for a few small messages and all that belongs to them.
const little = 256 << 10

// wantLittle checks that what an admin does has not read the queue.
func (b *Bench) wantLittle(what string, do func(a *admin.Admin)) {
	b.t.Helper()
	wire := &cable{dial: b.Dial}
	do(b.admin(func(c *admin.Config) { c.Dial = wire.connect }))
	if got := wire.bytes.Load(); got > little {
		b.t.Errorf("%s: got %d bytes from the broker, want at most %d", what, got, little)
	}
}

// listOfOne: to list one message does not read a queue, although all were given back before.
func (b *Bench) listOfOne(args amqp091.Table) {
	const n = 1100 // more than are read to keep the order
	b.declare(failed, args)
	b.fill(failed, n, func(_ int, p *amqp091.Publishing) { p.Body = make([]byte, 2<<10) })
	b.exported(b.admin(), admin.Filter{})
	b.wantLittle("a list of one", func(a *admin.Admin) {
		found, err := a.Failed(b.context(), queue, 1, admin.Filter{})
		b.must(err)
		b.wantIDs("list", idsOf(found), 1, nil)
	})
	b.wantDepth(failed, n)
}

// listOfOneLarge: the same for a few messages that are large.
func listOfOneLarge(b *Bench) {
	const n = 20
	size := b.room() / 32
	b.declare(failed, failedArgs(layout.Quorum))
	b.fill(failed, n, func(_ int, p *amqp091.Publishing) { p.Body = make([]byte, size) })
	b.exported(b.admin(b.narrow), admin.Filter{})
	wire := &cable{dial: b.Dial}
	found, err := b.admin(b.narrow, func(c *admin.Config) { c.Dial = wire.connect }).Failed(b.context(), queue, 1, admin.Filter{})
	b.must(err)
	b.wantIDs("list", idsOf(found), 1, nil)
	if got := wire.bytes.Load(); got > int64(2*size) {
		b.t.Errorf("got %d bytes from the broker, want not much more than one message of %d", got, size)
	}
}

// replayOfOne: a replay that gives nothing back does not read the others, and they stay in their order.
func replayOfOne(b *Bench) {
	const n = 500
	b.declare(failed, failedArgs(layout.Quorum), queue)
	b.fill(failed, n, func(_ int, p *amqp091.Publishing) { p.Body = make([]byte, 2<<10) })
	b.exported(b.admin(), admin.Filter{})
	b.wantLittle("a replay of one", func(a *admin.Admin) {
		p, err := a.Replay(b.context(), queue, admin.Options{Limit: 1})
		b.must(err)
		if p.Done != 1 {
			b.t.Errorf("got %+v, want one done", p)
		}
	})
	b.wantIDs("replayed", b.takeAll(queue), 1, nil)
	b.wantIDs("kept", b.takeAll(failed), n, func(i int) bool { return i > 0 })
}

// filteredReplay: what is replayed comes in its order, and what stays stays in its order.
func (b *Bench) filteredReplay(args amqp091.Table) {
	const n = 400
	b.declare(failed, args, queue)
	b.fill(failed, n)
	a := b.admin()
	b.exported(a, admin.Filter{}) // so that all were given back once
	p, err := a.Replay(b.context(), queue, admin.Options{Filter: admin.Filter{Header: map[string]string{"third": "1"}}})
	b.must(err)
	if want := (admin.Progress{Seen: n, Done: n / 3, Kept: n - n/3, Total: n}); p != want {
		b.t.Fatalf("progress: got %+v, want %+v", p, want)
	}
	b.wantIDs("replayed", b.takeAll(queue), n, func(i int) bool { return i%3 == 1 })
	b.wantIDs("kept", b.takeAll(failed), n, func(i int) bool { return i%3 != 1 })
}

// limitedReplay: the first are taken, and no others.
func limitedReplay(b *Bench) {
	const n = 400
	b.declare(failed, failedArgs(layout.Quorum), queue)
	b.fill(failed, n)
	a := b.admin()
	b.exported(a, admin.Filter{})
	for _, c := range []struct{ limit, first, end int }{{1, 0, 1}, {299, 1, 300}, {50, 300, 350}} {
		p, err := a.Replay(b.context(), queue, admin.Options{Limit: c.limit})
		b.must(err)
		if p.Done != c.limit {
			b.t.Fatalf("limit %d: got %+v, want as many done", c.limit, p)
		}
		b.wantIDs("replayed", b.takeAll(queue), c.end, func(i int) bool { return i >= c.first })
	}
	b.wantIDs("kept", b.takeAll(failed), n, func(i int) bool { return i >= 350 })
}

// limitedReplayTakesNoOther: messages behind the limit are not delivered, so they need not be returned.
func limitedReplayTakesNoOther(b *Bench) {
	const n, limit = 400, 50
	b.declare(failed, failedArgs(layout.Quorum), queue)
	b.fill(failed, n)
	p, err := b.admin().Replay(b.context(), queue, admin.Options{Limit: limit})
	b.must(err)
	if p.Done != limit {
		b.t.Fatalf("limit %d: got %+v, want as many done", limit, p)
	}
	d, _, err := b.ch.Get(failed, true)
	b.must(err)
	if d.MessageId != strconv.Itoa(limit) || d.Redelivered {
		b.t.Errorf("the first that stays: got %q, redelivered %v, want %d, not redelivered", d.MessageId, d.Redelivered, limit)
	}
}

// limitedReplayOfLateMessages: a replay has taken all that it wants when messages come that the broker has sent before. They stay in their place.
func limitedReplayOfLateMessages(b *Bench) {
	const n, first = 100, 5
	b.declare(failed, failedArgs(layout.Quorum), queue)
	b.fill(failed, n)
	b.exported(b.admin(), admin.Filter{}) // so that all were given back once
	var ids []string
	for i := range first {
		ids = append(ids, strconv.Itoa(i))
	}
	late := &lateDeliveries{dial: b.Dial, after: first}
	a := b.admin(func(c *admin.Config) { c.Dial = late.connect })
	p, err := a.Replay(b.context(), queue, admin.Options{Filter: admin.Filter{IDs: ids}, Limit: first})
	b.must(err)
	if p.Done != first || !late.came.Load() {
		b.t.Fatalf("got %+v, deliveries that came late %v, want %d done and such deliveries", p, late.came.Load(), first)
	}
	b.wantIDs("replayed", b.takeAll(queue), first, nil)
	b.wantIDs("kept", b.takeAll(failed), n, func(i int) bool { return i >= first })
}

func discard(b *Bench) {
	const n, third = 400, 134
	b.declare(failed, failedArgs(layout.Quorum))
	b.fill(failed, n)
	a := b.admin()
	p, err := a.Discard(b.context(), queue, admin.Options{Filter: admin.Filter{Header: map[string]string{"third": "0"}}})
	b.must(err)
	if p.Done != third || p.Kept != n-third {
		b.t.Fatalf("progress: got %+v, want %d done", p, third)
	}
	b.wantIDs("kept", b.exported(a, admin.Filter{}), n, func(i int) bool { return i%3 != 0 })
	p, err = a.Discard(b.context(), queue, admin.Options{})
	b.must(err)
	if p.Done != n-third || b.depth(failed) != 0 {
		b.t.Fatalf("progress: got %+v, want that the others are gone, too", p)
	}
}

// readByConsumers: messages are read by consumers, each once per command. To get them one by one takes a hundred times as long, and to get all
// those before a message again for each message takes a time that grows with the square of their number.
func readByConsumers(b *Bench) {
	const n, commands = 300, 5
	b.declare(failed, failedArgs(layout.Quorum), queue)
	b.fill(failed, n)
	a := b.admin(b.managed)
	found, err := a.Failed(b.context(), queue, n, admin.Filter{})
	b.must(err)
	b.wantIDs("the list", idsOf(found), n, nil)
	if got, err := a.CountFailed(b.context(), queue, admin.Filter{}); err != nil || got.Messages != n {
		b.t.Fatalf("count: got %+v and %v, want %d messages", got, err, n)
	}
	if got := b.exported(a, admin.Filter{}); len(got) != n {
		b.t.Fatalf("export: got %d messages, want %d", len(got), n)
	}
	if p, err := a.Replay(b.context(), queue, admin.Options{}); err != nil || p.Done != n {
		b.t.Fatalf("replay: got %+v and %v, want %d done", p, err, n)
	}
	b.fill(failed, n)
	if p, err := a.Discard(b.context(), queue, admin.Options{}); err != nil || p.Done != n {
		b.t.Fatalf("discard: got %+v and %v, want %d done", p, err, n)
	}
	var of struct {
		Stats struct {
			Deliver, Get int
			GetNoAck     int `json:"get_no_ack"`
		} `json:"message_stats"`
	}
	// RabbitMQ collects the figures of channels every 5 s. Those of a closed channel are lost if rabbit_core_metrics_gc removes them before, which
	// it does every 2 minutes.
	counted, since := -1, time.Now()
	await.True(b.t, limit, 100*time.Millisecond, "the broker to have counted the deliveries", func() bool {
		b.api(http.MethodGet, "queues", failed, nil, &of)
		if of.Stats.Deliver != counted {
			counted, since = of.Stats.Deliver, time.Now()
		}
		return counted >= commands*n || counted >= n && time.Since(since) > 20*time.Second
	})
	if of.Stats.Deliver > 2*commands*n || of.Stats.Get+of.Stats.GetNoAck > 2*commands {
		b.t.Errorf("%d commands on %d messages: got %d deliveries to consumers and %d by basic.get, want each message delivered once per command and at most two gets per command",
			commands, n, of.Stats.Deliver, of.Stats.Get+of.Stats.GetNoAck)
	}
}
