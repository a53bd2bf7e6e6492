package outbox

import (
	"context"
	"time"

	"github.com/rehop/rehop"
)

// Hook is anything that implements one or more of the hook interfaces below. Hooks are called from the goroutines that do the
// work: they must be quick and safe for concurrent use.
type Hook any

// Backlog is how much is in the outbox.
type Backlog struct {
	Ready    int           // to be published now, those in an order included
	Retrying int           // tried in vain, and to be tried again
	Delayed  int           // waiting until they are due
	SetAside int           // waiting for a person
	Kept     int           // published
	Oldest   time.Duration // for how long the oldest of the ready ones and those retried has been there, or been due
}

// BacklogHook is told from time to time how much there is to do, by one of the relays of a database.
type BacklogHook interface{ OnBacklog(Backlog) }

// Batch is what became of some messages that a relay has read.
type Batch struct {
	Published int
	Postponed int           // tried again later
	SetAside  int           // never tried again by itself
	Left      int           // untouched: the broker was away, or the relay has lost its lease
	Took      time.Duration // from reading them to the end
}

// BatchHook is told of each batch; rates are sums of these.
type BatchHook interface{ OnBatch(Batch) }

// SetAside is a message that is not tried again by itself.
type SetAside struct {
	Row       RowID // for [Inspector.Retry] and [Inspector.Drop]
	MessageID string
	Exchange  string
	Key       string
	OrderKey  string
	Err       error
}

// SetAsideHook is told of messages that cannot be published.
type SetAsideHook interface{ OnSetAside(SetAside) }

// Lease tells that a relay has gained or lost the right to publish a part of the messages.
type Lease struct {
	Relay  string
	Gained bool
	Shards []int
	Of     int  // how many there are
	Given  bool // if not gained: given back in order; else it expired or was taken
}

// LeaseHook is told when a relay gains or loses leases.
type LeaseHook interface{ OnLease(Lease) }

// FaultHook is told when a relay cannot do its work because of the database. It tries again by itself.
type FaultHook interface{ OnFault(err error) }

// SpillHook is told by a Spill of messages that went into the outbox, and why.
type SpillHook interface {
	OnSpill(ctx context.Context, m *rehop.Message, err error)
}

type hooks struct {
	backlog  []BacklogHook
	batch    []BatchHook
	setAside []SetAsideHook
	lease    []LeaseHook
	fault    []FaultHook
}

func sortHooks(all []Hook) hooks {
	var h hooks
	for _, hook := range all {
		keep(&h.backlog, hook)
		keep(&h.batch, hook)
		keep(&h.setAside, hook)
		keep(&h.lease, hook)
		keep(&h.fault, hook)
	}
	return h
}

func keep[T any](list *[]T, hook Hook) {
	if t, ok := hook.(T); ok {
		*list = append(*list, t)
	}
}

func tell[T any](list []T, call func(T)) {
	for _, hook := range list {
		call(hook)
	}
}
