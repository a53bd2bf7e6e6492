package broker_test

import (
	"testing"

	"github.com/rehop/rehop/broker"
	"github.com/rehop/rehop/broker/internal/access"
	"github.com/rehop/rehop/internal/wire"
)

// On a machine with little memory, the cache of stored messages uses a small part of it, and no publisher waits because of it.
func TestLittleMemoryTakesManyMessages(t *testing.T) {
	const limit, messages, size = 8 << 20, 3000, 8000
	server := start(t, &broker.Server{Dir: t.TempDir(), Sync: broker.SyncNever, MemoryLimit: limit})
	n, err := access.Start(server, nil)
	if err != nil {
		t.Fatal(err)
	}
	p := enter(t, dial(t, server))
	p.sendMethods(1, &wire.QueueDeclare{Queue: "q", Durable: true, Arguments: wire.Table{{Key: "x-queue-type", Value: "quorum"}}}, &wire.ConfirmSelect{})
	expect[*wire.QueueDeclareOK](p)
	expect[*wire.ConfirmSelectOK](p)
	for published := range uint64(messages) {
		p.publish("", "q", wire.Properties{DeliveryMode: 2}, make([]byte, size))
		for expect[*wire.BasicAck](p).DeliveryTag <= published {
		}
		if used, _ := n.Memory(); used > limit/2 {
			t.Fatalf("after %d messages %d KiB of %d are in use, want at most half", published+1, used>>10, limit>>10)
		}
	}
}

// The same holds for unacked messages.
func TestUnackedContentsLeaveBeforeTheAlarm(t *testing.T) {
	const limit, messages, size = 8 << 20, 3000, 8000
	server := start(t, &broker.Server{Dir: t.TempDir(), Sync: broker.SyncNever, MemoryLimit: limit, MessageCache: 1 << 30})
	n, err := access.Start(server, nil)
	if err != nil {
		t.Fatal(err)
	}
	consumer, publisher := enter(t, dial(t, server)), enter(t, dial(t, server))
	consumer.sendMethods(1, &wire.QueueDeclare{Queue: "q", Durable: true}, &wire.BasicConsume{Queue: "q"})
	expect[*wire.QueueDeclareOK](consumer)
	expect[*wire.BasicConsumeOK](consumer)
	for i := range messages {
		publisher.publish("", "q", wire.Properties{DeliveryMode: 2}, make([]byte, size))
		expect[*wire.BasicDeliver](consumer)
		if alarms := n.Alarms(); len(alarms) > 0 {
			t.Fatalf("got %q while a consumer holds %d messages that are on disk, want no alarm", alarms, i+1)
		}
	}
}
