package store

import "slices"

// replay applies the records of a log to an index, in their order.
type replay struct {
	index    *messageIndex
	queues   map[QueueID]bool // nil: all
	create   func(Found) *Message
	messages messagesBySeq
	seq      uint64  // of the next message
	queue    QueueID // the highest seen
	first    uint64  // segments before this one are not needed
	clean    bool    // the last record marks a clean stop
}

func newReplay(l *messageIndex, queues map[QueueID]bool, create func(Found) *Message) *replay {
	r := &replay{index: l, queues: queues, create: create}
	for q := range queues {
		r.see(q)
	}
	return r
}

// apply applies a record, or returns what is wrong with it. It skips messages whose contents are damaged.
func (r *replay) apply(g *segment, h recordHeader, offset int64, operations []byte, badContents []int) (problem string) {
	if h.seq < max(r.seq, 1) {
		return "the numbers of messages decrease"
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
				return "it copies a message that was not published before"
			}
			if !slices.Contains(badContents, nth) {
				r.copy(g, op.seq, &op.message, content)
			}
			content += int64(op.message.size)
			nth++
		case opSettle, opCount, opDelay, opDie:
			r.change(op.seq, &op.change)
		case opDiscard:
			if op.segment > g.header.Number {
				return "it discards a later segment"
			}
			r.discard(op.segment)
		case opClosed:
			r.clean = true
		case opSynced:
		default:
			return "the record is not about messages"
		}
	}
	if d.bad {
		return "the record is not valid in this version of the program"
	}
	if seq < h.seq {
		return "the numbers of messages have run out"
	}
	r.seq = seq
	return ""
}

func (r *replay) see(q QueueID) { r.queue = max(r.queue, q) }

// admit adds a message and returns its handle, or nil if no queue holds it.
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
	r.index.admit(m, seq, g, offset)
	return m
}

// copy replaces a message by its copy. What was known of it is not used: a part of that may have been in
// segments that were removed.
func (r *replay) copy(g *segment, seq uint64, found *storedMessage, offset int64) {
	if old := r.messages.find(seq); old != nil {
		r.index.remove(old)
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
	r.index.apply(m, c)
	if m.segment == nil {
		r.messages.remove(seq)
	}
}

// discard removes the messages that are left in segments that are not needed. They were settled, in
// segments that may be removed already, or copied.
func (r *replay) discard(first uint64) {
	r.first = max(r.first, first)
	for _, g := range r.index.segments {
		for g.header.Number < first && g.first != nil {
			r.messages.remove(g.first.seq)
			r.index.remove(g.first)
		}
	}
}

// messagesBySeq finds live messages by their numbers. Messages with consecutive numbers are in a slice.
type messagesBySeq struct {
	first       uint64 // number of the first consecutive message
	consecutive []*Message
	others      map[uint64]*Message // copies of older messages, and all after a gap
}

// publish adds a message, or nil for one that is not live.
func (r *messagesBySeq) publish(seq uint64, m *Message) {
	if len(r.consecutive) == 0 {
		r.first = seq
	}
	if seq == r.first+uint64(len(r.consecutive)) {
		r.consecutive = append(r.consecutive, m)
	} else if m != nil {
		r.add(seq, m)
	}
}

// add adds a message that does not have the next number.
func (r *messagesBySeq) add(seq uint64, m *Message) {
	if r.isConsecutive(seq) {
		r.consecutive[seq-r.first] = m
		return
	}
	if r.others == nil {
		r.others = make(map[uint64]*Message)
	}
	r.others[seq] = m
}

func (r *messagesBySeq) find(seq uint64) *Message {
	if r.isConsecutive(seq) {
		return r.consecutive[seq-r.first]
	}
	return r.others[seq]
}

func (r *messagesBySeq) remove(seq uint64) {
	if r.isConsecutive(seq) {
		r.consecutive[seq-r.first] = nil
	} else {
		delete(r.others, seq)
	}
}

func (r *messagesBySeq) isConsecutive(seq uint64) bool {
	return seq >= r.first && seq-r.first < uint64(len(r.consecutive))
}
