package sqlbox

import (
	"context"
	"sync"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/outbox"
)

// recorder is a hook of relays and inboxes that keeps all events.
type recorder struct {
	aside      chan outbox.SetAside
	backlogs   chan outbox.Backlog
	faults     chan error
	duplicates chan string // ids
	spilled    chan error

	mu     sync.Mutex
	total  outbox.Batch
	leases map[string]map[int]bool // by relay
	expiry []outbox.Lease          // those that were lost and not given back
}

func newRecorder() *recorder {
	const room = 1000
	return &recorder{
		aside: make(chan outbox.SetAside, room), backlogs: make(chan outbox.Backlog, room), faults: make(chan error, room),
		duplicates: make(chan string, room), spilled: make(chan error, room), leases: make(map[string]map[int]bool),
	}
}

// offer hands over events without limit, while somebody takes them.
func offer[T any](to chan<- T, v T) {
	select {
	case to <- v:
	default:
	}
}

// hooks are what a relay or a spill calls.
func (r *recorder) hooks() []outbox.Hooks {
	return []outbox.Hooks{{OnBacklog: r.OnBacklog, OnBatch: r.OnBatch, OnSetAside: r.OnSetAside, OnLease: r.OnLease, OnFault: r.OnFault, OnSpill: r.OnSpill}}
}

func (r *recorder) OnSetAside(e outbox.SetAside) { r.aside <- e }

func (r *recorder) OnBacklog(b outbox.Backlog) { offer(r.backlogs, b) }

func (r *recorder) OnFault(err error) { offer(r.faults, err) }

func (r *recorder) OnSpill(_ context.Context, _ *rehop.Message, err error) { r.spilled <- err }

func (r *recorder) OnDuplicate(_ context.Context, _ string, d *rehop.Delivery) { r.duplicates <- d.ID }

func (r *recorder) OnBatch(b outbox.Batch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.total.Published += b.Published
	r.total.Retry += b.Retry
	r.total.SetAside += b.SetAside
	r.total.Left += b.Left
}

func (r *recorder) OnLease(e outbox.Lease) {
	r.mu.Lock()
	defer r.mu.Unlock()
	held := r.leases[e.Relay]
	if held == nil {
		held = make(map[int]bool)
		r.leases[e.Relay] = held
	}
	for _, shard := range e.Shards {
		if e.Gained {
			held[shard] = true
		} else {
			delete(held, shard)
		}
	}
	if !e.Gained && !e.Given {
		r.expiry = append(r.expiry, e)
	}
}

// totals is the sum of all batches.
func (r *recorder) totals() outbox.Batch {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.total
}

// held is how many leases there are with those relays whose events all came to this recorder.
func (r *recorder) held() (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, shards := range r.leases {
		n += len(shards)
	}
	return n
}

// lost is how often leases were lost that were not given back.
func (r *recorder) lost() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.expiry)
}
