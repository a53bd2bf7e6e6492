package store

import (
	"encoding/binary"
	"hash/crc32"
	"math"
)

// Batch collects operations that are committed together: a crash keeps all or none of them. The zero
// value is empty. It can be used again after Reset.
type Batch struct {
	operations []byte
	steps      []step
	published  int
	contents   int64
	head       []byte // of the last content
}

// step is what an operation does to the store's memory.
type step struct {
	change
	message *Message
	content Content // opPublish
}

// Publish stores a message until each of the queues has settled it. The content must not change before
// the batch is committed. A message for no queue is not stored.
func (b *Batch) Publish(m *Message, c Content, meta Meta, queues []QueueID) {
	if m.Stored() {
		panic("store: message published twice")
	}
	if len(queues) == 0 {
		return
	}
	size := contentSize(c)
	if size > math.MaxInt32 || len(c.Exchange) > math.MaxUint8 || len(c.Key) > math.MaxUint8 {
		panic("store: content, exchange or key longer than AMQP allows")
	}
	m.setMeta(meta)
	m.size = uint32(size)
	m.crc = b.checksum(c)
	m.releaseAll()
	for _, q := range queues {
		m.hold(holder{queue: q})
	}
	b.operations = appendMessage(b.operations, m, len(c.Properties), len(c.Body))
	b.steps = append(b.steps, step{change: change{kind: opPublish}, message: m, content: c})
	b.published++
	b.contents += int64(size)
}

// checksum returns the checksum of a stored content.
func (b *Batch) checksum(c Content) uint32 {
	b.head = appendContent(b.head[:0], Content{Exchange: c.Exchange, Key: c.Key})
	binary.LittleEndian.PutUint32(b.head[2:], uint32(len(c.Properties)))
	sum := checksum(b.head)
	sum = crc32.Update(sum, castagnoli, c.Properties)
	return crc32.Update(sum, castagnoli, c.Body)
}

// bulk returns all contents as they are stored, if they are too large to be copied while the store's
// mutex is held, or nil.
func (b *Batch) bulk() []byte {
	if b.contents <= chunkSize {
		return nil
	}
	all := make([]byte, 0, b.contents)
	for i := range b.steps {
		if b.steps[i].kind == opPublish {
			all = appendContent(all, b.steps[i].content)
		}
	}
	return all
}

// The following operations do nothing for a message that is not stored.

// Settle ends the hold of a queue on a message that was acked, expired, dropped or dead-lettered.
func (b *Batch) Settle(m *Message, q QueueID) { b.add(m, change{kind: opSettle, queue: q}) }

// Count stores how often a queue has delivered a message. It ends the delay of the message.
func (b *Batch) Count(m *Message, q QueueID, deliveries int) {
	b.add(m, change{kind: opCount, queue: q, deliveries: uint32(min(max(int64(deliveries), 0), math.MaxUint32))})
}

// Delay stores until when a queue must not deliver a message, as Unix time in milliseconds.
func (b *Batch) Delay(m *Message, q QueueID, until int64) {
	b.add(m, change{kind: opDelay, queue: q, until: until})
}

// Die stores that a message is a dead letter of a queue, which holds it until it is settled, and which
// queues have a copy now. Another call with the same death adds to the copies. A different death
// replaces them.
func (b *Batch) Die(m *Message, q QueueID, d Death, copied ...QueueID) {
	b.add(m, change{kind: opDie, queue: q, death: d, copied: copied})
}

func (b *Batch) add(m *Message, c change) {
	if m.Stored() {
		b.operations = appendChange(b.operations, m.seq, &c)
		b.steps = append(b.steps, step{change: c, message: m})
	}
}

// Len returns the number of operations.
func (b *Batch) Len() int { return len(b.steps) }

// Size returns about how many bytes the batch will take. At most MaxBatch can be committed.
func (b *Batch) Size() int64 { return recordHeaderSize + int64(len(b.operations)) + b.contents }

// Reset empties the batch and keeps its memory.
func (b *Batch) Reset() {
	b.operations = b.operations[:0]
	clear(b.steps)
	b.steps = b.steps[:0]
	b.published, b.contents = 0, 0
}

// A content is stored as
//
//	exchange   u8  length
//	key        u8  length
//	properties u32 length
//	exchange, key, properties, body
const contentHeaderSize = 6

func contentSize(c Content) int {
	return contentHeaderSize + len(c.Exchange) + len(c.Key) + len(c.Properties) + len(c.Body)
}

func appendContent(b []byte, c Content) []byte {
	b = append(b, byte(len(c.Exchange)), byte(len(c.Key)))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(c.Properties)))
	b = append(b, c.Exchange...)
	b = append(b, c.Key...)
	b = append(b, c.Properties...)
	return append(b, c.Body...)
}

// decodeContent reads a stored content. The result refers to b. It returns false if the lengths do not
// fit.
func decodeContent(b []byte) (Content, bool) {
	if len(b) < contentHeaderSize {
		return Content{}, false
	}
	exchange, key := int(b[0]), int(b[1])
	properties := int64(binary.LittleEndian.Uint32(b[2:]))
	b = b[contentHeaderSize:]
	if int64(len(b)) < int64(exchange)+int64(key)+properties {
		return Content{}, false
	}
	var c Content
	c.Exchange, b = string(b[:exchange]), b[exchange:]
	c.Key, b = string(b[:key]), b[key:]
	c.Properties, c.Body = b[:properties:properties], b[properties:]
	return c, true
}
