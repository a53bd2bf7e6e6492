// Package queue holds the messages of one queue in order and hands them to its consumers.
package queue

import (
	"math"
	"sync/atomic"

	"github.com/rehop/rehop/broker/internal/store"
)

// Message is a published message, shared by the queues that hold it. Nothing of it changes but whether its
// content is in memory.
type Message struct {
	store.Message
	content atomic.Pointer[store.Content]
	refs    atomic.Int32
	// Size is the length of the body.
	Size uint32
	// Properties is the length of the properties; 65,535 at most.
	Properties uint16
	// Failures of its delivery are those that a dead letter takes along.
	Failures    uint16
	Priority    uint8
	HasPriority bool
	// Persistent is what the publisher asked for by delivery mode 2.
	Persistent bool
	// Pinned messages stay in memory though they are stored: a queue holds them that is not on disk, and the others may let go of
	// them first.
	Pinned bool
}

// NewMessage returns a message that holders queues are about to hold.
func NewMessage(c *store.Content, holders int) *Message {
	m := &Message{Size: uint32(len(c.Body)), Properties: upTo16Bits(len(c.Properties))}
	m.content.Store(c)
	m.refs.Store(int32(holders))
	return m
}

func upTo16Bits(n int) uint16 { return uint16(min(n, math.MaxUint16)) }

// Content returns what was published, or nil if it is on disk alone.
func (m *Message) Content() *store.Content { return m.content.Load() }

// Shared reports whether several queues hold the message.
func (m *Message) Shared() bool { return m.refs.Load() > 1 }

// What is in memory beside the bytes of contents, about: for each message, for its place in each queue that holds it, and for each content that is there.
const (
	overhead        = 112
	placeOverhead   = 64
	contentOverhead = 96
)

// weight is what a content takes: properties and body share their memory, which may have been taken in larger pieces than they need.
func weight(c *store.Content) int64 {
	return int64(contentOverhead + len(c.Exchange) + len(c.Key) + len(c.Properties) + cap(c.Body))
}

// Budget counts what messages take of memory.
type Budget struct {
	// Limit of contents is where those of stored messages begin to leave memory.
	Limit    int64
	contents atomic.Int64 // bytes
	messages atomic.Int64
	places   atomic.Int64
	tight    atomic.Bool
}

// Tighten has the contents of stored messages leave memory at once, whatever the limit, until it is called with false.
func (b *Budget) Tighten(yes bool) { b.tight.Store(yes) }

// Tight reports whether they do.
func (b *Budget) Tight() bool { return b.tight.Load() }

// Used returns the bytes in memory.
func (b *Budget) Used() int64 {
	return b.contents.Load() + overhead*b.messages.Load() + placeOverhead*b.places.Load()
}

// Admit counts a message with the places that it has in queues, or is about to have.
func (b *Budget) Admit(m *Message) {
	b.messages.Add(1)
	b.places.Add(int64(m.refs.Load()))
	if c := m.content.Load(); c != nil {
		b.contents.Add(weight(c))
	}
}

// Load puts the content of a message back into memory, unless no queue holds it any more.
func (b *Budget) Load(m *Message, c *store.Content) {
	if m.content.CompareAndSwap(nil, c) {
		b.contents.Add(weight(c))
	}
	if m.refs.Load() == 0 {
		b.evict(m)
	}
}

// release notes that one queue less holds the message.
func (b *Budget) release(m *Message) {
	b.places.Add(-1)
	if m.refs.Add(-1) > 0 {
		b.spare(m)
		return
	}
	b.evict(m)
	b.messages.Add(-1)
}

// evict takes the content out of memory.
func (b *Budget) evict(m *Message) {
	if c := m.content.Swap(nil); c != nil {
		b.contents.Add(-weight(c))
	}
}

// spare takes the content of a message that is safe on disk out of memory if memory is short.
func (b *Budget) spare(m *Message) {
	if b.tight.Load() || b.contents.Load() > b.Limit {
		b.Unload(m)
	}
}

// Unload takes the content of a message out of memory if it is on disk.
func (b *Budget) Unload(m *Message) {
	if m.Stored() && !m.Pinned {
		b.evict(m)
	}
}

// Recovered returns a message whose content is on disk alone.
func Recovered(f store.Found) *Message {
	return &Message{Size: uint32(f.Body), Properties: upTo16Bits(f.Properties), Priority: f.Priority, HasPriority: f.HasPriority, Persistent: f.Persistent}
}

// Recover counts one more queue that holds a recovered message.
func (b *Budget) Recover(m *Message) {
	if m.refs.Add(1) == 1 {
		b.Admit(m)
		return
	}
	b.places.Add(1)
}
