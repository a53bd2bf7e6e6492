package store

import "slices"

// replay applies the records of a log to an index, in their order.
type replay struct {
	ledger   *messageIndex
	queues   map[QueueID]bool // nil: all
	create   func(Found) *Message
	messages roster
	seq      uint64  // of the next message
	queue    QueueID // the highest seen
	first    uint64  // segments before this one are not needed
	clean    bool    // the last record says that the store was closed in order
}

func newReplay(l *messageIndex, queues map[QueueID]bool, create func(Found) *Message) *replay {
	r := &replay{ledger: l, queues: queues, create: create}
	for q := range queues {
		r.see(q)
	}
	return r
}

// apply applies a record and returns what is wrong with it, if anything. Messages whose contents are
// bad are left out.
func (r *replay) apply(g *segment, h recordHeader, offset int64, operations []byte, badContents []int) (problem string) {
	if h.seq < max(r.seq, 1) {
		return "the numbers of messages go backwards"
	}
	if h.contents == 0 {
		g.dead += h.size()
	}
	r.clean = false
	seq := h.seq
	content := offset + recordHeaderSize + int64(h.operations)
	nth := 0
	d := decoder{rest: operations}
	var op operation
	for d.next(&op) {
		switch op.kind {
		case opPublish:
			var m *Message
			if !slices.Contains(badContents, nth) {
				m = r.admit(g, seq, &op.message, content)
			}
			r.messages.publish(seq, m)
			seq++
			content += int64(op.message.size)
			nth++
		case opCopy:
			if op.seq >= h.seq {
				return "a message is copied that was not published before"
			}
			if !slices.Contains(badContents, nth) {
				r.copy(g, op.seq, &op.message, content)
			}
			content += int64(op.message.size)
			nth++
		case opSettle, opCount, opDelay, opDie:
			r.change(op.seq, &op.change)
		case opDiscard:
			if op.segment > g.header.number {
				return "a segment is discarded that comes later"
			}
			r.discard(op.segment)
		case opClosed:
			r.clean = true
		case opSynced:
		default:
			return "the record is not one of messages"
		}
	}
	if d.bad {
		return "the record makes no sense to this program"
	}
	if seq < h.seq {
		return "the numbers of messages have run out"
	}
	r.seq = seq
	return ""
}

func (r *replay) see(q QueueID) { r.queue = max(r.queue, q) }

// admit notes a message and returns its handle, or nil if nobody holds it.
func (r *replay) admit(g *segment, seq uint64, found *storedMessage, offset int64) *Message {
	var m *Message
	for found.holderCount > 0 {
		h := found.nextHolder()
		r.see(h.queue)
		if r.queues != nil && !r.queues[h.queue] {
			continue
		}
		if m == nil {
			if m = r.create(Found{found.meta, int(found.properties), int(found.body)}); m == nil {
				break
			}
		}
		m.hold(h)
	}
	if m == nil {
		g.dead += int64(found.overhead) + int64(found.size)
		return nil
	}
	m.setMeta(found.meta)
	m.size, m.crc = found.size, found.crc
	m.setOverhead(found.overhead)
	r.ledger.admit(m, seq, g, offset)
	return m
}

// copy notes where a message lies now, and who holds it. What was known of it is of no use: a part of
// that may have been in segments that are gone.
func (r *replay) copy(g *segment, seq uint64, found *storedMessage, offset int64) {
	if old := r.messages.find(seq); old != nil {
		r.ledger.remove(old)
		r.messages.remove(seq)
	}
	if m := r.admit(g, seq, found, offset); m != nil {
		r.messages.add(seq, m)
	}
}

func (r *replay) change(seq uint64, c *change) {
	r.see(c.queue)
	for _, q := range c.copied {
		r.see(q)
	}
	m := r.messages.find(seq)
	if m == nil {
		return
	}
	r.ledger.apply(m, c)
	if m.segment == nil {
		r.messages.remove(seq)
	}
}

// discard forgets what is left in segments that are not needed: all of it has been settled, in
// segments that may be gone already, or copied.
func (r *replay) discard(first uint64) {
	r.first = max(r.first, first)
	for _, g := range r.ledger.segments {
		for g.header.number < first && g.first != nil {
			r.messages.remove(g.first.seq)
			r.ledger.remove(g.first)
		}
	}
}

// roster finds live messages by their numbers. Those that are published one after the other stand in
// line.
type roster struct {
	first  uint64 // number of the first in line
	line   []*Message
	others map[uint64]*Message // copies of older messages, and all after a gap
}

// publish adds a message, or nil for one that is not to be found.
func (r *roster) publish(seq uint64, m *Message) {
	if len(r.line) == 0 {
		r.first = seq
	}
	if seq == r.first+uint64(len(r.line)) {
		r.line = append(r.line, m)
	} else if m != nil {
		r.add(seq, m)
	}
}

// add adds a message that is not the next to be published.
func (r *roster) add(seq uint64, m *Message) {
	if r.inLine(seq) {
		r.line[seq-r.first] = m
		return
	}
	if r.others == nil {
		r.others = make(map[uint64]*Message)
	}
	r.others[seq] = m
}

func (r *roster) find(seq uint64) *Message {
	if r.inLine(seq) {
		return r.line[seq-r.first]
	}
	return r.others[seq]
}

func (r *roster) remove(seq uint64) {
	if r.inLine(seq) {
		r.line[seq-r.first] = nil
	} else {
		delete(r.others, seq)
	}
}

func (r *roster) inLine(seq uint64) bool {
	return seq >= r.first && seq-r.first < uint64(len(r.line))
}
