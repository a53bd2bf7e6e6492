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
func (p *Partitions) owns(r *ordered, owns bool) {
	n := r.sub.settings.Order.Partition
	var release []*ordered
	p.mu.Lock()
	if was := p.sessions[n] == r; was != owns {
		delete(p.sessions, n)
		if owns {
			p.sessions[n] = r
		}
		p.share.Own(n, owns)
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

// saw notes a probe of another process.
func (p *Partitions) saw(d *rabbit.Delivery) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.share.Saw(envelope.Text(d.Headers[envelope.OrderProcess]), envelope.Count(d.Headers[envelope.OrderOwned]), time.Now())
}

// present writes into the headers of a probe which process waits, and how many partitions it has.
func (p *Partitions) present(headers map[string]any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	headers[envelope.OrderProcess], headers[envelope.OrderOwned] = p.share.Process(), int32(p.share.Owned())
}

// takeTurn waits until a handler may run. False: the session is over.
func (r *ordered) takeTurn() bool {
	p := r.sub.settings.Order.Shared
	if p == nil {
		return true
	}
	select {
	case p.turns <- struct{}{}:
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
