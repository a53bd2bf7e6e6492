package store

import "slices"

// messageIndex has the segments of the log and their live messages. Recovery and commits change it by the
// same steps, so that the live messages in memory are those in the log.
type messageIndex struct {
	segments []*segment // oldest first; records are appended to the last one
	aside    []*segment // messages that cannot be read, of segments that are or will be removed
	messages int        // live
	sweep    *Message   // the next message to check for dropped queues; see sweepDropped
	states   map[holdKey]holdState
}

// holdKey identifies the hold of a queue on a message.
type holdKey struct {
	message *Message
	queue   QueueID
}

// holdState is what few messages have in addition to their holders: a delay, or a death and the queues
// that have a copy since.
type holdState struct {
	until  int64
	death  Death
	copied []QueueID
}

// admit makes a message live. Its holders must be set.
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
	n := l.states[holdKey{m, c.queue}]
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
	l.setState(m, c.queue, n)
}

// settle ends the hold of a queue on a message.
func (l *messageIndex) settle(m *Message, q QueueID) {
	if m.segment == nil || !m.release(q) {
		return
	}
	delete(l.states, holdKey{m, q})
	if m.queue == 0 {
		l.remove(m)
	}
}

// setState sets the state of a hold, if the queue holds the message.
func (l *messageIndex) setState(m *Message, q QueueID, n holdState) {
	if n.until == 0 && n.death == 0 {
		delete(l.states, holdKey{m, q})
		return
	}
	for h := range m.holders {
		if h.queue == q && m.segment != nil {
			if l.states == nil {
				l.states = make(map[holdKey]holdState)
			}
			l.states[holdKey{m, q}] = n
		}
	}
}

// drop ends the hold of queues that are gone.
func (l *messageIndex) drop(m *Message, gone map[QueueID]bool) {
	m.releaseIf(func(q QueueID) bool {
		if gone[q] {
			delete(l.states, holdKey{m, q})
		}
		return gone[q]
	})
	if m.queue == 0 {
		l.remove(m)
	}
}

// remove removes a message that is no longer needed.
func (l *messageIndex) remove(m *Message) {
	l.detach(m)
	if len(l.states) > 0 {
		for h := range m.holders {
			delete(l.states, holdKey{m, h.queue})
		}
	}
	m.releaseAll()
	l.messages--
}

// move moves a live message to where it was copied.
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

// appendStates appends the operations that restore the states of all holds on a message.
func (l *messageIndex) appendStates(operations []byte, m *Message) []byte {
	if len(l.states) == 0 {
		return operations
	}
	for h := range m.holders {
		n := l.states[holdKey{m, h.queue}]
		if n.until != 0 {
			operations = appendChange(operations, m.seq, &change{kind: opDelay, queue: h.queue, until: n.until})
		}
		if n.death != 0 {
			operations = appendChange(operations, m.seq, &change{kind: opDie, queue: h.queue, death: n.death, copied: n.copied})
		}
	}
	return operations
}

// active returns the segment to which records are appended.
func (l *messageIndex) active() *segment { return l.segments[len(l.segments)-1] }

// setAside removes a message from its segment, so that the segment can be removed. The message stays in
// the file, which gets another name.
func (l *messageIndex) setAside(m *Message, name string) {
	g := m.segment
	if g.aside == nil {
		g.aside = &segment{name: name, header: g.header, file: g.file, end: g.end, written: g.end}
		l.aside = append(l.aside, g.aside)
	}
	l.detach(m)
	g.aside.link(m)
}

// deadSegments returns how many of the oldest segments are sealed and have no live messages.
func (l *messageIndex) deadSegments() int {
	n := 0
	for l.segments[n].sealed && l.segments[n].first == nil {
		n++
	}
	return n
}

// weigh returns how many bytes the log takes on disk, from a segment on, and how many of them are garbage.
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
