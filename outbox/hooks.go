package outbox

import (
	"context"
	"time"

	"github.com/rehop/rehop"
)

// Hooks are functions that a [Relay] or a [Spill] calls when something happens. All are optional. Where
// there are several Hooks, they are called in their order.
//
// They are called from the goroutines of the relay, possibly from several at once. They must be quick
// and safe for concurrent use: the relay waits until they return.
type Hooks struct {
	// OnBacklog is called every [Relay].Survey by one of the relays of a database, with the number of
	// messages in the outbox. If it is not set, nothing is counted.
	OnBacklog func(Backlog)

	// OnBatch is called at the end of a batch, and once more if some of its outcomes arrived late. Add
	// them up to get rates.
	OnBatch func(Batch)

	// OnSetAside is called for each message that is set aside because it cannot be published.
	OnSetAside func(SetAside)

	// OnLease is called when a relay gains or loses leases.
	OnLease func(Lease)

	// OnFault is called each time that a relay cannot do its work because of the database. The relay
	// keeps trying.
	OnFault func(err error)

	// OnSpill is called by [Spill.Publish], on the goroutine of its caller, for a message that was written
	// to the outbox, with the reason. A relay does not call it.
	OnSpill func(ctx context.Context, m *rehop.Message, err error)
}

// Backlog is the number of messages in the outbox, by their state. Each count stops at [MaxCounted].
type Backlog struct {
	Ready    int           // to be published now, with or without an order key
	Retrying int           // failed, and wait for their next attempt
	Delayed  int           // wait until they are due
	SetAside int           // cannot be published: retry or discard them
	Kept     int           // published
	Oldest   time.Duration // how long the oldest ready or retrying message has been in the outbox, or due
}

// Batch is the number of messages that a relay has read together, by their outcome.
type Batch struct {
	Published int
	Retry     int           // wait for their next attempt
	SetAside  int           // not tried again automatically
	Left      int           // unchanged: the broker was unreachable, or the relay has lost its lease
	Took      time.Duration // from reading them to the end
}

// SetAside is a message that is not tried again automatically.
type SetAside struct {
	Row       RowID // for [Inspector.Retry] and [Inspector.Discard]
	MessageID string
	Exchange  string
	Key       string
	OrderKey  string
	Err       error
}

// Lease is an event: a relay has gained or lost the right to publish some shards.
type Lease struct {
	Relay  string
	Gained bool
	Shards []int
	Of     int  // how many shards there are
	Given  bool // if not gained: the relay has returned the lease; otherwise the lease expired or was taken
}

// hooks are the functions of all Hooks of a relay, by event.
type hooks struct {
	backlog  []func(Backlog)
	batch    []func(Batch)
	setAside []func(SetAside)
	lease    []func(Lease)
	fault    []func(error)
}

func sortHooks(all []Hooks) hooks {
	var h hooks
	for _, on := range all {
		keep(&h.backlog, on.OnBacklog)
		keep(&h.batch, on.OnBatch)
		keep(&h.setAside, on.OnSetAside)
		keep(&h.lease, on.OnLease)
		keep(&h.fault, on.OnFault)
	}
	return h
}

func keep[E any](list *[]func(E), call func(E)) {
	if call != nil {
		*list = append(*list, call)
	}
}

// emit calls each function for an event.
func emit[E any](list []func(E), event E) {
	for _, call := range list {
		call(event)
	}
}
