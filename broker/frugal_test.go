package broker_test

import (
	"runtime"
	"testing"

	"github.com/rehop/rehop/broker"
	"github.com/rehop/rehop/internal/wire"
)

// A received message costs a few allocations: its content, its entry in a queue, and now and then a page for many.
func TestAllocationsPerMessage(t *testing.T) {
	const at, times = 500, 20
	server := start(t, &broker.Server{Dir: t.TempDir()})
	p := enter(t, dial(t, server))
	p.sendMethods(1, &wire.QueueDeclare{Queue: "q", Durable: true}, &wire.ConfirmSelect{})
	expect[*wire.QueueDeclareOK](p)
	expect[*wire.ConfirmSelectOK](p)
	var frames []byte
	for range at {
		frames = append(frames, message("", "q", wire.Properties{DeliveryMode: 2}, make([]byte, 256))...)
	}
	published := uint64(0)
	publish := func() {
		published += at
		p.send(frames)
		for last := uint64(0); last < published; {
			last = expect[*wire.BasicAck](p).DeliveryTag
		}
	}
	publish() // what is made once
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range times {
		publish()
	}
	runtime.ReadMemStats(&after)
	// Three, and four or five with the race detector, because it empties pools.
	if got := float64(after.Mallocs-before.Mallocs) / (at * times); got > 5 {
		t.Errorf("got %.2f allocations for a message, want at most 5", got)
	}
}
