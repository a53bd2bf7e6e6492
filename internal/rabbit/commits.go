package rabbit

import "time"

// maxCommits is how many commits of a window may be under way. RabbitMQ's channel keeps acks back from 32 commands on; the others
// are for commits whose end the queue has reported to the channel a little late.
const maxCommits = 24

// commits are the transactions of a window of which nothing shows yet that the queue has their acks.
//
// A window acks in transactions because RabbitMQ's channel makes one command for a quorum queue of all acks of a transaction, and
// one of each ack otherwise. When it answers a commit, it has sent that command, unless it keeps commands back (see pace). A
// command that was sent arrives, also if the connection is lost right then. So a commit is certain if few enough are under way.
//
// The queue applies commands in order. It sends no more messages than the prefetch allows, so a message that came into the room of
// a removed one shows that its commit was applied. The answer to basic.cancel shows it of all that were sent before.
type commits struct {
	before []int     // for each, how many messages were removed before it
	last   time.Time // when the last one was sent
}

// sent notes a commit, before which this many messages were removed.
func (c *commits) sent(before int) {
	c.before = append(c.before, before)
	c.last = time.Now()
}

// applied notes that this many messages came into the room of removed ones.
func (c *commits) applied(room int) {
	for len(c.before) > 0 && c.before[0] < room {
		c.before = c.before[1:]
	}
}

// clear notes that the queue has all of them.
func (c *commits) clear() { c.before = nil }

// areMany reports whether another one might be kept back.
func (c *commits) areMany() bool { return len(c.before) >= maxCommits }

// rest is for how much longer to wait if nothing can show that the queue has them.
func (c *commits) rest() time.Duration { return ackRest - time.Since(c.last) }
