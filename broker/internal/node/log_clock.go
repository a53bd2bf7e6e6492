package node

import (
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/rehop/rehop/broker/internal/store"
)

// logClock is the time by which the log notes when messages came and until when they are delayed. It is the wall clock less how far that was set while
// brokers ran. Then a wall clock that is set, as on a machine that learns the time only after its start, makes no message older or younger, also not
// after a restart. Nobody can tell what happened to the wall clock while no broker ran: all that it shows to have passed counts.
type logClock struct {
	node  *Node
	wall  func() time.Time
	began time.Time // by the monotonic clock
	start int64     // what this clock showed then, in milliseconds

	mu    sync.Mutex
	noted int64 // how far the wall clock was set, as the log has it, in milliseconds
	timer *time.Timer
}

// clockShift is how far the wall clock was set while brokers ran.
type clockShift struct {
	Milliseconds int64 `json:"Milliseconds"`
}

const (
	clockShiftKind = "clock"
	// clockCheckInterval is how often this clock is compared with the wall clock: a process that is killed may know nothing of what was set since.
	clockCheckInterval = time.Minute
	// smallShift does not matter.
	smallShift = time.Second
)

func clockShiftKey() string { return definitionKey(clockShiftKind) }

// begin starts the clock with what is stored among the definitions.
func (c *logClock) begin(n *Node, all []store.Definition) error {
	c.node, c.wall = n, n.Config.wall
	if c.wall == nil {
		c.wall = time.Now
	}
	var shift clockShift
	for _, one := range all {
		if one.Key == clockShiftKey() {
			if err := json.Unmarshal(one.Value, &shift); err != nil {
				return fmt.Errorf("definition %s: %w", one.Key, err)
			}
		}
	}
	c.noted = shift.Milliseconds
	c.began = time.Now()
	c.start = c.wall().UnixMilli() - c.noted
	return nil
}

// watch has the wall clock watched from now on.
func (c *logClock) watch() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.timer = time.AfterFunc(clockCheckInterval, c.compare)
}

// now is the time in milliseconds.
func (c *logClock) now() int64 { return c.start + time.Since(c.began).Milliseconds() }

// compare notes regularly whether the wall clock was set.
func (c *logClock) compare() {
	if !c.node.Tasks.Enter() {
		return
	}
	defer c.node.Tasks.Leave()
	c.note()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.timer.Reset(clockCheckInterval)
}

// note notes how far the wall clock was set, if that has changed.
func (c *logClock) note() {
	c.mu.Lock()
	defer c.mu.Unlock()
	shift := c.wall().UnixMilli() - c.now()
	if change := time.Duration(shift-c.noted) * time.Millisecond; change.Abs() < smallShift {
		return
	}
	c.noted = shift
	c.node.define(put(clockShiftKey(), clockShift{shift}))
}

// end notes the last of it.
func (c *logClock) end() {
	if c.timer != nil {
		c.timer.Stop()
	}
	c.note()
}
