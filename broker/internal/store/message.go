package store

import (
	"math"
	"slices"
)

// QueueID names a queue in the log. Ids begin at 1 and are never used again.
type QueueID uint64

// Mark is a place in the order of commits. Mark 0 is always durable.
type Mark uint64

// Content is what a publisher sent.
type Content struct {
	Exchange, Key    string // at most 255 bytes each
	Properties, Body []byte
}

// Death is why a message has died in a queue, by a number that the caller chooses. A dead message is held until it is settled, as any other, but is not for
// consumers. 0: it is alive.
type Death uint8

// Hold is a queue's hold on a message.
type Hold struct {
	Queue      QueueID
	Deliveries int   // that the queue has counted
	Until      int64 // Unix time in milliseconds before which the message is not for consumers; 0: it was not delayed
	Death      Death
	Copied     []QueueID // those that have a copy of it since it has died
}

// NoTTL is the TTL of a message that does not expire by itself.
const NoTTL = -1

// Meta is what a queue needs to know of a message without reading its content.
type Meta struct {
	Enqueued   int64 // Unix time in milliseconds
	TTL        int64 // the message's own expiration in milliseconds, or NoTTL
	Priority   uint8
	Persistent bool
	// HasPriority tells the priority 0 from none.
	HasPriority bool
}

// Message is the handle of a stored message: where it lies and which queues hold it. The zero value
// is a message that is not stored. It is meant to be embedded and must not be copied once committed.
type Message struct {
	seq      uint64
	enqueued int64

	// The store's mutex guards these. A message is in its segment's list while a queue holds it.
	segment    *segment
	next, prev *Message
	queue      QueueID // the first holder; most messages have one
	others     *[]holder
	offset     uint32 // of the content in the segment
	deliveries uint32 // to the first holder

	size     uint32 // of the content
	crc      uint32 // of the content
	ttl      uint32 // in milliseconds, or in seconds with flagSeconds
	overhead uint16 // what the operation that names it takes, or the largest number that fits
	priority uint8
	flags    uint8
}

const (
	flagPersistent = 1 << iota
	flagExpires
	flagSeconds  // the TTL is too long for milliseconds: seven weeks
	flagPriority // it has the priority 0, and not none
)

// holder is a queue that has yet to settle a message.
type holder struct {
	queue      QueueID
	deliveries uint32
}

// Seq is the message's number; later messages have higher numbers. It is 0 until the message is
// committed.
func (m *Message) Seq() uint64 { return m.seq }

// Stored says whether the message was committed.
func (m *Message) Stored() bool { return m.seq != 0 }

// Meta is what the message was published with.
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

// hasPriority: older logs have no flag for it.
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
		ttl = min((ttl+999)/1000, math.MaxUint32) // never too early
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

// footprint is about what the message takes in a segment, and never more than that.
func (m *Message) footprint() int64 { return int64(m.overhead) + int64(m.size) }

// hold adds a holder.
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

// release removes a holder and says whether it was one.
func (m *Message) release(q QueueID) bool {
	if m.queue == q {
		m.queue, m.deliveries = 0, 0
		if m.others != nil {
			last := len(*m.others) - 1
			m.queue, m.deliveries = (*m.others)[last].queue, (*m.others)[last].deliveries
			m.shorten(last)
		}
		return true
	}
	if m.others == nil {
		return false
	}
	for i, h := range *m.others {
		if h.queue == q {
			last := len(*m.others) - 1
			(*m.others)[i] = (*m.others)[last]
			m.shorten(last)
			return true
		}
	}
	return false
}

func (m *Message) shorten(n int) {
	if n == 0 {
		m.others = nil
		return
	}
	*m.others = (*m.others)[:n]
}

// releaseIf removes the holders that are to go.
func (m *Message) releaseIf(gone func(QueueID) bool) {
	if m.others != nil {
		*m.others = slices.DeleteFunc(*m.others, func(h holder) bool { return gone(h.queue) })
		m.shorten(len(*m.others))
	}
	if m.queue != 0 && gone(m.queue) {
		m.release(m.queue)
	}
}

// releaseAll leaves the message without holders.
func (m *Message) releaseAll() { m.queue, m.deliveries, m.others = 0, 0, nil }

// setDeliveries notes how often a holder delivered the message.
func (m *Message) setDeliveries(q QueueID, n uint32) {
	if m.queue == q {
		m.deliveries = n
		return
	}
	if m.others == nil {
		return
	}
	for i := range *m.others {
		if (*m.others)[i].queue == q {
			(*m.others)[i].deliveries = n
			return
		}
	}
}

// holders yields every holder.
func (m *Message) holders(yield func(holder) bool) {
	if m.queue == 0 || !yield(holder{m.queue, m.deliveries}) || m.others == nil {
		return
	}
	for _, h := range *m.others {
		if !yield(h) {
			return
		}
	}
}

// holderCount is how many queues hold the message.
func (m *Message) holderCount() int {
	switch {
	case m.queue == 0:
		return 0
	case m.others == nil:
		return 1
	}
	return 1 + len(*m.others)
}
