package node

import (
	"sync"
	"sync/atomic"

	"github.com/rehop/rehop/internal/wire"
)

// Alarm is a reason to take no messages.
type Alarm string

// The alarms. Reasons are worded as RabbitMQ words them.
const (
	MemoryAlarm Alarm = "low on memory"
	DiskAlarm   Alarm = "low on disk"
	// FailedAlarm is raised for good when a write or a sync has failed.
	FailedAlarm Alarm = "unable to write to its disk"
	// TestAlarm is raised by tests.
	TestAlarm Alarm = "blocked by a test"
)

// alarms stop connections that publish while something runs short. Others go on, so that queues can be emptied.
type alarms struct {
	node   *Node
	any    atomic.Bool
	memory atomic.Bool

	turn    sync.Mutex // one change at a time, so that clients hear of them in order
	mu      sync.Mutex
	cleared sync.Cond
	raised  map[Alarm]bool
	over    bool
}

func (a *alarms) init(n *Node) {
	a.node = n
	a.cleared.L = &a.mu
	a.raised = make(map[Alarm]bool)
}

// SetAlarm raises or clears an alarm.
func (n *Node) SetAlarm(which Alarm, raised bool) {
	n.alarms.turn.Lock()
	changed := n.setAlarm(which, raised)
	n.alarms.turn.Unlock()
	n.logAlarm(which, raised, changed)
}

func (n *Node) logAlarm(which Alarm, raised, changed bool) {
	switch {
	case !changed:
	case raised:
		n.log.Warn("publishers are blocked", "reason", string(which))
	default:
		n.log.Info("publishers go on")
	}
}

// setAlarm is SetAlarm for those whose turn it is. It reports whether publishers are blocked now, or no longer.
func (n *Node) setAlarm(which Alarm, raised bool) (changed bool) {
	a := &n.alarms
	a.mu.Lock()
	before := len(a.raised) > 0
	if raised {
		a.raised[which] = true
	} else {
		delete(a.raised, which)
	}
	after := len(a.raised) > 0
	a.any.Store(after)
	if !after {
		a.cleared.Broadcast()
	}
	a.mu.Unlock()
	if before == after {
		return false
	}
	for _, c := range n.openConnections() {
		c.alarmChanged(which, after)
	}
	return true
}

// Alarms returns what is raised.
func (n *Node) Alarms() (raised []Alarm) {
	a := &n.alarms
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, alarm := range []Alarm{FailedAlarm, MemoryAlarm, DiskAlarm, TestAlarm} {
		if a.raised[alarm] {
			raised = append(raised, alarm)
		}
	}
	return raised
}

// checkMemory raises or clears the alarm for memory. It costs next to nothing when there is nothing to do.
func (n *Node) checkMemory() {
	if !n.memoryTurns() {
		return
	}
	a := &n.alarms
	a.turn.Lock()
	before := a.memory.Load()
	high, changed := before, false
	switch {
	case n.plentiful():
		n.budget.Tighten(false)
		high = false
	case n.short() && !before:
		// What is on disk too leaves memory first. As long as memory is tight it stays away, so this walk through all messages is not repeated soon.
		if !n.budget.Tight() {
			n.budget.Tighten(true)
			n.unload()
		}
		high = n.short()
	}
	if high != before {
		a.memory.Store(high)
		changed = n.setAlarm(MemoryAlarm, high)
	}
	a.turn.Unlock()
	if high && !before {
		n.hoards.watch()
	}
	n.logAlarm(MemoryAlarm, high, changed)
}

// memoryTurns reports whether memory has become short, or plentiful again.
func (n *Node) memoryTurns() bool {
	if n.budget.Tight() {
		return n.plentiful() || !n.alarms.memory.Load() && n.short()
	}
	return n.short()
}

// wait returns when no alarm is raised, or when over says that waiting is of no use.
func (a *alarms) wait(over func() bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for len(a.raised) > 0 && !a.over && !over() {
		a.cleared.Wait()
	}
}

// wake has those who wait look again.
func (a *alarms) wake() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.cleared.Broadcast()
}

func (a *alarms) stop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.over = true
	a.cleared.Broadcast()
}

// alarmChanged tells a client that has published that it is blocked, or free again.
func (c *Connection) alarmChanged(which Alarm, raised bool) {
	if !c.published.Load() || !c.opened.Load() {
		return
	}
	if raised {
		c.tellBlocked(which)
	} else if c.blocked.CompareAndSwap(true, false) && c.hears("connection.blocked") {
		c.out.send(0, &wire.ConnectionUnblocked{})
	}
}

func (c *Connection) tellBlocked(which Alarm) {
	if c.blocked.CompareAndSwap(false, true) && c.hears("connection.blocked") {
		c.out.send(0, &wire.ConnectionBlocked{Reason: string(which)})
	}
}

// onlyMemory reports whether no alarm is raised but the one for memory, at the most.
func (a *alarms) onlyMemory() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.raised) == 0 || len(a.raised) == 1 && a.raised[MemoryAlarm]
}

// awaitUnblocked stops reading from a connection that publishes while an alarm is raised. While only memory is short, what it has begun is completed or
// committed first, which takes no more memory than was counted when it began; but nothing new begins.
func (c *Connection) awaitUnblocked() {
	n := c.node
	if !n.alarms.any.Load() || !c.published.Load() || c.hoarded > 0 && n.alarms.onlyMemory() {
		return
	}
	c.awaitNoAlarm()
}

// awaitNoAlarm waits until no alarm is raised.
func (c *Connection) awaitNoAlarm() {
	n := c.node
	if raised := n.Alarms(); len(raised) > 0 {
		c.tellBlocked(raised[0])
	}
	n.alarms.wait(func() bool { return c.isLeaving() || c.out.isBroken() })
	// The alarm may have been cleared before this connection was told that it is blocked.
	if c.blocked.CompareAndSwap(true, false) && c.hears("connection.blocked") {
		c.out.send(0, &wire.ConnectionUnblocked{})
	}
}
