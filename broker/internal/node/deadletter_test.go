package node

import (
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rehop/rehop/broker/internal/store"
	"github.com/rehop/rehop/internal/wire"
)

// send publishes a message to queues like a channel.
func send(v *Vhost, body string, brief wire.Brief, names ...string) {
	var queues []*Queue
	for _, name := range names {
		queues = append(queues, v.Queue(name))
	}
	properties := wire.Properties{DeliveryMode: brief.DeliveryMode}.Append(nil)
	v.node.Publish(&store.Content{Key: names[0], Properties: properties, Body: []byte(body)}, brief, -1, queues)
}

// A dead letter that no queue accepts is kept, also in memory, and moves when a queue does.
func TestDeadLetterWaitsForARoute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := openVhost(t, "")
		_, err := v.DeclareQueue(QueueSpec{Name: "source", Durable: true, Arguments: wire.Table{
			{Key: "x-queue-type", Value: "quorum"}, {Key: "x-message-ttl", Value: int32(1000)}, {Key: "x-overflow", Value: "reject-publish"},
			{Key: "x-dead-letter-exchange", Value: "amq.direct"}, {Key: "x-dead-letter-strategy", Value: "at-least-once"}}})
		if err != nil {
			t.Fatal(err)
		}
		send(v, "kept", wire.Brief{DeliveryMode: 2}, "source")
		time.Sleep(10 * time.Second) // virtual time, in which it dies and finds no queue
		target, err := v.DeclareQueue(QueueSpec{Name: "target", Durable: true})
		if err != nil {
			t.Fatal(err)
		}
		if err := v.Bind(v.Exchange("amq.direct"), Destination{Queue: target}, "source", nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		seen, err := target.PeekMessages()
		if err != nil || len(seen) != 1 || string(seen[0].Body) != "kept" {
			t.Errorf("in the target: got %v, %v, want the message", seen, err)
		}
	})
}

// Many large messages that are dead-lettered at once are moved in steps that fit into the log.
func TestDeadLettersInSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := openVhost(t, "")
		for _, spec := range []QueueSpec{
			{Name: "target", Durable: true},
			{Name: "source", Durable: true, Arguments: wire.Table{{Key: "x-message-ttl", Value: int32(1000)}, {Key: "x-dead-letter-exchange", Value: ""},
				{Key: "x-dead-letter-routing-key", Value: "target"}}},
		} {
			if _, err := v.DeclareQueue(spec); err != nil {
				t.Fatal(err)
			}
		}
		const n = 20
		large := string(make([]byte, lettersAtOnce/3))
		for range n {
			send(v, large, wire.Brief{DeliveryMode: 2}, "source")
		}
		time.Sleep(2 * time.Second)
		if ready, _ := v.Queue("target").Core.Counts(); ready != n {
			t.Errorf("in the target: got %d messages, want %d", ready, n)
		}
	})
}

// A queue that is not on disk keeps its messages in memory, even if another queue had them on disk and has settled them.
func TestSharedMessageStaysWithTransientQueue(t *testing.T) {
	v := openVhost(t, t.TempDir())
	v.node.budget.Limit = 0
	for _, spec := range []QueueSpec{{Name: "durable", Durable: true}, {Name: "transient"}} {
		if _, err := v.DeclareQueue(spec); err != nil {
			t.Fatal(err)
		}
	}
	send(v, "shared", wire.Brief{DeliveryMode: 2}, "durable", "transient")
	v.Queue("durable").Purge()
	seen, err := v.Queue("transient").PeekMessages()
	if err != nil || len(seen) != 1 || string(seen[0].Body) != "shared" {
		t.Errorf("in the transient queue: got %v, %v, want the message", seen, err)
	}
}

// An exclusive queue is not on disk even if it is durable, and neither are its bindings.
func TestExclusiveQueueDoesNotStopAStart(t *testing.T) {
	dir, crashed := t.TempDir(), t.TempDir()
	v := openVhost(t, dir)
	q, err := v.DeclareQueue(QueueSpec{Name: "mine", Durable: true, Exclusive: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := v.Bind(v.Exchange("amq.direct"), Destination{Queue: q}, "key", nil); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(crashed, os.DirFS(dir)); err != nil { // as a power cut leaves it
		t.Fatal(err)
	}
	after := openVhost(t, crashed)
	if after.Queue("mine") != nil || len(after.Bindings()) != 0 {
		t.Errorf("after a crash: got queue %v and bindings %v, want none", after.Queue("mine"), after.Bindings())
	}
}

// Binding a queue that is deleted at the same moment returns an error.
func TestBindDeletedQueue(t *testing.T) {
	v := openVhost(t, "")
	q, err := v.DeclareQueue(QueueSpec{Name: "q"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := q.Delete(false, false); err != nil {
		t.Fatal(err)
	}
	err = v.Bind(v.Exchange("amq.direct"), Destination{Queue: q}, "key", nil)
	if x, ok := err.(*Exception); !ok || x.Code != wire.NotFound {
		t.Errorf("got %v, want 404", err)
	}
}
