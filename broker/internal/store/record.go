package store

import (
	"encoding/binary"
	"hash/crc32"
	"math"
)

// A record is the atomic unit of the log:
//
//	crc        u32  of the operations, the rest of this header, and the place (salt and offset)
//	operations u32  their length
//	contents   u32  their length
//	seq        u64  number of the first message published in it
//	operations
//	contents, one after the other, in the order of the operations that store them
//
// The checksum does not cover contents: each has its own in the operation that stores it, so that a
// content can be checked alone, and an index can have records without contents. The checksum covers the
// place, so that a record is valid only where it was written, and not within a body.
const recordHeaderSize = 20

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// recordHeader is the decoded header of a record.
type recordHeader struct {
	crc                  uint32
	operations, contents uint32
	seq                  uint64
}

func (h recordHeader) size() int64 {
	return recordHeaderSize + int64(h.operations) + int64(h.contents)
}

// appendTo appends the header with its checksum.
func (h recordHeader) appendTo(b []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, h.crc)
	b = binary.LittleEndian.AppendUint32(b, h.operations)
	b = binary.LittleEndian.AppendUint32(b, h.contents)
	return binary.LittleEndian.AppendUint64(b, h.seq)
}

func decodeRecordHeader(b []byte) recordHeader {
	return recordHeader{
		crc:        binary.LittleEndian.Uint32(b[0:]),
		operations: binary.LittleEndian.Uint32(b[4:]),
		contents:   binary.LittleEndian.Uint32(b[8:]),
		seq:        binary.LittleEndian.Uint64(b[12:]),
	}
}

func checksum(b []byte) uint32 { return crc32.Update(0, castagnoli, b) }

// place is where a record is.
type place struct {
	salt   uint64
	offset int64
}

// hasher computes the checksums of records. Its buffer avoids an allocation for each.
type hasher struct {
	buf [recordHeaderSize + 16]byte
}

// sum completes the checksum of the operations with the rest of the header and its place.
func (s *hasher) sum(h recordHeader, operations uint32, at place) uint32 {
	b := h.appendTo(s.buf[:0])
	b = binary.LittleEndian.AppendUint64(b, at.salt)
	b = binary.LittleEndian.AppendUint64(b, uint64(at.offset))
	return crc32.Update(operations, castagnoli, b[4:])
}

// valid reports whether the operations are those that were written at this place.
func (s *hasher) valid(h recordHeader, operations []byte, at place) bool {
	return h.operations > 0 && h.crc == s.sum(h, checksum(operations), at)
}

// isNote reports whether these are the operations of a note: a record which means that everything before
// it is synced.
func isNote(operations []byte) bool {
	return len(operations) == 1 && (operationKind(operations[0]) == opSynced || operationKind(operations[0]) == opClosed)
}

type operationKind uint8

const (
	opPublish operationKind = iota + 1 // a message, numbered by the record
	opCopy                             // a message copied from an older segment, with its number
	opSettle                           // a queue no longer holds a message
	opCount                            // how often a queue delivered a message
	opDiscard                          // segments before this one are not needed
	opSynced                           // everything before this record is synced
	opClosed                           // like opSynced, and the store was closed cleanly
	opPut                              // a definition
	opDelete                           // a definition is deleted
	opDie                              // a message is a dead letter of a queue, and which queues have a copy; since version 2
	opDelay                            // until when a queue does not deliver a message; since version 3
)

// change is an operation on the hold of a queue on a message.
type change struct {
	kind       operationKind // opSettle, opCount, opDie or opDelay
	queue      QueueID
	deliveries uint32    // opCount
	death      Death     // opDie
	copied     []QueueID // opDie
	until      int64     // opDelay
}

// operation is a decoded operation. Which fields are set depends on its kind.
type operation struct {
	change
	seq        uint64 // of the message: opCopy, and all changes
	segment    uint64 // opDiscard
	key, value []byte // opPut, opDelete; only valid until the next record
	message    storedMessage
}

// storedMessage is a message in an operation.
type storedMessage struct {
	meta             Meta
	size, crc        uint32 // of the content
	properties, body uint32
	overhead         int
	holders          []byte // encoded; see nextHolder
	holderCount      int
}

// appendMessage appends an opPublish, or an opCopy if the message has a number. It stores the size of the
// operation in the message.
func appendMessage(b []byte, m *Message, properties, body int) []byte {
	before := len(b)
	if m.seq == 0 {
		b = append(b, byte(opPublish))
	} else {
		b = append(b, byte(opCopy))
		b = binary.AppendUvarint(b, m.seq)
	}
	b = append(b, m.flags, m.priority)
	b = binary.AppendVarint(b, m.enqueued)
	b = binary.AppendUvarint(b, uint64(m.ttl))
	b = binary.AppendUvarint(b, uint64(m.size))
	b = binary.LittleEndian.AppendUint32(b, m.crc)
	b = binary.AppendUvarint(b, uint64(properties))
	b = binary.AppendUvarint(b, uint64(body))
	b = binary.AppendUvarint(b, uint64(m.holderCount()))
	for h := range m.holders {
		b = binary.AppendUvarint(b, uint64(h.queue))
		b = binary.AppendUvarint(b, uint64(h.deliveries))
	}
	m.setOverhead(len(b) - before)
	return b
}

func appendChange(b []byte, seq uint64, c *change) []byte {
	b = append(b, byte(c.kind))
	b = binary.AppendUvarint(b, seq)
	b = binary.AppendUvarint(b, uint64(c.queue))
	switch c.kind {
	case opCount:
		b = binary.AppendUvarint(b, uint64(c.deliveries))
	case opDelay:
		b = binary.AppendVarint(b, c.until)
	case opDie:
		b = append(b, byte(c.death))
		b = binary.AppendUvarint(b, uint64(len(c.copied)))
		for _, q := range c.copied {
			b = binary.AppendUvarint(b, uint64(q))
		}
	}
	return b
}

func appendDiscard(b []byte, segment uint64) []byte {
	return binary.AppendUvarint(append(b, byte(opDiscard)), segment)
}

func appendPut(b []byte, key string, value []byte) []byte {
	return appendBytes(appendBytes(append(b, byte(opPut)), key), value)
}

func appendDelete(b []byte, key string) []byte { return appendBytes(append(b, byte(opDelete)), key) }

func appendBytes[S string | []byte](b []byte, s S) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// decoder reads the operations of a record. It stops at the first invalid one, and is bad then. Its
// results refer to the input.
type decoder struct {
	rest []byte
	bad  bool
}

// next decodes the next operation. It returns false at the end, and if the operation is invalid.
func (d *decoder) next(op *operation) bool {
	if d.bad || len(d.rest) == 0 {
		return false
	}
	before := len(d.rest)
	*op = operation{change: change{kind: operationKind(d.byte())}}
	switch op.kind {
	case opPublish:
		d.message(&op.message)
	case opCopy:
		op.seq = d.uvarint()
		d.message(&op.message)
	case opSettle, opCount, opDie, opDelay:
		op.seq = d.uvarint()
		d.change(&op.change)
	case opDiscard:
		op.segment = d.uvarint()
	case opSynced, opClosed:
	case opPut:
		op.key = d.bytes()
		op.value = d.bytes()
	case opDelete:
		op.key = d.bytes()
	default:
		d.bad = true
	}
	op.message.overhead = before - len(d.rest)
	return !d.bad
}

func (d *decoder) change(c *change) {
	c.queue = QueueID(d.uvarint())
	switch c.kind {
	case opCount:
		c.deliveries = d.uint32()
	case opDelay:
		c.until = d.varint()
	case opDie:
		c.death = Death(d.byte())
		for count := d.uvarint(); count > 0 && !d.bad; count-- {
			c.copied = append(c.copied, QueueID(d.uvarint()))
		}
	}
}

func (d *decoder) message(m *storedMessage) {
	flags := d.byte()
	m.meta.Persistent = flags&flagPersistent != 0
	m.meta.Priority = d.byte()
	m.meta.HasPriority = hasPriority(flags, m.meta.Priority)
	m.meta.Enqueued = d.varint()
	m.meta.TTL = int64(d.uint32())
	switch {
	case flags&flagExpires == 0:
		m.meta.TTL = NoTTL
	case flags&flagSeconds != 0:
		m.meta.TTL *= 1000
	}
	m.size = d.uint32()
	if b := d.take(4); b != nil {
		m.crc = binary.LittleEndian.Uint32(b)
	}
	m.properties = d.uint32()
	m.body = d.uint32()
	count := d.uvarint()
	before := d.rest
	for i := uint64(0); i < count && !d.bad; i++ {
		d.bad = d.bad || d.uvarint() == 0
		d.uint32()
	}
	m.holders = before[:len(before)-len(d.rest)]
	m.holderCount = int(count)
}

// nextHolder decodes the next holder. The decoder has checked them.
func (m *storedMessage) nextHolder() holder {
	d := decoder{rest: m.holders}
	h := holder{queue: QueueID(d.uvarint()), deliveries: d.uint32()}
	m.holders = d.rest
	m.holderCount--
	return h
}

// take returns the next n bytes, or nil if there are fewer.
func (d *decoder) take(n uint64) []byte {
	if n > uint64(len(d.rest)) {
		d.bad = true
		return nil
	}
	b := d.rest[:n]
	d.rest = d.rest[n:]
	return b
}

func (d *decoder) bytes() []byte { return d.take(d.uvarint()) }

func (d *decoder) byte() byte {
	if b := d.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.rest)
	d.skip(n)
	return v
}

func (d *decoder) varint() int64 {
	v, n := binary.Varint(d.rest)
	d.skip(n)
	return v
}

// skip skips the n bytes of an integer. If n is not positive, there was no integer, and its value is 0.
func (d *decoder) skip(n int) {
	if n <= 0 {
		d.bad = true
		return
	}
	d.rest = d.rest[n:]
}

func (d *decoder) uint32() uint32 {
	v := d.uvarint()
	if v > math.MaxUint32 {
		d.bad = true
		return 0
	}
	return uint32(v)
}
