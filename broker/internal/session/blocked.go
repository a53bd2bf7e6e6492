package session

import (
	"github.com/rehop/rehop/broker/internal/node"
	"github.com/rehop/rehop/internal/wire"
)

// alarmChanged notifies a client that has published that it is blocked or unblocked.
func (c *Connection) alarmChanged(which node.Alarm, raised bool) {
	if !c.published.Load() || !c.opened.Load() {
		return
	}
	if raised {
		c.sendBlocked(which)
	} else {
		c.sendUnblocked()
	}
}

func (c *Connection) sendBlocked(which node.Alarm) {
	if c.blocked.CompareAndSwap(false, true) && c.hasCapability("connection.blocked") {
		c.out.send(0, &wire.ConnectionBlocked{Reason: string(which)})
	}
}

func (c *Connection) sendUnblocked() {
	if c.blocked.CompareAndSwap(true, false) && c.hasCapability("connection.blocked") {
		c.out.send(0, &wire.ConnectionUnblocked{})
	}
}

// awaitUnblocked stops reading from a connection that publishes while an alarm is raised. If only memory is short, the
// connection can complete or commit what it has begun, whose memory was counted before, but it can begin nothing new.
func (c *Connection) awaitUnblocked() {
	alarms := &c.node.ResourceAlarms
	if alarms.Raised.Load() && c.published.Load() && !(c.largeIncomplete > 0 && alarms.OnlyMemory()) {
		c.awaitNoAlarm()
	}
}

// awaitNoAlarm waits until no alarm is raised.
func (c *Connection) awaitNoAlarm() {
	n := c.node
	if raised := n.Alarms(); len(raised) > 0 {
		c.sendBlocked(raised[0])
	}
	n.ResourceAlarms.Wait(func() bool { return c.isClosing() || c.out.isBroken() })
	c.sendUnblocked() // alarmChanged may have been called before sendBlocked
}
