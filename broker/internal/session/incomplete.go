package session

import (
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rehop/rehop/broker/internal/node"
	"github.com/rehop/rehop/internal/wire"
)

// incompleteMessages are the messages of all connections that no queue can have yet, because they are not complete or not committed. Room for a message is
// taken when its header comes, for all of it: then a message that has begun can always be completed, and publishers of large messages take turns
// instead of waiting for each other. Who finds no room is not read from until there is. As some never complete what they begin, a connection that
// takes long is closed when others need its room. Transactions may come to wait for each other; then the last that began is closed.
type incompleteMessages struct {
	node  *Server
	limit int64         // bytes of all
	total *atomic.Int64 // changes with the mutex held

	mu     sync.Mutex
	room   sync.Cond // may be there, or waiting is of no use any more
	all    map[*incompleteMessage]struct{}
	queued []*Connection // wait for room and hold none; first come, first served
	// waiting is for how much connections wait, those in line and those that hold room already.
	waiting map[*Connection]int64
	// memoryCheck looks at incomplete messages while the alarm for memory is raised; nil: it is not.
	memoryCheck *time.Timer
}

// incompleteMessage is a message that is not complete, or a transaction that is not committed.
type incompleteMessage struct {
	conn    *Connection
	size    int64
	began   time.Time
	last    atomic.Pointer[time.Time] // when the last part came
	tx      bool
	closing bool // its connection is about to be closed
}

// received notes that a part has come.
func (h *incompleteMessage) received() {
	now := time.Now()
	h.last.Store(&now)
}

// due is when an incomplete message is given up, if others wait for its room.
func (h *incompleteMessage) due() time.Time {
	stall := messagePause
	if h.tx {
		stall = transactionPause
	}
	stalled, late := h.last.Load().Add(stall), h.began.Add(incompleteTimeout)
	if stalled.Before(late) {
		return stalled
	}
	return late
}

// reservation is what a connection is charged for a message or a transaction.
type reservation struct {
	small int
	large *incompleteMessage // nil: it is small
}

const (
	// maxIncomplete is how much a connection may have of messages that are not complete or not committed, beside one of the largest messages.
	maxIncomplete = 16 << 20
	// maxSmall is how much of that a connection may always have. It is not counted: the buffers that it is read into are larger. So no publisher of
	// small messages waits for those of large ones.
	maxSmall = 64 << 10
	// If others wait for its room, a message or a transaction may take hoardGrace. A message that has begun comes without pauses, so that one of which
	// nothing has come for messageStall is given up. An application may do other things in a transaction, but not for longer than transactionStall.
	incompleteTimeout = 30 * time.Second
	messagePause      = 2 * time.Second
	transactionPause  = 10 * time.Second
)

// init sets the limit: a quarter of the memory, which with garbage is about half. One of the largest messages must fit on the smallest machine.
func (s *incompleteMessages) init(n *Server) {
	s.node = n
	s.total = &n.MemoryUse.Incomplete
	s.limit = max(n.Config.MemoryLimit/4, int64(n.Config.MaxMessage+n.Config.FrameMax+node.PublicationOverhead))
	s.room.L = &s.mu
	s.all = make(map[*incompleteMessage]struct{})
	s.waiting = make(map[*Connection]int64)
}

// reserve takes room for a message that a client has begun to send. It waits for others if there is none. One connection may not begin many large
// messages on many channels and finish none, nor open transactions without end.
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

// release gives back what was claimed.
func (c *Connection) release(ch reservation) {
	c.smallIncomplete -= ch.small
	if ch.large == nil {
		return
	}
	c.node.incomplete.remove(ch.large)
	c.node.CheckMemory()
}

// join makes a part of a transaction of a message that is complete.
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

// fits reports whether a connection can have so much now. Those that hold room already go before those in line, because these may wait for that room.
func (s *incompleteMessages) fits(c *Connection, size int64) bool {
	if s.total.Load()+size > s.limit {
		return false
	}
	return c.largeIncomplete > 0 || len(s.queued) == len(s.waiting) && (len(s.queued) == 0 || s.queued[0] == c)
}

// wait returns when there is room, or why there is no use in waiting. It ends, because others that hold room give it back or are closed. The mutex is held.
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

// makeRoom closes a connection if nothing else helps, and returns when to look again. One at a time: its room may be enough. The mutex is held.
func (s *incompleteMessages) makeRoom() time.Duration {
	var idle, last *incompleteMessage // the first due of those that could be completed, and the youngest of all
	for h := range s.all {
		if h.closing {
			return incompleteTimeout // it is about to go, which wakes those who wait
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
			return incompleteTimeout // it has been woken
		}
	}
	switch {
	case last == nil || !s.node.ResourceAlarms.OnlyMemory(): // while the disk is full, for example, nobody can complete anything
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

// wake has those who wait look again.
func (s *incompleteMessages) wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.room.Broadcast()
}

// watch begins when the alarm for memory is raised: a connection that does not complete what it has begun must not keep all publishers blocked.
func (s *incompleteMessages) watch() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.memoryCheck == nil {
		s.memoryCheck = time.AfterFunc(messagePause, s.checkMemory)
	}
}

func (s *incompleteMessages) checkMemory() {
	n := s.node
	if !n.Tasks.Enter() {
		return
	}
	defer n.Tasks.Leave()
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
	byDue := make([]*incompleteMessage, 0, len(s.all))
	for h := range s.all {
		byDue = append(byDue, h)
	}
	slices.SortFunc(byDue, func(a, b *incompleteMessage) int { return a.due().Compare(b.due()) })
	for _, h := range byDue {
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
