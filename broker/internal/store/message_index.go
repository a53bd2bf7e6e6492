package store

import "slices"

// messageIndex knows the segments of the log and which messages in them are live. Recovery and commits
// change it by the same steps, so that what is live in memory is what the log says.
type messageIndex struct {
	segments []*segment // oldest first; the last is the one appended to
	aside    []*segment // parts of segments that are gone or will be, with messages that cannot be read
	messages int        // live
	sweep    *Message   // the next message to look at for dropped queues; see sweepDropped
	notes    map[claim]note
}

// claim is a queue's hold on a message, which few messages have noted beside the one in themselves.
type claim struct {
	message *Message
	queue   QueueID
}

// note is until when a message is delayed, and that it has died, and which queues have a copy of it since.
type note struct {
	until  int64
	death  Death
	copied []QueueID
}

// admit makes a message live. Its holders are set.
func (l *messageIndex) admit(m *Message, seq uint64, g *segment, offset int64) {
	m.seq, m.offset = seq, uint32(offset)
	g.link(m)
	l.messages++
}

// apply changes the hold of a queue on a message.
func (l *messageIndex) apply(m *Message, c *change) {
	if c.kind == opSettle {
		l.settle(m, c.queue)
		return
	}
	n := l.notes[claim{m, c.queue}]
	switch c.kind {
	case opCount: // which ends a delay
		m.setDeliveries(c.queue, c.deliveries)
		if n.until == 0 {
			return
		}
		n.until = 0
	case opDelay:
		n.until = c.until
	case opDie:
		if n.death != c.death {
			n.copied = nil
		}
		n.death, n.copied = c.death, append(n.copied, c.copied...)
	}
	l.annotate(m, c.queue, n)
}

// settle ends the hold of a queue on a message.
func (l *messageIndex) settle(m *Message, q QueueID) {
	if m.segment == nil || !m.release(q) {
		return
	}
	delete(l.notes, claim{m, q})
	if m.queue == 0 {
		l.remove(m)
	}
}

// annotate keeps what is noted of a message for a queue that holds it.
func (l *messageIndex) annotate(m *Message, q QueueID, n note) {
	if n.until == 0 && n.death == 0 {
		delete(l.notes, claim{m, q})
		return
	}
	for h := range m.holders {
		if h.queue == q && m.segment != nil {
			if l.notes == nil {
				l.notes = make(map[claim]note)
			}
			l.notes[claim{m, q}] = n
		}
	}
}

// drop ends the hold of queues that are gone.
func (l *messageIndex) drop(m *Message, gone map[QueueID]bool) {
	if len(l.notes) > 0 {
		for h := range m.holders {
			if gone[h.queue] {
				delete(l.notes, claim{m, h.queue})
			}
		}
	}
	m.releaseIf(func(q QueueID) bool { return gone[q] })
	if m.queue == 0 {
		l.remove(m)
	}
}

// remove makes a message dead.
func (l *messageIndex) remove(m *Message) {
	l.detach(m)
	if len(l.notes) > 0 {
		for h := range m.holders {
			delete(l.notes, claim{m, h.queue})
		}
	}
	m.releaseAll()
	l.messages--
}

// move notes that a live message has been copied.
func (l *messageIndex) move(m *Message, g *segment, offset int64) {
	l.detach(m)
	m.offset = uint32(offset)
	g.link(m)
}

func (l *messageIndex) detach(m *Message) {
	if l.sweep == m {
		l.sweep = m.next
	}
	m.segment.unlink(m)
}

// appendNotes appends until when a message is delayed, in which of its queues it has died, if in any, and where copies are.
func (l *messageIndex) appendNotes(operations []byte, m *Message) []byte {
	if len(l.notes) == 0 {
		return operations
	}
	for h := range m.holders {
		n := l.notes[claim{m, h.queue}]
		if n.until != 0 {
			operations = appendChange(operations, m.seq, &change{kind: opDelay, queue: h.queue, until: n.until})
		}
		if n.death != 0 {
			operations = appendChange(operations, m.seq, &change{kind: opDie, queue: h.queue, death: n.death, copied: n.copied})
		}
	}
	return operations
}

// active is the segment that is appended to.
func (l *messageIndex) active() *segment { return l.segments[len(l.segments)-1] }

// setAside takes a message out of its segment, which can be given up then, and leaves it in the file,
// which will have another name.
func (l *messageIndex) setAside(m *Message, name string) {
	g := m.segment
	if g.aside == nil {
		g.aside = &segment{name: name, header: g.header, file: g.file, end: g.end, written: g.end}
		l.aside = append(l.aside, g.aside)
	}
	l.detach(m)
	g.aside.link(m)
}

// deadSegments is how many of the oldest segments hold nothing live and are no longer appended to.
func (l *messageIndex) deadSegments() int {
	n := 0
	for l.segments[n].sealed && l.segments[n].first == nil {
		n++
	}
	return n
}

// weigh adds up what the log takes on disk, from a segment on, and how much of that is dead.
func (l *messageIndex) weigh(from int) (total, dead int64) {
	for _, g := range l.segments[from:] {
		total += g.end
		dead += g.dead
	}
	return total, dead
}

// before returns the segment before another, or nil.
func (l *messageIndex) before(g *segment) *segment {
	if i := slices.Index(l.segments, g); i > 0 {
		return l.segments[i-1]
	}
	return nil
}
