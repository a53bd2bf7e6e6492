package outbox

import (
	"sync"
	"time"
)

// probation prevents a relay from holding leases that it cannot use while another relay is alive: it may be able to renew them but not to
// read messages, because a permission is missing or its network loses large packets. Such a relay pauses for a while. Then it holds one
// lease, until it has read once.
type probation struct {
	mu     sync.Mutex
	faults int       // times in a row that reading failed
	since  time.Time // when it failed first
	trials int       // how often it has paused since it last read
	until  time.Time // it pauses
}

const (
	toleratedFaults = 2 // so that one timeout of a slow database changes nothing
	longestPause    = 10 * time.Minute
)

func (p *probation) noteRead(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil {
		p.faults, p.trials = 0, 0
		return
	}
	if p.faults++; p.faults == 1 {
		p.since = time.Now()
	}
}

// begin pauses the relay if it could not read for longer than a lease.
func (p *probation) begin(lease time.Duration) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.faults < toleratedFaults && (p.trials == 0 || p.faults == 0) || time.Since(p.since) < lease {
		return false
	}
	p.faults, p.trials = 0, min(p.trials+1, 16)
	p.until = time.Now().Add(min(lease<<p.trials, longestPause))
	return true
}

func (p *probation) paused() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Now().Before(p.until)
}

// share returns how many leases of its part the relay may have.
func (p *probation) share(part int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.trials > 0 {
		return min(part, 1)
	}
	return part
}
