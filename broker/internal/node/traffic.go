package node

import (
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

// TrafficCounter counts that for a channel or a virtual host.
type TrafficCounter struct{ received, awaited, published, Confirmed, routed, returned, dropped atomic.Uint64 }

func (t *TrafficCounter) Sum() Traffic {
	return Traffic{Received: t.received.Load(), Awaited: t.awaited.Load(), Published: t.published.Load(), Confirmed: t.Confirmed.Load(), Routed: t.routed.Load(),
		Returned: t.returned.Load(), Dropped: t.dropped.Load()}
}

// Receive counts a message that has come whole.
func (t *TrafficCounter) Receive(awaited bool) {
	t.received.Add(1)
	if awaited {
		t.awaited.Add(1)
	}
}

// Publish counts a message that goes to some queues.
func (t *TrafficCounter) Publish(routed int) {
	t.published.Add(1)
	t.routed.Add(uint64(routed))
}

// Unroutable counts a message that no queue is to get.
func (t *TrafficCounter) Unroutable(returned bool) {
	if returned {
		t.returned.Add(1)
	} else {
		t.dropped.Add(1)
	}
}

// Traffic returns what the publishers of a virtual host did.
func (v *Vhost) Traffic() Traffic { return v.Publishing.Sum() }
