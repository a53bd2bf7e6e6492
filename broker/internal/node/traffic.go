package node

import (
	"io"
	"sync/atomic"
)

// Traffic is what publishers did and were told since the broker began.
type Traffic struct {
	Received  uint64 // messages that have come, also such as could not be published
	Awaited   uint64 // of these are those whose publisher waits for a confirm, or for its transaction
	Published uint64 // messages, wherever they went
	Confirmed uint64 // and not refused
	Routed    uint64 // times that a queue was to get one
	Returned  uint64 // because no queue was bound
	Dropped   uint64 // for the same reason, because nobody wanted them back
}

func (t Traffic) plus(more Traffic) Traffic {
	return Traffic{
		Received: t.Received + more.Received, Awaited: t.Awaited + more.Awaited, Published: t.Published + more.Published, Confirmed: t.Confirmed + more.Confirmed,
		Routed: t.Routed + more.Routed, Returned: t.Returned + more.Returned, Dropped: t.Dropped + more.Dropped,
	}
}

// traffic counts that for a channel or a virtual host.
type traffic struct{ received, awaited, published, confirmed, routed, returned, dropped atomic.Uint64 }

func (t *traffic) sum() Traffic {
	return Traffic{Received: t.received.Load(), Awaited: t.awaited.Load(), Published: t.published.Load(), Confirmed: t.confirmed.Load(), Routed: t.routed.Load(),
		Returned: t.returned.Load(), Dropped: t.dropped.Load()}
}

// receive counts a message that has come whole.
func (t *traffic) receive(awaited bool) {
	t.received.Add(1)
	if awaited {
		t.awaited.Add(1)
	}
}

// publish counts a message that goes to some queues.
func (t *traffic) publish(routed int) {
	t.published.Add(1)
	t.routed.Add(uint64(routed))
}

// strand counts a message that no queue is to get.
func (t *traffic) strand(returned bool) {
	if returned {
		t.returned.Add(1)
	} else {
		t.dropped.Add(1)
	}
}

// Traffic returns what the publishers of a virtual host did.
func (v *Vhost) Traffic() Traffic { return v.traffic.sum() }

// Traffic returns what was published on a channel.
func (ch *Channel) Traffic() Traffic { return ch.traffic.sum() }

// meter counts the bytes that are read from a client.
type meter struct {
	source io.Reader
	bytes  atomic.Uint64
}

func (m *meter) Read(p []byte) (int, error) {
	n, err := m.source.Read(p)
	m.bytes.Add(uint64(n))
	return n, err
}
