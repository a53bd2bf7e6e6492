package store

import (
	"encoding/binary"
	"hash/crc32"
	"math"
)

// Batch collects operations that the log keeps or loses as one. The zero value is empty; it can be
// used again after Reset.
type Batch struct {
	operations []byte
	steps      []step
	published  int
	contents   int64
	head       []byte // of the last content
}

// step is what an operation does to the store's memory.
type step struct {
	kind       operationKind
	message    *Message
	queue      QueueID
	deliveries uint32
	death      Death
	copied     []QueueID
	until      int64
	content    Content
}

// Publish stores a message that the queues hold until each has settled it. The content must not
// change until the batch was committed. A message that no queue holds is not stored.
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
	b.steps = append(b.steps, step{kind: opPublish, message: m, content: c})
	b.published++
	b.contents += int64(size)
}

// checksum is that of the content as it is stored.
func (b *Batch) checksum(c Content) uint32 {
	b.head = appendContent(b.head[:0], Content{Exchange: c.Exchange, Key: c.Key})
	binary.LittleEndian.PutUint32(b.head[2:], uint32(len(c.Properties)))
	sum := checksum(b.head)
	sum = crc32.Update(sum, castagnoli, c.Properties)
	return crc32.Update(sum, castagnoli, c.Body)
}

// bulk returns all contents as they are stored if they are too large to be copied with the store's
// mutex held, or nil.
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

// Settle says that a queue is done with a message: acked, expired, dropped or dead-lettered. It does
// nothing for a message that is not stored.
func (b *Batch) Settle(m *Message, q QueueID) {
	if !m.Stored() {
		return
	}
	b.operations = appendSettle(b.operations, m.seq, q)
	b.steps = append(b.steps, step{kind: opSettle, message: m, queue: q})
}

// Count notes how often a queue has delivered a message, which is not delayed any more. It does nothing for a message that is not
// stored.
func (b *Batch) Count(m *Message, q QueueID, deliveries int) {
	if !m.Stored() {
		return
	}
	n := uint32(min(max(int64(deliveries), 0), math.MaxUint32))
	b.operations = appendCount(b.operations, m.seq, q, n)
	b.steps = append(b.steps, step{kind: opCount, message: m, queue: q, deliveries: n})
}

// Delay notes until when a message is not for consumers of a queue, as Unix time in milliseconds. It does nothing for a message that is not stored.
func (b *Batch) Delay(m *Message, q QueueID, until int64) {
	if !m.Stored() {
		return
	}
	b.operations = appendDelay(b.operations, m.seq, q, until)
	b.steps = append(b.steps, step{kind: opDelay, message: m, queue: q, until: until})
}

// Die notes that a message has died in a queue, which holds it until it is settled, and that other queues have a copy of it now. The same death noted
// again adds to those; another one begins anew. It does nothing for a message that is not stored.
func (b *Batch) Die(m *Message, q QueueID, d Death, copied ...QueueID) {
	if !m.Stored() {
		return
	}
	b.operations = appendDie(b.operations, m.seq, q, d, copied)
	b.steps = append(b.steps, step{kind: opDie, message: m, queue: q, death: d, copied: copied})
}

// Len is the number of operations.
func (b *Batch) Len() int { return len(b.steps) }

// Size is about how many bytes the batch will take; at most MaxBatch can be committed.
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

// decodeContent takes a stored content apart; what it returns points into b. It returns false if the
// lengths do not fit.
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
