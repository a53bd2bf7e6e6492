package consume

import (
	"sync"
	"time"

	"github.com/rehop/rehop/internal/envelope"
	"github.com/rehop/rehop/internal/ordering"
	"github.com/rehop/rehop/internal/rabbit"
)

// standBack is how long a process that has released a partition waits before it consumes it again, so that another one has
// it by then, whatever the broker's rule is.
const standBack = 2 * time.Second

// Partitions is what the subscriptions to the partitions of a queue share in a process.
type Partitions struct {
	turns  chan struct{} // has room for the handlers that run at once
	bucket *bucket

	mu       sync.Mutex
	stuck    int // handlers that were abandoned and have not returned
	share    *ordering.Share
	sessions map[int]*ordered // those that are the owners
}

// NewPartitions returns what n partitions share: handlers that run at once, and a rate, unless it is 0.
func NewPartitions(n, concurrency int, rate float64, burst int) *Partitions {
	p := &Partitions{turns: make(chan struct{}, concurrency), share: ordering.NewShare(rabbit.NewID(), n), sessions: make(map[int]*ordered)}
	if rate > 0 {
		p.bucket = newBucket(rate, burst)
	}
	return p
}

// owns notes whether a session is the owner of its partition, and releases what another process is to have. watch calls it
// about once a second.
func (p *Partitions) owns(r *ordered, owns, busy bool) {
	n := r.sub.settings.Order.Partition
	var release []*ordered
	p.mu.Lock()
	if was := p.sessions[n] == r; was != owns {
		delete(p.sessions, n)
		if owns {
			p.sessions[n] = r
		}
	}
	if p.sessions[n] == r || !owns && p.sessions[n] == nil {
		p.share.Own(n, owns, busy)
	}
	for _, n := range p.share.Release(time.Now()) {
		release = append(release, p.sessions[n])
		delete(p.sessions, n)
	}
	p.mu.Unlock()
	for _, r := range release {
		r.sub.shared.Logger.Info("rehop: partition is released, because other processes have fewer", "queue", r.sub.settings.Queue)
		r.event(func(o *ordering.Owner, now time.Time) {
			r.released = true
			o.Stop(now)
		})
	}
}

// wasReleased reports whether the session has ended because another process is to have the partition.
func (r *ordered) wasReleased() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.released
}

// saw notes that another process waits for a partition.
func (p *Partitions) saw(d *rabbit.Delivery) {
	if time.Since(d.Timestamp).Abs() > ordering.ShareEvery+clockSkew {
		return // it was there before this process was
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.share.Saw(envelope.Text(d.Headers[envelope.OrderSession]), envelope.Count(d.Headers[envelope.OrderOwned]), time.Now())
}

// clockSkew is by how much the clocks of processes may differ.
const clockSkew = 30 * time.Second

// present shows the owner of a partition, now and then, that this process waits for it. That goes through the held queue, which the
// owner has read: in the main queue it would come after all messages that wait there.
func (r *ordered) present() {
	if time.Since(r.presented) < ordering.ShareEvery {
		return
	}
	now := time.Now()
	r.presented = now
	p := r.sub.settings.Order.Shared
	p.mu.Lock()
	process, owned := p.share.Process(), p.share.Owned()
	p.mu.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.note(envelope.OrderPresent, func() {
		// If it does not arrive, the next one does.
		_ = r.sub.shared.Mover.Publish(r.ctx, "", r.sub.settings.Order.Held, &rabbit.Publishing{MessageId: rabbit.NewID(), DeliveryMode: rabbit.Persistent,
			Timestamp: now, Headers: rabbit.Table{envelope.OrderKind: envelope.OrderPresent, envelope.OrderSession: process, envelope.OrderOwned: int32(owned)}}, true)
	})
}

// takeTurn waits until a handler may run. False: the session is over.
func (r *ordered) takeTurn() bool {
	select {
	case r.sub.settings.Order.Shared.turns <- struct{}{}:
		return true
	case <-r.over:
	case <-r.sub.stop:
	}
	return false
}

// endTurn lets another handler run.
func (s *Subscription) endTurn() {
	if p := s.settings.Order.Shared; p != nil {
		<-p.turns
	}
}
