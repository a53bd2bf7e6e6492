// Package throttle slows down the guessing of passwords.
package throttle

import (
	"container/list"
	"hash/maphash"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// How many failures are free, and what follows.
const (
	freeFailures = 5 // of a user from an address
	firstDelay   = time.Second
	longestDelay = 30 * time.Second
	burst        = 50 // failures from an address, or of a user who is known there; after that there can be one per second
	forgetAfter  = 15 * time.Minute
	knownFor     = 24 * time.Hour // after the last login
)

// The table is bounded, whatever clients send.
const (
	maxAddresses = 2048
	maxUsers     = 16 // of an address that are known there, and as many others
	maxRepeated  = 4  // wrong passwords that are remembered of a user at an address
)

// Logins counts failed logins by the address that they come from and by user. Nothing is counted by user alone, so a
// stranger cannot lock a user out who has another address.
//
// A wrong password that was tried before is not counted: who guesses learns nothing from it, and a forgotten program with
// an old password locks nobody out.
type Logins struct {
	seed maphash.Seed

	mu     sync.Mutex
	places map[netip.Prefix]*list.Element // of *place
	recent list.List                      // the last used first
}

// place is an address.
type place struct {
	from   netip.Prefix
	budget budget   // of users who are not known there
	others []record // their users
	known  []record // users who have logged in from there
}

// record is a user at an address.
type record struct {
	user     uint64 // hash of the name, which can be long
	used     time.Time
	wrong    []uint64 // hashes of the last wrong passwords
	failures int
	until    time.Time // all logins before are refused, unless the user is known
	loggedIn time.Time // zero: never
	budget   budget    // if the user is known
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
//
// A user who has logged in from an address is known there: then only the user's own budget of wrong passwords counts.
// Otherwise whoever shares the address, behind NAT or a proxy, could lock the user out with a few guesses.
func (l *Logins) Decide(from netip.Prefix, user, password string, right bool) (wait time.Duration) {
	key, secret, now := maphash.String(l.seed, user), maphash.String(l.seed, password), time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.place(from, now)
	if r := find(p.known, key); r != nil && now.Sub(r.loggedIn) < knownFor {
		return r.decide(secret, right, now)
	}
	return p.decide(key, secret, right, now)
}

// decide is about a login of a known user.
func (r *record) decide(secret uint64, right bool, now time.Time) (wait time.Duration) {
	if wait := r.budget.wait(now); wait > 0 {
		return wait
	}
	r.used = now
	switch {
	case right:
		r.loggedIn = now
	case !r.repeats(secret):
		r.budget.spend()
	}
	return 0
}

// decide is about a login of another user. A refused one leaves no trace: otherwise invented users could displace a
// record with failures at no cost.
func (p *place) decide(key, secret uint64, right bool, now time.Time) (wait time.Duration) {
	r := find(p.others, key)
	if r != nil && now.Before(r.until) {
		return r.until.Sub(now)
	}
	if wait := p.budget.wait(now); wait > 0 {
		return wait
	}
	if right {
		p.others = slices.DeleteFunc(p.others, func(o record) bool { return o.user == key })
		p.know(record{user: key, used: now, loggedIn: now, budget: budget{burst, now}})
		return 0
	}
	if r == nil {
		r = p.add(key, now)
	}
	if now.Sub(r.used) > forgetAfter {
		r.failures = 0
	}
	r.used = now
	if r.repeats(secret) {
		return 0
	}
	p.budget.spend()
	r.failures++
	if more := r.failures - freeFailures; more >= 0 {
		r.until = now.Add(min(firstDelay<<min(more, 10), longestDelay))
	}
	return 0
}

// repeats reports whether a wrong password was tried before, and remembers it.
func (r *record) repeats(secret uint64) bool {
	if slices.Contains(r.wrong, secret) {
		return true
	}
	if len(r.wrong) == maxRepeated {
		r.wrong = slices.Delete(r.wrong, 0, 1)
	}
	r.wrong = append(r.wrong, secret)
	return false
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
	p := &place{from: from, budget: budget{burst, now}}
	l.places[from] = l.recent.PushFront(p)
	return p
}

func find(records []record, user uint64) *record {
	for i := range records {
		if records[i].user == user {
			return &records[i]
		}
	}
	return nil
}

// know adds a known user, instead of the one that was not used for the longest time if there are too many.
func (p *place) know(r record) {
	p.known = slices.DeleteFunc(p.known, func(o record) bool { return o.user == r.user })
	if len(p.known) < maxUsers {
		p.known = append(p.known, r)
		return
	}
	oldest := &p.known[0]
	for i := range p.known {
		if p.known[i].used.Before(oldest.used) {
			oldest = &p.known[i]
		}
	}
	*oldest = r
}

// add adds another user. If there are too many, it replaces the one with the fewest failures, so that it costs more
// failures to displace a record than it is worth.
func (p *place) add(user uint64, now time.Time) *record {
	r := record{user: user, used: now}
	if len(p.others) < maxUsers {
		p.others = append(p.others, r)
		return &p.others[len(p.others)-1]
	}
	least := &p.others[0]
	for i := range p.others {
		o := &p.others[i]
		if a, b := o.counted(now), least.counted(now); a < b || a == b && o.used.Before(least.used) {
			least = o
		}
	}
	*least = r
	return least
}

// counted is how many failures are not forgotten yet.
func (r *record) counted(now time.Time) int {
	if now.Sub(r.used) > forgetAfter {
		return 0
	}
	return r.failures
}
