// Package throttle slows down the guessing of passwords.
package throttle

import (
	"container/list"
	"hash/maphash"
	"net/netip"
	"sync"
	"time"
)

// How many failures are free, and what follows.
const (
	freeFailures = 5 // of a user from an address
	firstDelay   = time.Second
	longestDelay = 30 * time.Second
	burst        = 50 // failures of all users from an address; after that there can be one per second
	forgetAfter  = 15 * time.Minute
)

// The table is bounded, whatever clients send.
const (
	maxAddresses = 2048
	maxUsers     = 16 // of an address
)

// Logins counts failed logins by the address that they come from and by user. Nothing is counted by user alone, so a
// stranger cannot lock a user out who has another address.
type Logins struct {
	seed maphash.Seed

	mu     sync.Mutex
	places map[netip.Prefix]*list.Element // of *place
	recent list.List                      // the last used first
}

// place is an address.
type place struct {
	from   netip.Prefix
	users  []record
	tokens float64 // failures that are free now
	filled time.Time
}

// record is a user at an address.
type record struct {
	user     uint64 // hash of the name, which can be long
	failures int
	until    time.Time // all logins before are refused
	used     time.Time
	known    bool // has logged in from there
}

// New returns an empty table.
func New() *Logins {
	return &Logins{seed: maphash.MakeSeed(), places: make(map[netip.Prefix]*list.Element)}
}

// Source returns what an address counts as: an IPv6 client usually has a network of 64 bits to choose from.
func Source(address netip.Addr) netip.Prefix {
	address = address.Unmap().WithZone("")
	bits := address.BitLen()
	if address.Is6() {
		bits = 64
	}
	prefix, _ := address.Prefix(bits) // fails only for the zero address, which is a source of its own
	return prefix
}

// Decide returns how long a client has to wait before its next login, if this one is refused whether its password was
// right or not. 0: the login has the outcome that its password deserves, and is counted. The caller checks the password
// before, and reveals nothing of the result if the login is refused. So guesses in parallel do not help.
func (l *Logins) Decide(from netip.Prefix, user string, right bool) (wait time.Duration) {
	key, now := maphash.String(l.seed, user), time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.place(from, now)
	r := p.record(key, now)
	if now.Sub(r.used) > forgetAfter {
		r.failures = 0
	}
	p.refill(now)
	switch {
	case now.Before(r.until):
		return r.until.Sub(now)
	case !r.known && p.tokens < 1:
		return time.Duration((1 - p.tokens) * float64(time.Second))
	}
	r.used = now
	if right {
		r.failures, r.known = 0, true
		return 0
	}
	r.failures++
	p.tokens = max(p.tokens-1, 0)
	if more := r.failures - freeFailures; more >= 0 {
		r.until = now.Add(min(firstDelay<<min(more, 10), longestDelay))
	}
	return 0
}

// place returns an address, instead of the one that was not used for the longest time if there are too many.
func (l *Logins) place(from netip.Prefix, now time.Time) *place {
	if e, there := l.places[from]; there {
		l.recent.MoveToFront(e)
		return e.Value.(*place)
	}
	if len(l.places) >= maxAddresses {
		oldest := l.recent.Back()
		delete(l.places, l.recent.Remove(oldest).(*place).from)
	}
	p := &place{from: from, tokens: burst, filled: now}
	l.places[from] = l.recent.PushFront(p)
	return p
}

// record returns a user, instead of one that was not used for the longest time if there are too many. Users that have
// logged in are kept before others. A client that invents users loses no failures by this: it has used up its burst.
func (p *place) record(user uint64, now time.Time) *record {
	oldest := 0
	for i := range p.users {
		r := &p.users[i]
		if r.user == user {
			return r
		}
		o := &p.users[oldest]
		if o.known && !r.known || o.known == r.known && r.used.Before(o.used) {
			oldest = i
		}
	}
	if len(p.users) < maxUsers {
		p.users = append(p.users, record{})
		oldest = len(p.users) - 1
	}
	p.users[oldest] = record{user: user, used: now}
	return &p.users[oldest]
}

// refill adds one free failure per second.
func (p *place) refill(now time.Time) {
	p.tokens = min(p.tokens+now.Sub(p.filled).Seconds(), burst)
	p.filled = now
}
