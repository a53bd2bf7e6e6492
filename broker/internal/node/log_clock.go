package node

import (
	"sync"
	"time"

	"github.com/rehop/rehop/broker/internal/store"
)

// logClock is the clock of the log, for when messages arrived and until when they are delayed. It is the wall clock
// without the time by which that was set while brokers ran. So setting the wall clock, as on a machine that learns the
// time only after its start, makes no message older or younger, even after a restart. What happened to the wall clock
// while no broker ran is unknown: all the time that it shows to have passed counts.
type logClock struct {
	node  *Node
	wall  func() time.Time
	began time.Time // by the monotonic clock
	start int64     // this clock at that time, in milliseconds

	mu    sync.Mutex
	noted int64 // by how much the wall clock was set according to the log, in milliseconds
	timer *time.Timer
}

// clockShift is by how much the wall clock was set while brokers ran.
type clockShift struct {
	Milliseconds int64 `json:"Milliseconds"`
}

const (
	clockShiftKey = "clock" // of the definition
	// clockCheckInterval is how often this clock is compared with the wall clock. If the process is killed, a change
	// since the last comparison is lost.
	clockCheckInterval = time.Minute
	// smallShift is ignored.
	smallShift = time.Second
)

// begin starts the clock with the shift among the definitions.
func (c *logClock) begin(n *Node, all []store.Definition) error {
	c.node, c.wall = n, n.Config.wall
	if c.wall == nil {
		c.wall = time.Now
	}
	var shift clockShift
	if err := restoreOne(all, clockShiftKey, &shift); err != nil {
		return err
	}
	c.noted = shift.Milliseconds
	c.began = time.Now()
	c.start = c.wall().UnixMilli() - c.noted
	return nil
}

// watch starts comparing this clock with the wall clock.
func (c *logClock) watch() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.timer = c.node.Tasks.AfterFunc(clockCheckInterval, c.compare)
}

func (c *logClock) now() int64 { return c.start + time.Since(c.began).Milliseconds() }

func (c *logClock) compare() {
	c.note()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.timer.Reset(clockCheckInterval)
}

// note logs by how much the wall clock was set, if that has changed.
func (c *logClock) note() {
	c.mu.Lock()
	defer c.mu.Unlock()
	shift := c.wall().UnixMilli() - c.now()
	if change := time.Duration(shift-c.noted) * time.Millisecond; change.Abs() < smallShift {
		return
	}
	c.noted = shift
	c.node.define(put(clockShiftKey, clockShift{shift}))
}

// end stops the timer and compares the clocks a last time.
func (c *logClock) end() {
	if c.timer != nil {
		c.timer.Stop()
	}
	c.note()
}
