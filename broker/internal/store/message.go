package store

import (
	"math"
	"slices"
)

// QueueID identifies a queue in the log. Ids begin at 1 and are never reused.
type QueueID uint64

// Mark is a position in the order of commits. Mark 0 is always durable.
type Mark uint64

// Content is what a publisher sent.
type Content struct {
	Exchange, Key    string // at most 255 bytes each
	Properties, Body []byte
}

// Death is why a queue has dead-lettered a message, as a number that the caller chooses. The queue holds
// the message until it is settled, but does not deliver it. 0 means that the message is not dead.
type Death uint8

// Hold is a queue's hold on a message.
type Hold struct {
	Queue      QueueID
	Deliveries int   // counted by the queue
	Until      int64 // Unix time in milliseconds until which the message is not delivered; 0: not delayed
	Death      Death
	Copied     []QueueID // the queues that have a copy of the dead letter
}

// NoTTL is the TTL of a message without its own expiration.
const NoTTL = -1

// Meta is what a queue needs of a message without reading its content.
type Meta struct {
	Enqueued   int64 // Unix time in milliseconds
	TTL        int64 // the message's own expiration in milliseconds, or NoTTL
	Priority   uint8
	Persistent bool
	// HasPriority is false for a message without priority.
	HasPriority bool
}

// Message is the handle of a stored message: where it is and which queues hold it. The zero value is a
// message that is not stored. It is meant to be embedded, and must not be copied after a commit.
type Message struct {
	seq      uint64
	enqueued int64

	// The store's mutex protects these. A message is in the list of its segment while a queue holds it.
	segment    *segment
	next, prev *Message
	queue      QueueID // the first holder; most messages have one
	others     *[]holder
	offset     uint32 // of the content in the segment
	deliveries uint32 // to the first holder

	size     uint32 // of the content
	crc      uint32 // of the content
	ttl      uint32 // in milliseconds, or in seconds with flagSeconds
	overhead uint16 // size of the operation that stores it, at most 65,535
	priority uint8
	flags    uint8
}

const (
	flagPersistent = 1 << iota
	flagExpires
	flagSeconds  // the TTL is in seconds, because it is longer than seven weeks
	flagPriority // the message has a priority, which is 0
)

// holder is a queue that has not settled a message.
type holder struct {
	queue      QueueID
	deliveries uint32
}

// Seq returns the number of the message. Later messages have higher numbers. It is 0 until the message is
// committed.
func (m *Message) Seq() uint64 { return m.seq }

// Stored reports whether the message was committed.
func (m *Message) Stored() bool { return m.seq != 0 }

// Meta returns the Meta that the message was published with.
func (m *Message) Meta() Meta {
	ttl := int64(NoTTL)
	if m.flags&flagExpires != 0 {
		ttl = int64(m.ttl)
		if m.flags&flagSeconds != 0 {
			ttl *= 1000
		}
	}
	return Meta{Enqueued: m.enqueued, TTL: ttl, Priority: m.priority, Persistent: m.flags&flagPersistent != 0, HasPriority: hasPriority(m.flags, m.priority)}
}

// hasPriority is also for older logs, which have no flag for it.
func hasPriority(flags, priority uint8) bool { return flags&flagPriority != 0 || priority > 0 }

func (m *Message) setMeta(meta Meta) {
	m.enqueued = meta.Enqueued
	m.priority = meta.Priority
	m.flags = 0
	ttl := max(meta.TTL, 0)
	if meta.TTL >= 0 {
		m.flags |= flagExpires
	}
	if ttl > math.MaxUint32 {
		m.flags |= flagSeconds
		ttl = min((ttl+999)/1000, math.MaxUint32) // rounded up: it must not expire too early
	}
	m.ttl = uint32(ttl)
	if meta.Persistent {
		m.flags |= flagPersistent
	}
	if meta.HasPriority && meta.Priority == 0 {
		m.flags |= flagPriority
	}
}

func (m *Message) setOverhead(n int) { m.overhead = uint16(min(n, math.MaxUint16)) }

// footprint returns about how many bytes the message takes in a segment, and never more than that.
func (m *Message) footprint() int64 { return int64(m.overhead) + int64(m.size) }

func (m *Message) hold(h holder) {
	switch {
	case m.queue == 0:
		m.queue, m.deliveries = h.queue, h.deliveries
	case m.others == nil:
		m.others = &[]holder{h}
	default:
		*m.others = append(*m.others, h)
	}
}

// otherHolders returns all holders but the first.
func (m *Message) otherHolders() []holder {
	if m.others == nil {
		return nil
	}
	return *m.others
}

// release removes a holder, and reports whether it was one.
func (m *Message) release(q QueueID) bool {
	others := m.otherHolders()
	last := len(others) - 1
	if m.queue == q {
		m.queue, m.deliveries = 0, 0
		if last >= 0 {
			m.queue, m.deliveries = others[last].queue, others[last].deliveries
		}
	} else if i := slices.IndexFunc(others, func(h holder) bool { return h.queue == q }); i >= 0 {
		others[i] = others[last]
	} else {
		return false
	}
	m.shorten(last)
	return true
}

// shorten keeps the first n of the other holders.
func (m *Message) shorten(n int) {
	if n <= 0 {
		m.others = nil
		return
	}
	*m.others = (*m.others)[:n]
}

// releaseIf removes the holders for which gone returns true.
func (m *Message) releaseIf(gone func(QueueID) bool) {
	m.shorten(len(slices.DeleteFunc(m.otherHolders(), func(h holder) bool { return gone(h.queue) })))
	if m.queue != 0 && gone(m.queue) {
		m.release(m.queue)
	}
}

func (m *Message) releaseAll() { m.queue, m.deliveries, m.others = 0, 0, nil }

func (m *Message) setDeliveries(q QueueID, n uint32) {
	if m.queue == q {
		m.deliveries = n
		return
	}
	for i := range m.otherHolders() {
		if h := &(*m.others)[i]; h.queue == q {
			h.deliveries = n
		}
	}
}

// holders yields every holder.
func (m *Message) holders(yield func(holder) bool) {
	if m.queue == 0 || !yield(holder{m.queue, m.deliveries}) {
		return
	}
	for _, h := range m.otherHolders() {
		if !yield(h) {
			return
		}
	}
}

func (m *Message) holderCount() int {
	if m.queue == 0 {
		return 0
	}
	return 1 + len(m.otherHolders())
}
