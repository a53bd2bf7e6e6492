package node

import (
	"sync"
	"sync/atomic"
)

// Alarm is a reason to block publishers.
type Alarm string

// The alarms. RabbitMQ sends the same reasons.
const (
	MemoryAlarm Alarm = "low on memory"
	DiskAlarm   Alarm = "low on disk"
	// FailedAlarm is raised when a write or a sync has failed, and never cleared.
	FailedAlarm Alarm = "unable to write to its disk"
	// TestAlarm is raised by tests.
	TestAlarm Alarm = "blocked by a test"
)

// resourceAlarms block connections that publish while a resource is short. Others continue, so that they can empty queues.
type resourceAlarms struct {
	node   *Node
	Raised atomic.Bool
	Memory atomic.Bool

	turn    sync.Mutex // one change at a time, so that clients receive them in order
	mu      sync.Mutex
	cleared sync.Cond
	raised  map[Alarm]bool
	over    bool
}

func (a *resourceAlarms) init(n *Node) {
	a.node = n
	a.cleared.L = &a.mu
	a.raised = make(map[Alarm]bool)
}

// SetAlarm raises or clears an alarm.
func (n *Node) SetAlarm(which Alarm, raised bool) {
	n.ResourceAlarms.turn.Lock()
	changed := n.setAlarm(which, raised)
	n.ResourceAlarms.turn.Unlock()
	n.logAlarm(which, raised, changed)
}

func (n *Node) logAlarm(which Alarm, raised, changed bool) {
	switch {
	case !changed:
	case raised:
		n.Log.Warn("publishers are blocked", "reason", string(which))
	default:
		n.Log.Info("publishers are no longer blocked")
	}
}

// setAlarm is SetAlarm for callers that hold the turn. It reports whether publishers have become blocked or unblocked.
func (n *Node) setAlarm(which Alarm, raised bool) (changed bool) {
	a := &n.ResourceAlarms
	a.mu.Lock()
	before := len(a.raised) > 0
	if raised {
		a.raised[which] = true
	} else {
		delete(a.raised, which)
	}
	after := len(a.raised) > 0
	a.Raised.Store(after)
	if !after {
		a.cleared.Broadcast()
	}
	a.mu.Unlock()
	if before == after {
		return false
	}
	n.clients.AlarmChanged(which, after)
	return true
}

// Alarms returns the raised alarms.
func (n *Node) Alarms() (raised []Alarm) {
	a := &n.ResourceAlarms
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, alarm := range []Alarm{FailedAlarm, MemoryAlarm, DiskAlarm, TestAlarm} {
		if a.raised[alarm] {
			raised = append(raised, alarm)
		}
	}
	return raised
}

// CheckMemory raises or clears the alarm for memory. It costs next to nothing if nothing has to change.
func (n *Node) CheckMemory() {
	if !n.memoryAlarmMayChange() {
		return
	}
	a := &n.ResourceAlarms
	a.turn.Lock()
	before := a.Memory.Load()
	high, changed := before, false
	switch {
	case n.memoryIsBelowClearMark():
		n.budget.Tighten(false)
		high = false
	case n.memoryIsShort() && !before:
		// First drop from memory what is also on disk. It stays away while memory is tight, so that this walk through
		// all messages is not repeated soon.
		if !n.budget.Tight() {
			n.budget.Tighten(true)
			n.unload()
		}
		high = n.memoryIsShort()
	}
	if high != before {
		a.Memory.Store(high)
		changed = n.setAlarm(MemoryAlarm, high)
	}
	a.turn.Unlock()
	if high && !before {
		n.clients.MemoryShort()
	}
	n.logAlarm(MemoryAlarm, high, changed)
}

// memoryAlarmMayChange reports whether memory has become short, or is no longer short.
func (n *Node) memoryAlarmMayChange() bool {
	if n.budget.Tight() {
		return n.memoryIsBelowClearMark() || !n.ResourceAlarms.Memory.Load() && n.memoryIsShort()
	}
	return n.memoryIsShort()
}

// Wait returns when no alarm is raised, or when over returns true.
func (a *resourceAlarms) Wait(over func() bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for len(a.raised) > 0 && !a.over && !over() {
		a.cleared.Wait()
	}
}

// Wake makes Wait call over again.
func (a *resourceAlarms) Wake() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.cleared.Broadcast()
}

func (a *resourceAlarms) stop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.over = true
	a.cleared.Broadcast()
}

// OnlyMemory reports whether no alarm other than the one for memory is raised.
func (a *resourceAlarms) OnlyMemory() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.raised) == 0 || len(a.raised) == 1 && a.raised[MemoryAlarm]
}
