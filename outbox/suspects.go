package outbox

import (
	"errors"
	"maps"
	"sync"
	"time"
)

// suspects are destinations that have not confirmed a message for long. More messages for them would only wait too, and fill the memory
// and the client's window, until nothing is published at all. So none is sent while one waits, and after that one at a time, until the
// broker answers for one.
type suspects struct {
	mu  sync.Mutex
	all map[destination]*suspect
}

type destination struct{ exchange, key string }

type suspect struct {
	since   time.Time
	waiting int // messages without a confirm
}

// maxSuspects bounds memory. If each message has a key of its own, suspects do not help anyway.
const maxSuspects = 1000

var errSuspect = errors.New("the broker has not confirmed an earlier message with this exchange and key yet")

func destinationOf(r *row) destination { return destination{r.exchange, r.routingKey} }

// addUnconfirmed notes that a message to a destination is not confirmed.
func (s *suspects) addUnconfirmed(d destination) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.all[d]
	if one == nil {
		if len(s.all) == maxSuspects {
			maps.DeleteFunc(s.all, func(_ destination, old *suspect) bool { return old.waiting == 0 })
		}
		if len(s.all) == maxSuspects {
			return
		}
		one = &suspect{since: time.Now()}
		s.all[d] = one
	}
	one.waiting++
}

// doneWaiting notes that the relay no longer waits for a confirm.
func (s *suspects) doneWaiting(d destination) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if one := s.all[d]; one != nil {
		one.waiting = max(0, one.waiting-1)
	}
}

// remove notes that the broker has answered for a message.
func (s *suspects) remove(d destination) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.all) > 0 {
		delete(s.all, d)
	}
}

// check reports whether no message, or only one, may be sent to a destination now, and how long it has been so.
func (s *suspects) check(d destination) (none, one bool, age time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.all) == 0 {
		return false, false, 0
	}
	found := s.all[d]
	if found == nil {
		return false, false, 0
	}
	return found.waiting > 0, true, time.Since(found.since)
}
