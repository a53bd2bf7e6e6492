package node

import (
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rehop/rehop/broker/internal/store"
	"github.com/rehop/rehop/internal/wire"
)

// keeper declares a quorum queue whose messages die after a second, and which keeps them until all their target queues have them.
func keeper(t *testing.T, v *Vhost, exchange string) {
	t.Helper()
	declare(t, v, QueueSpec{Name: "source", Durable: true, Arguments: wire.Table{
		{Key: "x-queue-type", Value: "quorum"}, {Key: "x-message-ttl", Value: int32(1000)}, {Key: "x-overflow", Value: "reject-publish"},
		{Key: "x-dead-letter-exchange", Value: exchange}, {Key: "x-dead-letter-strategy", Value: "at-least-once"}}})
}

func declare(t *testing.T, v *Vhost, spec QueueSpec) *Queue {
	t.Helper()
	q, err := v.DeclareQueue(spec)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func (q *Queue) bodies(t *testing.T) (all []string) {
	t.Helper()
	seen, err := q.PeekMessages()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range seen {
		all = append(all, string(s.Body))
	}
	return all
}

// A dead letter for several queues of which one is full goes to the others at once, and only once, and to the full one when that has room.
func TestDeadLetterWaitsForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := openVhost(t, "")
		keeper(t, v, "amq.fanout")
		limited := wire.Table{{Key: "x-max-length", Value: int32(2)}, {Key: "x-overflow", Value: "reject-publish"}}
		roomy, full := declare(t, v, QueueSpec{Name: "roomy"}), declare(t, v, QueueSpec{Name: "full", Arguments: limited})
		for _, q := range []*Queue{roomy, full} {
			if err := v.Bind(v.Exchange("amq.fanout"), Destination{Queue: q}, "", nil); err != nil {
				t.Fatal(err)
			}
		}
		send(v, "before", wire.Brief{}, "full")
		send(v, "before", wire.Brief{}, "full")
		for i := range 4 {
			send(v, fmt.Sprint(i), wire.Brief{DeliveryMode: 2}, "source")
		}
		check := func(when string, q *Queue, want ...string) {
			t.Helper()
			if got := q.bodies(t); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%s: got %v in %s, want %v", when, got, q.Name, want)
			}
		}
		time.Sleep(time.Minute)
		check("while the other is full", roomy, "0", "1", "2", "3")
		check("at first", full, "before", "before")
		if dying := v.Queue("source").Status().Dying; dying != 4 {
			t.Errorf("the source keeps %d dead letters, want 4", dying)
		}
		full.Purge()
		time.Sleep(2 * time.Second)
		check("with room for two", full, "0", "1")
		full.Purge()
		time.Sleep(2 * time.Second)
		check("with room for the rest", full, "2", "3")
		check("at the end", roomy, "0", "1", "2", "3")
		if dying := v.Queue("source").Status().Dying; dying != 0 {
			t.Errorf("the source keeps %d dead letters at the end, want none", dying)
		}
	})
}

// If a queue accepts fewer dead letters than die, it gets them in the order in which they died: none waits behind younger ones.
func TestOldestDeadLetterFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const letters = 300
		v := openVhost(t, "")
		keeper(t, v, "amq.fanout")
		target := declare(t, v, QueueSpec{Name: "target", Arguments: wire.Table{{Key: "x-max-length", Value: int32(1)}, {Key: "x-overflow", Value: "reject-publish"}}})
		roomy := declare(t, v, QueueSpec{Name: "roomy"})
		for _, q := range []*Queue{target, roomy} {
			if err := v.Bind(v.Exchange("amq.fanout"), Destination{Queue: q}, "", nil); err != nil {
				t.Fatal(err)
			}
		}
		var got []string
		take := func() {
			got = append(got, target.bodies(t)...)
			target.Purge()
		}
		for i := range letters {
			send(v, fmt.Sprint(i), wire.Brief{DeliveryMode: 2}, "source")
			time.Sleep(100 * time.Millisecond)
			if i%5 == 0 {
				take()
			}
		}
		during := len(got)
		if during < letters/10 {
			t.Errorf("got %d letters while others died, want one each time that there was room, so at least %d", during, letters/10)
		}
		for range 2 * letters {
			time.Sleep(time.Second)
			take()
		}
		if len(got) != letters {
			t.Errorf("got %d letters, want %d", len(got), letters)
		}
		for i, body := range got {
			if body != fmt.Sprint(i) {
				t.Fatalf("letter %s came as number %d: younger ones have overtaken it (%d came while others died)", body, i, during)
			}
		}
		if all := len(roomy.bodies(t)); all != letters {
			t.Errorf("the queue with room has %d letters, want %d", all, letters)
		}
	})
}

// A letter that alone is larger than a queue may be delays no other.
func TestTooLargeLetterHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := openVhost(t, "")
		keeper(t, v, "amq.fanout")
		target := declare(t, v, QueueSpec{Name: "target", Arguments: wire.Table{{Key: "x-max-length-bytes", Value: int32(10)}, {Key: "x-overflow", Value: "reject-publish"}}})
		if err := v.Bind(v.Exchange("amq.fanout"), Destination{Queue: target}, "", nil); err != nil {
			t.Fatal(err)
		}
		for _, body := range []string{"far too large", "small", "other"} {
			send(v, body, wire.Brief{DeliveryMode: 2}, "source")
		}
		time.Sleep(10 * time.Second)
		if got := target.bodies(t); fmt.Sprint(got) != "[small other]" {
			t.Errorf("got %v, want both that fit", got)
		}
		if dying := v.Queue("source").Status().Dying; dying != 1 {
			t.Errorf("the source keeps %d dead letters, want the one that is too large", dying)
		}
	})
}

// When a full queue is deleted, nothing waits for it any more.
func TestDeadLetterForgetsADeletedQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := openVhost(t, "")
		keeper(t, v, "amq.fanout")
		for _, q := range []*Queue{declare(t, v, QueueSpec{Name: "roomy"}), declare(t, v, QueueSpec{Name: "full", Arguments: wire.Table{{Key: "x-max-length", Value: int32(0)}, {Key: "x-overflow", Value: "reject-publish"}}})} {
			if err := v.Bind(v.Exchange("amq.fanout"), Destination{Queue: q}, "", nil); err != nil {
				t.Fatal(err)
			}
		}
		send(v, "one", wire.Brief{DeliveryMode: 2}, "source")
		time.Sleep(10 * time.Second)
		if _, err := v.Queue("full").Delete(false, false); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		if got, dying := v.Queue("roomy").bodies(t), v.Queue("source").Status().Dying; len(got) != 1 || dying != 0 {
			t.Errorf("got %v and %d dead letters that wait, want one copy and none", got, dying)
		}
	})
}

// A letter that may not return to a queue delays no other that may enter it.
func TestCycleHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := openVhost(t, "")
		keeper(t, v, "amq.topic")
		other := declare(t, v, QueueSpec{Name: "other", Arguments: wire.Table{{Key: "x-message-ttl", Value: int32(1000)},
			{Key: "x-dead-letter-exchange", Value: ""}, {Key: "x-dead-letter-routing-key", Value: "source"}}})
		send(v, "was there", wire.Brief{DeliveryMode: 2}, "other")
		time.Sleep(5 * time.Second) // after which it waits, with the key "source"
		send(v, "was not", wire.Brief{DeliveryMode: 2}, "source")
		time.Sleep(5 * time.Second)
		if dying := v.Queue("source").Status().Dying; dying != 2 {
			t.Fatalf("%d dead letters wait, want 2", dying)
		}
		if err := v.Bind(v.Exchange("amq.topic"), Destination{Queue: other}, "#", nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		if got := other.Status().Totals.Published; got != 2 {
			t.Errorf("the other queue has got %d messages, want the first and the letter that was not there", got)
		}
	})
}

// Dead letters that wait for a route cost nothing while nothing changes, little when something does, however many there are, and all move when there is a route.
func TestManyStrandedLetters(t *testing.T) {
	for name, keys := range map[string]int{"one key": 1, "many keys": 5000} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const letters = 5000
				v := openVhost(t, "")
				v.node.Config.MemoryLimit = 1 << 30
				keeper(t, v, "amq.topic")
				for i := range letters {
					c := &store.Content{Key: fmt.Sprint("k", i%keys), Properties: wire.Properties{DeliveryMode: 2}.Append(nil), Body: []byte(fmt.Sprint(i))}
					v.node.Publish(c, wire.Brief{DeliveryMode: 2}, -1, []*Queue{v.Queue("source")})
				}
				time.Sleep(5 * time.Second)
				if dying := v.Queue("source").Status().Dying; dying != letters {
					t.Fatalf("%d dead letters wait, want %d", dying, letters)
				}
				spent := func(what string, most uint64, during func()) {
					t.Helper()
					var before, after runtime.MemStats
					runtime.ReadMemStats(&before)
					during()
					runtime.ReadMemStats(&after)
					if got := after.TotalAlloc - before.TotalAlloc; got > most {
						t.Errorf("%s: %d KiB were allocated, want at most %d", what, got>>10, most>>10)
					}
				}
				spent("a minute in which nothing changes", 1<<20, func() { time.Sleep(time.Minute) })
				// An attempt allocates about 2 KiB.
				const changes = 20
				spent("changes of the topology", changes*triesAtOnce*(4<<10), func() {
					for range changes {
						declare(t, v, QueueSpec{Name: "other"})
						time.Sleep(time.Second)
						if _, err := v.Queue("other").Delete(false, false); err != nil {
							t.Fatal(err)
						}
					}
				})
				target := declare(t, v, QueueSpec{Name: "target"})
				if err := v.Bind(v.Exchange("amq.topic"), Destination{Queue: target}, "#", nil); err != nil {
					t.Fatal(err)
				}
				time.Sleep(2 * time.Second)
				got := target.bodies(t)
				if len(got) != letters {
					t.Fatalf("%d of %d letters have come", len(got), letters)
				}
				for i, body := range got {
					if keys == 1 && body != fmt.Sprint(i) {
						t.Fatalf("letter %d is %s: they are out of order", i, body)
					}
				}
			})
		})
	}
}

// A dead letter that one queue has and a full one has not is copied once, however often the broker is restarted, cleanly or not, and whatever the
// cleaner has copied meanwhile. A queue of the same name that is declared later is another one.
func TestDeadLetterIsCopiedOnce(t *testing.T) {
	for name, restart := range map[string]func(*testing.T, *Vhost) *Vhost{"closed": reopen, "killed": kill, "compacted": compacted} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				m := must{t, openVhost(t, dir)}
				keeper(t, m.v, "amq.fanout")
				bind := func(q *Queue) { m.do(m.v.Bind(m.v.Exchange("amq.fanout"), Destination{Queue: q}, "", nil)) }
				bind(m.queue("roomy"))
				bind(m.queue("full", "x-max-length", int32(1), "x-overflow", "reject-publish"))
				bind(m.queue("other", "x-max-length", int32(1), "x-overflow", "reject-publish"))
				m.publish("", "full", wire.Properties{DeliveryMode: 2}, "before")
				m.publish("", "other", wire.Properties{DeliveryMode: 2}, "before")
				m.publish("", "source", wire.Properties{DeliveryMode: 2}, "one")
				time.Sleep(10 * time.Second)
				for range 3 {
					m.v = restart(t, m.v)
					time.Sleep(10 * time.Second)
					m.wantBodies("roomy", "one")
				}
				m.v.Queue("other").Purge()
				time.Sleep(10 * time.Second)
				for range 3 {
					m.v = restart(t, m.v)
					time.Sleep(10 * time.Second)
					m.wantBodies("roomy", "one")
					m.wantBodies("other", "one")
					m.wantBodies("full", "before")
				}
				_, err := m.v.Queue("roomy").Delete(false, false)
				m.do(err)
				bind(m.queue("roomy"))
				time.Sleep(10 * time.Second)
				m.v = restart(t, m.v)
				m.wantBodies("roomy", "one")
				m.v.Queue("full").Purge()
				time.Sleep(10 * time.Second)
				for range 2 {
					m.wantBodies("roomy", "one")
					m.wantBodies("other", "one")
					m.wantBodies("full", "one")
					if dying := m.v.Queue("source").Status().Dying; dying != 0 {
						t.Errorf("%d dead letters wait at the end, want none", dying)
					}
					m.v = restart(t, m.v)
				}
				m.do(m.v.node.CheckCounts())
				m.do(m.v.node.Close())
			})
		})
	}
}

// A letter that has reached all targets except a queue that is deleted is settled, even if the queues with a copy are deleted too.
func TestDeadLetterOfDeletedQueuesIsSettled(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		m := must{t, openVhost(t, dir)}
		keeper(t, m.v, "amq.fanout")
		for _, q := range []*Queue{m.queue("roomy"), m.queue("full", "x-max-length", int32(0), "x-overflow", "reject-publish")} {
			m.do(m.v.Bind(m.v.Exchange("amq.fanout"), Destination{Queue: q}, "", nil))
		}
		m.publish("", "source", wire.Properties{DeliveryMode: 2}, "one")
		time.Sleep(10 * time.Second)
		_, err := m.v.Queue("roomy").Delete(false, false)
		m.do(err)
		m.v = reopen(t, m.v)
		_, err = m.v.Queue("full").Delete(false, false)
		m.do(err)
		time.Sleep(10 * time.Second)
		if dying := m.v.Queue("source").Status().Dying; dying != 0 {
			t.Errorf("%d dead letters wait, want none", dying)
		}
		m.do(m.v.node.Close())
	})
}

// compacted closes a node, compacts its directory and opens it again.
func compacted(t *testing.T, v *Vhost) *Vhost {
	t.Helper()
	m := must{t, v}
	m.do(v.node.Close())
	_, _, err := store.Compact(t.Context(), store.Dir(v.node.Config.Dir))
	m.do(err)
	return openVhost(t, v.node.Config.Dir)
}
