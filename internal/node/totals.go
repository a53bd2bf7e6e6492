package node

import "sync/atomic"

// totals count since the node began; queues that are gone are in them.
type totals struct {
	published, confirmed, returned, dropped atomic.Uint64
}

// Totals is what has happened since the node began.
type Totals struct {
	// Published messages, and of these the ones that were confirmed or refused.
	Published, Confirmed uint64
	// Returned messages had no queue and were mandatory; Dropped ones were not.
	Returned, Dropped uint64
}

// Totals returns the counts.
func (n *Node) Totals() Totals {
	t := &n.totals
	return Totals{t.published.Load(), t.confirmed.Load(), t.returned.Load(), t.dropped.Load()}
}
