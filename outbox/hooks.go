package outbox

import (
	"context"
	"time"

	"github.com/rehop/rehop"
)

// Hooks are functions that a [Relay] or a [Spill] calls when something happens. All are optional. Where
// there are several Hooks, they are called in their order.
//
// They are called from the goroutines that do the work, possibly from several at once. They must be
// quick and safe for concurrent use: the work waits until they return.
type Hooks struct {
	// OnBacklog is called every [Relay].Survey by one of the relays of a database, with how much is in
	// the outbox. Nothing is counted if it is not set.
	OnBacklog func(Backlog)

	// OnBatch is called when a batch has ended, and once more if outcomes of it came late. Rates are
	// sums of these.
	OnBatch func(Batch)

	// OnSetAside is called for each message that is set aside because it cannot be published.
	OnSetAside func(SetAside)

	// OnLease is called when a relay gains or loses leases.
	OnLease func(Lease)

	// OnFault is called each time that a relay cannot do its work because of the database. The relay
	// tries again by itself.
	OnFault func(err error)

	// OnSpill is called by [Spill.Publish], on the goroutine of its caller, for a message that went into
	// the outbox, with the reason. A relay does not call it.
	OnSpill func(ctx context.Context, m *rehop.Message, err error)
}

// Backlog is how much is in the outbox.
type Backlog struct {
	Ready    int           // to be published now, those in an order included
	Retrying int           // tried in vain, and to be tried again
	Delayed  int           // waiting until they are due
	SetAside int           // waiting for a person
	Kept     int           // published
	Oldest   time.Duration // for how long the oldest of the ready ones and those retried has been there, or been due
}

// Batch is what became of some messages that a relay has read.
type Batch struct {
	Published int
	Postponed int           // tried again later
	SetAside  int           // never tried again by itself
	Left      int           // untouched: the broker was away, or the relay has lost its lease
	Took      time.Duration // from reading them to the end
}

// SetAside is a message that is not tried again by itself.
type SetAside struct {
	Row       RowID // for [Inspector.Retry] and [Inspector.Discard]
	MessageID string
	Exchange  string
	Key       string
	OrderKey  string
	Err       error
}

// Lease says that a relay has gained or lost the right to publish a part of the messages.
type Lease struct {
	Relay  string
	Gained bool
	Shards []int
	Of     int  // how many there are
	Given  bool // if not gained: given back in order; else it expired or was taken
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

func tell[E any](list []func(E), event E) {
	for _, call := range list {
		call(event)
	}
}
