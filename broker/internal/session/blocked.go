package session

import (
	"github.com/rehop/rehop/broker/internal/node"
	"github.com/rehop/rehop/internal/wire"
)

// alarmChanged tells a client that has published that it is blocked, or free again.
func (c *Connection) alarmChanged(which node.Alarm, raised bool) {
	if !c.published.Load() || !c.opened.Load() {
		return
	}
	if raised {
		c.sendBlocked(which)
	} else if c.blocked.CompareAndSwap(true, false) && c.hasCapability("connection.blocked") {
		c.out.send(0, &wire.ConnectionUnblocked{})
	}
}

func (c *Connection) sendBlocked(which node.Alarm) {
	if c.blocked.CompareAndSwap(false, true) && c.hasCapability("connection.blocked") {
		c.out.send(0, &wire.ConnectionBlocked{Reason: string(which)})
	}
}

// awaitUnblocked stops reading from a connection that publishes while an alarm is raised. While only memory is short, what it has begun is completed or
// committed first, which takes no more memory than was counted when it began; but nothing new begins.
func (c *Connection) awaitUnblocked() {
	n := c.node
	if !n.ResourceAlarms.Raised.Load() || !c.published.Load() || c.largeIncomplete > 0 && n.ResourceAlarms.OnlyMemory() {
		return
	}
	c.awaitNoAlarm()
}

// awaitNoAlarm waits until no alarm is raised.
func (c *Connection) awaitNoAlarm() {
	n := c.node
	if raised := n.Alarms(); len(raised) > 0 {
		c.sendBlocked(raised[0])
	}
	n.ResourceAlarms.Wait(func() bool { return c.isClosing() || c.out.isBroken() })
	// The alarm may have been cleared before this connection was told that it is blocked.
	if c.blocked.CompareAndSwap(true, false) && c.hasCapability("connection.blocked") {
		c.out.send(0, &wire.ConnectionUnblocked{})
	}
}
