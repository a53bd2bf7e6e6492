package session

import (
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rehop/rehop/broker/internal/node"
	"github.com/rehop/rehop/internal/wire"
)

// incompleteMessages are the messages of all connections that are not complete or not committed, and so are in no queue.
// Memory for a message is reserved when its header arrives, for all of it. So a message that has begun can always be
// completed, and publishers of large messages take turns instead of waiting for each other. If there is not enough
// memory, the connection is not read until there is. Some clients never complete what they begin: a connection that
// takes long is closed if others wait for its memory. If transactions wait for each other, the youngest is closed.
type incompleteMessages struct {
	node  *Server
	limit int64         // bytes of all
	total *atomic.Int64 // changes with the mutex held

	mu     sync.Mutex
	room   sync.Cond // there may be room, or waiting makes no sense any more
	all    map[*incompleteMessage]struct{}
	queued []*Connection // wait for room and have none; first come, first served
	// waiting is how much room connections wait for, those in line and those that have some already.
	waiting map[*Connection]int64
	// memoryCheck checks incomplete messages while the alarm for memory is raised; nil: it is not.
	memoryCheck *time.Timer
}

// incompleteMessage is a message that is not complete, or a transaction that is not committed.
type incompleteMessage struct {
	conn    *Connection
	size    int64
	began   time.Time
	last    atomic.Pointer[time.Time] // when the last part arrived
	tx      bool
	closing bool // its connection is about to be closed
}

func (h *incompleteMessage) received() {
	now := time.Now()
	h.last.Store(&now)
}

// due is when the connection of an incomplete message is closed, if others wait for its room.
func (h *incompleteMessage) due() time.Time {
	pause := messagePause
	if h.tx {
		pause = transactionPause
	}
	stalled, late := h.last.Load().Add(pause), h.began.Add(incompleteTimeout)
	if stalled.Before(late) {
		return stalled
	}
	return late
}

// reservation is what a connection has reserved for a message or a transaction.
type reservation struct {
	small int
	large *incompleteMessage // nil: it is small
}

const (
	// maxIncomplete is how many bytes of messages that are not complete or not committed a connection may have, in
	// addition to one of the largest messages.
	maxIncomplete = 16 << 20
	// maxSmall is how much of that a connection may always have. It is not counted, because the buffers of the socket
	// are larger. So publishers of small messages never wait for publishers of large ones.
	maxSmall = 64 << 10
	// If others wait for its room, a message or a transaction may take incompleteTimeout. Clients send a message without
	// pauses, so its connection is closed if nothing arrives for messagePause. An application may do other things in a
	// transaction, but not for longer than transactionPause.
	incompleteTimeout = 30 * time.Second
	messagePause      = 2 * time.Second
	transactionPause  = 10 * time.Second
)

// init sets the limit: a quarter of the memory, which is about half with garbage. One of the largest messages must
// always fit.
func (s *incompleteMessages) init(n *Server) {
	s.node = n
	s.total = &n.MemoryUse.Incomplete
	s.limit = max(n.Config.MemoryLimit/4, int64(n.Config.MaxMessage+n.Config.FrameMax+node.PublicationOverhead))
	s.room.L = &s.mu
	s.all = make(map[*incompleteMessage]struct{})
	s.waiting = make(map[*Connection]int64)
}

// reserve takes room for a message whose header has arrived. It waits if there is none. A connection cannot begin many
// large messages on many channels without completing them, or open transactions without limit.
func (c *Connection) reserve(size int) (reservation, error) {
	s := &c.node.incomplete
	limit := min(int64(c.node.Config.MaxMessage+maxIncomplete), s.limit)
	if held := int64(c.smallIncomplete+size) + c.largeIncomplete; held > limit {
		return reservation{}, node.Refuse(wire.ResourceError, "the connection has begun %d bytes of messages that are not complete or not committed, more than %d", held, limit)
	}
	if c.smallIncomplete+size <= maxSmall {
		c.smallIncomplete += size
		return reservation{small: size}, nil
	}
	h, err := s.add(c, int64(size))
	if err != nil {
		return reservation{}, err
	}
	c.node.CheckMemory()
	return reservation{large: h}, nil
}

// release returns a reservation.
func (c *Connection) release(ch reservation) {
	c.smallIncomplete -= ch.small
	if ch.large == nil {
		return
	}
	c.node.incomplete.remove(ch.large)
	c.node.CheckMemory()
}

// join adds a complete message to a transaction.
func (s *incompleteMessages) join(tx *reservation, message reservation) {
	tx.small += message.small
	h := message.large
	if h == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	h.tx = true
	h.received()
	if tx.large == nil {
		tx.large = h
		return
	}
	tx.large.size += h.size
	tx.large.received()
	delete(s.all, h)
}

func (s *incompleteMessages) add(c *Connection, size int64) (*incompleteMessage, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.fits(c, size) {
		if err := s.wait(c, size); err != nil {
			return nil, err
		}
	}
	h := &incompleteMessage{conn: c, size: size, began: time.Now()}
	h.last.Store(&h.began)
	s.all[h] = struct{}{}
	s.total.Add(size)
	c.largeIncomplete += size
	return h, nil
}

func (s *incompleteMessages) remove(h *incompleteMessage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, h)
	s.total.Add(-h.size)
	h.conn.largeIncomplete -= h.size
	s.room.Broadcast()
}

// fits reports whether a connection can have more room now. Connections that have some go before those in line, because
// these may wait for that room.
func (s *incompleteMessages) fits(c *Connection, size int64) bool {
	if s.total.Load()+size > s.limit {
		return false
	}
	return c.largeIncomplete > 0 || len(s.queued) == len(s.waiting) && (len(s.queued) == 0 || s.queued[0] == c)
}

// wait returns when there is room, or why waiting makes no sense. It ends, because connections that have room give it
// back or are closed. The mutex is held.
func (s *incompleteMessages) wait(c *Connection, size int64) error {
	s.mu.Unlock()
	c.flushConfirms() // before it waits, as before it waits for the client
	c.working.Store(true)
	defer c.working.Store(false)
	s.mu.Lock()
	s.waiting[c] = size
	if c.largeIncomplete == 0 {
		s.queued = append(s.queued, c)
	}
	defer func() {
		delete(s.waiting, c)
		s.queued = slices.DeleteFunc(s.queued, func(other *Connection) bool { return other == c })
		s.room.Broadcast() // for the next
	}()
	for !s.fits(c, size) {
		pause := s.makeRoom()
		if why := c.closeReason.Load(); why != nil {
			return why
		}
		if c.out.isBroken() {
			return net.ErrClosed
		}
		again := time.AfterFunc(pause, s.wake)
		s.room.Wait()
		again.Stop()
	}
	return nil
}

// makeRoom closes a connection if nothing else helps, and returns when to try again. It closes one at a time, because
// its room may be enough. The mutex is held.
func (s *incompleteMessages) makeRoom() time.Duration {
	var idle, last *incompleteMessage // the first due of those whose connection does not wait, and the youngest of all
	for h := range s.all {
		if h.closing {
			return incompleteTimeout // it will be closed, which wakes the waiting connections
		}
		if _, waits := s.waiting[h.conn]; !waits && (idle == nil || h.due().Before(idle.due())) {
			idle = h
		}
		if last == nil || h.began.After(last.began) {
			last = h
		}
	}
	for c, size := range s.waiting {
		if s.fits(c, size) {
			return incompleteTimeout // it was woken
		}
	}
	switch {
	case last == nil || !s.node.ResourceAlarms.OnlyMemory(): // while the disk is full, for example, no connection can complete anything
	case idle == nil: // they wait for each other
		s.closeConnection(last, "transactions of several connections wait for each other's memory")
	case time.Until(idle.due()) > 0:
		return time.Until(idle.due())
	default:
		s.closeConnection(idle, idle.overdueReason())
	}
	return incompleteTimeout
}

// overdueReason is what the client receives for a message that should have been complete.
func (h *incompleteMessage) overdueReason() string {
	return fmt.Sprintf("a message or a transaction is not complete after %v, and the broker needs the memory", time.Since(h.began).Truncate(time.Second))
}

// closeConnection closes the connection of an incomplete message. The mutex is held.
func (s *incompleteMessages) closeConnection(h *incompleteMessage, why string) {
	for other := range s.all {
		other.closing = other.closing || other.conn == h.conn
	}
	h.conn.requestClose(&node.Exception{Code: wire.ResourceError, Text: why})
	s.room.Broadcast()
}

// wake makes waiting connections check for room again.
func (s *incompleteMessages) wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.room.Broadcast()
}

// watch starts when the alarm for memory is raised: a connection that does not complete what it has begun must not keep
// all publishers blocked.
func (s *incompleteMessages) watch() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.memoryCheck == nil {
		s.memoryCheck = s.node.Tasks.AfterFunc(messagePause, s.checkMemory)
	}
}

func (s *incompleteMessages) checkMemory() {
	n := s.node
	s.mu.Lock()
	defer s.mu.Unlock()
	if !n.ResourceAlarms.Memory.Load() {
		s.memoryCheck = nil
		return
	}
	if n.ResourceAlarms.OnlyMemory() {
		s.closeBlocking()
	}
	s.memoryCheck.Reset(messagePause)
}

// closeBlocking closes connections, those whose messages are due first, if that clears the alarm for memory. The mutex is held.
func (s *incompleteMessages) closeBlocking() {
	n := s.node
	excess := n.UsedMemory() - n.ClearMark()
	if n.WithGarbage(s.total.Load()) <= excess {
		return // it is raised because of something else
	}
	for _, h := range slices.SortedFunc(maps.Keys(s.all), func(a, b *incompleteMessage) int { return a.due().Compare(b.due()) }) {
		if excess < 0 || time.Until(h.due()) > 0 {
			return
		}
		if !h.closing {
			s.closeConnection(h, h.overdueReason())
		}
		excess -= n.WithGarbage(h.size)
	}
}

// stop ends what watch began.
func (s *incompleteMessages) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.memoryCheck != nil {
		s.memoryCheck.Stop()
	}
}
