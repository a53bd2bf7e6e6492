package session

import (
	"sync"

	"github.com/rehop/rehop/broker/internal/store"
	"github.com/rehop/rehop/internal/wire"
)

// pendingConfirm is the answer to a publish. It is sent when the log is on disk up to a mark.
type pendingConfirm struct {
	tag     uint64
	mark    store.Mark // 0: nothing of the message is in the log
	refused bool
	held    bool // by a test
}

// confirms are the pending confirms of a channel. They are sent in order, so that one frame can confirm many messages.
type confirms struct {
	mu      sync.Mutex
	pending []pendingConfirm
	held    []pendingConfirm // by a test; then each frame confirms one message, because a frame for many would include these
	first   int
	waits   bool // the node will call release
	ended   bool // the channel is closed, and another one may have its number
}

// add adds a confirm. It returns whether the channel must be listed among those that wait for the log.
func (c *confirms) add(v pendingConfirm) (list bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return false
	}
	c.pending = append(c.pending, v)
	if v.mark != 0 && !c.waits {
		c.waits = true
		return true
	}
	return false
}

// end drops all confirms: nothing is sent on a closed channel.
func (c *confirms) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended, c.pending, c.held, c.first = true, nil, nil, 0
}

// restore releases the held confirms.
func (c *confirms) restore() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pending = append(c.held, c.pending[c.first:]...)
	c.held, c.first = nil, 0
	for i := range c.pending {
		c.pending[i].held = false
	}
}

// release appends the frames of all confirms that are on disk at a mark. It returns how many messages they confirm, and
// whether confirms are left.
func (c *confirms) release(channel uint16, mark store.Mark, buf []byte) (_ []byte, confirmed uint64, left bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.first < len(c.pending) {
		v := c.pending[c.first]
		if v.mark > mark {
			break
		}
		if v.held {
			c.held = append(c.held, v)
			c.first++
			continue
		}
		// The longest run with the same answer takes one frame.
		last := c.first
		for len(c.held) == 0 && last+1 < len(c.pending) && c.pending[last+1].refused == v.refused && !c.pending[last+1].held && c.pending[last+1].mark <= mark {
			last++
		}
		tag, multiple := c.pending[last].tag, last > c.first
		if v.refused {
			buf = wire.AppendNack(buf, channel, tag, multiple, false)
		} else {
			buf = wire.AppendAck(buf, channel, tag, multiple)
			confirmed += uint64(last - c.first + 1)
		}
		c.first = last + 1
	}
	if c.first == len(c.pending) {
		c.pending, c.first = c.pending[:0], 0
		c.waits = false
		return buf, confirmed, false
	}
	if c.first > 1024 && c.first > len(c.pending)/2 {
		c.pending = c.pending[:copy(c.pending, c.pending[c.first:])]
		c.first = 0
	}
	return buf, confirmed, true
}

// confirmWaiters are the channels that wait for the log.
type confirmWaiters struct {
	mu      sync.Mutex
	waiting []*Channel
	spare   []*Channel
}

func (c *confirmWaiters) list(ch *Channel) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting = append(c.waiting, ch)
}

// fewChannels is up to how many publishers the goroutine that has synced the log notifies itself. If there are more,
// their connections do it, so that the log continues meanwhile.
const fewChannels = 2

// Synced sends the confirms of messages that are on disk now.
func (n *Server) Synced(mark store.Mark) {
	c := &n.commits
	c.mu.Lock()
	waiting := c.waiting
	c.waiting, c.spare = c.spare[:0], nil
	c.mu.Unlock()
	unlock := (*socketWriter).unlock
	if len(waiting) <= fewChannels {
		unlock = (*socketWriter).flush
	}
	for _, ch := range waiting {
		if ch.releaseConfirms(mark, unlock) {
			c.list(ch)
		}
	}
	clear(waiting)
	c.mu.Lock()
	c.spare = waiting[:0]
	c.mu.Unlock()
}
