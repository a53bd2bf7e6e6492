package store

import "slices"

// replay applies the records of a log to a ledger, in their order.
type replay struct {
	ledger   *ledger
	queues   map[QueueID]bool // nil: all
	create   func(Found) *Message
	messages map[uint64]*Message // live, by number
	seq      uint64              // of the next message
	queue    QueueID             // the highest seen
	first    uint64              // segments before this one are not needed
	clean    bool                // the last record says that the store was closed in order
}

func newReplay(l *ledger, queues map[QueueID]bool, create func(Found) *Message) *replay {
	r := &replay{ledger: l, queues: queues, create: create, messages: make(map[uint64]*Message)}
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
		case opPublish, opCopy:
			if op.kind == opPublish {
				op.seq = seq
				seq++
			} else if op.seq >= h.seq {
				return "a message is copied that was not published before"
			}
			if !slices.Contains(badContents, nth) {
				r.message(g, &op, content)
			}
			content += int64(op.message.size)
			nth++
		case opSettle:
			r.see(op.queue)
			r.settle(op.seq, op.queue)
		case opCount:
			r.see(op.queue)
			if m := r.messages[op.seq]; m != nil {
				m.setDeliveries(op.queue, op.deliveries)
			}
		case opDiscard:
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

// message notes a message, or where it was copied to.
func (r *replay) message(g *segment, op *operation, offset int64) {
	found := &op.message
	var m *Message
	if op.kind == opCopy {
		m = r.messages[op.seq]
	}
	copied := m != nil
	if copied {
		m.releaseAll()
	}
	for found.holderCount > 0 {
		h := found.nextHolder()
		r.see(h.queue)
		if r.queues != nil && !r.queues[h.queue] {
			continue
		}
		if m == nil {
			m = r.create(Found{found.meta, int(found.properties), int(found.body)})
			if m == nil {
				break
			}
		}
		m.hold(h)
	}
	switch {
	case m == nil || m.queue == 0:
		g.dead += int64(found.overhead) + int64(found.size)
		if copied {
			r.ledger.remove(m)
			delete(r.messages, op.seq)
		}
		return
	case copied:
		r.ledger.move(m, g, offset)
	default:
		r.ledger.admit(m, op.seq, g, offset)
		r.messages[op.seq] = m
	}
	m.setMeta(found.meta)
	m.size, m.crc = found.size, found.crc
	m.setOverhead(found.overhead)
}

func (r *replay) settle(seq uint64, q QueueID) {
	m := r.messages[seq]
	if m == nil {
		return
	}
	r.ledger.settle(m, q)
	if m.segment == nil {
		delete(r.messages, seq)
	}
}

// discard forgets what is left in segments that are not needed: all of it has been settled, in
// segments that may be gone already, or copied.
func (r *replay) discard(first uint64) {
	r.first = max(r.first, first)
	for _, g := range r.ledger.segments {
		for g.header.number < first && g.first != nil {
			delete(r.messages, g.first.seq)
			r.ledger.remove(g.first)
		}
	}
}
