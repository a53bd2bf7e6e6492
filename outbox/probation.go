package outbox

import (
	"sync"
	"time"
)

// probation keeps a relay from holding leases with which it can do nothing while another relay lives: it may be able to renew them, and
// still not to read messages, for lack of a right or because its network loses large packets. Such a relay rests for a while. Then it holds
// one lease for a trial, until it has read once.
type probation struct {
	mu     sync.Mutex
	faults int       // times in a row that reading has failed
	since  time.Time // when it failed first
	trials int       // how often it has rested since it has read
	until  time.Time // it rests
}

const (
	patientFaults = 2 // so that one limit that was too short for a slow database changes nothing
	longestRest   = 10 * time.Minute
)

// looked notes how reading ended.
func (p *probation) looked(err error) {
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

// begin has the relay rest if it could not read for longer than a lease.
func (p *probation) begin(lease time.Duration) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.faults < patientFaults && (p.trials == 0 || p.faults == 0) || time.Since(p.since) < lease {
		return false
	}
	p.faults, p.trials = 0, min(p.trials+1, 16)
	p.until = time.Now().Add(min(lease<<p.trials, longestRest))
	return true
}

func (p *probation) rests() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Now().Before(p.until)
}

// share is how many leases the relay may have, of those that are its part.
func (p *probation) share(part int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.trials > 0 {
		return min(part, 1)
	}
	return part
}
