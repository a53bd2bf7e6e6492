// Package queue keeps the messages of one queue in order and delivers them to its consumers.
package queue

import (
	"math"
	"sync/atomic"

	"github.com/rehop/rehop/broker/internal/store"
)

// Message is a published message, shared by the queues that hold it. It does not change, except that
// its content can leave memory and be loaded again.
type Message struct {
	store.Message
	content atomic.Pointer[store.Content]
	refs    atomic.Int32
	// Size is the length of the body.
	Size uint32
	// Properties is the length of the properties; 65,535 at most.
	Properties uint16
	// Failures is how often the delivery of a dead letter failed in earlier queues.
	Failures    uint16
	Priority    uint8
	HasPriority bool
	// Persistent messages were published with delivery mode 2.
	Persistent bool
	// Pinned messages stay in memory although they are stored: a queue that is not on disk holds them,
	// and the others may settle them first.
	Pinned bool
}

// NewMessage returns a message that the given number of queues will hold.
func NewMessage(c *store.Content, holders int) *Message {
	m := &Message{Size: uint32(len(c.Body)), Properties: upTo16Bits(len(c.Properties))}
	m.content.Store(c)
	m.refs.Store(int32(holders))
	return m
}

func upTo16Bits(n int) uint16 { return uint16(min(n, math.MaxUint16)) }

// Content returns the content, or nil if it is only on disk.
func (m *Message) Content() *store.Content { return m.content.Load() }

// Shared reports whether several queues hold the message.
func (m *Message) Shared() bool { return m.refs.Load() > 1 }

// Approximate bytes in memory, in addition to the bytes of contents.
const (
	overhead        = 112 // of each message
	placeOverhead   = 64  // of its place in each queue that holds it
	contentOverhead = 96  // of each content that is in memory
)

// weight is the memory that a content takes. Properties and body share a buffer, which may be larger
// than they need.
func weight(c *store.Content) int64 {
	return int64(contentOverhead + len(c.Exchange) + len(c.Key) + len(c.Properties) + cap(c.Body))
}

// Budget counts the memory that messages take.
type Budget struct {
	// Limit is for the bytes of contents. Above it, contents of stored messages leave memory.
	Limit    int64
	contents atomic.Int64 // bytes
	messages atomic.Int64
	places   atomic.Int64
	tight    atomic.Bool
}

// Tighten lets the contents of stored messages leave memory at once, regardless of the limit, until it is called with false.
func (b *Budget) Tighten(yes bool) { b.tight.Store(yes) }

// Tight reports whether the last call was Tighten(true).
func (b *Budget) Tight() bool { return b.tight.Load() }

// Used returns the bytes in memory.
func (b *Budget) Used() int64 {
	return b.contents.Load() + overhead*b.messages.Load() + placeOverhead*b.places.Load()
}

// Admit counts a message and its places in queues.
func (b *Budget) Admit(m *Message) {
	b.messages.Add(1)
	b.places.Add(int64(m.refs.Load()))
	if c := m.content.Load(); c != nil {
		b.contents.Add(weight(c))
	}
}

// Load puts the content of a message back into memory, unless no queue holds the message any more.
func (b *Budget) Load(m *Message, c *store.Content) {
	if m.content.CompareAndSwap(nil, c) {
		b.contents.Add(weight(c))
	}
	if m.refs.Load() == 0 {
		b.evict(m)
	}
}

// release is called when a queue no longer holds the message.
func (b *Budget) release(m *Message) {
	b.places.Add(-1)
	if m.refs.Add(-1) > 0 {
		b.unloadIfFull(m)
		return
	}
	b.evict(m)
	b.messages.Add(-1)
}

// evict removes the content from memory.
func (b *Budget) evict(m *Message) {
	if c := m.content.Swap(nil); c != nil {
		b.contents.Add(-weight(c))
	}
}

// unloadIfFull removes the content of a stored message from memory if memory is short.
func (b *Budget) unloadIfFull(m *Message) {
	if b.tight.Load() || b.contents.Load() > b.Limit {
		b.Unload(m)
	}
}

// Unload removes the content of a message from memory if it is on disk.
func (b *Budget) Unload(m *Message) {
	if m.Stored() && !m.Pinned {
		b.evict(m)
	}
}

// Recovered returns a message whose content is only on disk.
func Recovered(f store.Found) *Message {
	return &Message{Size: uint32(f.Body), Properties: upTo16Bits(f.Properties), Priority: f.Priority, HasPriority: f.HasPriority, Persistent: f.Persistent}
}

// Recover counts another queue that holds a recovered message.
func (b *Budget) Recover(m *Message) {
	if m.refs.Add(1) == 1 {
		b.Admit(m)
		return
	}
	b.places.Add(1)
}
