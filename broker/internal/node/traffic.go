package node

import "sync/atomic"

// Traffic counts the messages of publishers since the broker started.
type Traffic struct {
	Received  uint64 // including those that could not be published
	Awaited   uint64 // whose publisher waits for a confirm or a transaction
	Published uint64 // routed or not
	Confirmed uint64 // and not refused
	Routed    uint64 // once per queue
	Returned  uint64 // unroutable and mandatory
	Dropped   uint64 // unroutable and not mandatory
}

func (t Traffic) plus(more Traffic) Traffic {
	return Traffic{
		Received: t.Received + more.Received, Awaited: t.Awaited + more.Awaited, Published: t.Published + more.Published, Confirmed: t.Confirmed + more.Confirmed,
		Routed: t.Routed + more.Routed, Returned: t.Returned + more.Returned, Dropped: t.Dropped + more.Dropped,
	}
}

// TrafficCounter counts the traffic of a channel or a virtual host.
type TrafficCounter struct{ received, awaited, published, Confirmed, routed, returned, dropped atomic.Uint64 }

// Sum returns the current counts.
func (t *TrafficCounter) Sum() Traffic {
	return Traffic{Received: t.received.Load(), Awaited: t.awaited.Load(), Published: t.published.Load(), Confirmed: t.Confirmed.Load(), Routed: t.routed.Load(),
		Returned: t.returned.Load(), Dropped: t.dropped.Load()}
}

// Receive counts a complete message.
func (t *TrafficCounter) Receive(awaited bool) {
	t.received.Add(1)
	if awaited {
		t.awaited.Add(1)
	}
}

// Publish counts a message for a number of queues.
func (t *TrafficCounter) Publish(routed int) {
	t.published.Add(1)
	t.routed.Add(uint64(routed))
}

// Unroutable counts a message without a queue.
func (t *TrafficCounter) Unroutable(returned bool) {
	if returned {
		t.returned.Add(1)
	} else {
		t.dropped.Add(1)
	}
}

// Traffic returns the traffic of a virtual host.
func (v *Vhost) Traffic() Traffic { return v.Publishing.Sum() }
