package store

// ledger knows the segments of the log and which messages in them are live. Recovery and commits
// change it by the same steps, so that what is live in memory is what the log says.
type ledger struct {
	segments []*segment // oldest first; the last is the one appended to
	aside    []*segment // parts of segments that are gone or will be, with messages that cannot be read
	messages int        // live
	sweep    *Message   // the next message to look at for dropped queues; see sweepDropped
}

// admit makes a message live. Its holders are set.
func (l *ledger) admit(m *Message, seq uint64, g *segment, offset int64) {
	m.seq, m.offset = seq, uint32(offset)
	g.link(m)
	l.messages++
}

// settle ends a queue's hold on a message.
func (l *ledger) settle(m *Message, q QueueID) {
	if m.segment != nil && m.release(q) && m.queue == 0 {
		l.remove(m)
	}
}

// remove makes a message dead.
func (l *ledger) remove(m *Message) {
	l.detach(m)
	m.releaseAll()
	l.messages--
}

// move notes that a live message has been copied.
func (l *ledger) move(m *Message, g *segment, offset int64) {
	l.detach(m)
	m.offset = uint32(offset)
	g.link(m)
}

func (l *ledger) detach(m *Message) {
	if l.sweep == m {
		l.sweep = m.next
	}
	m.segment.unlink(m)
}

// active is the segment that is appended to.
func (l *ledger) active() *segment { return l.segments[len(l.segments)-1] }

// setAside takes a message out of its segment, which can be given up then, and leaves it in the file,
// which will have another name.
func (l *ledger) setAside(m *Message, name string) {
	g := m.segment
	if g.aside == nil {
		g.aside = &segment{name: name, header: g.header, file: g.file, end: g.end, written: g.end}
		l.aside = append(l.aside, g.aside)
	}
	l.detach(m)
	g.aside.link(m)
}

// deadSegments is how many of the oldest segments hold nothing live and are no longer appended to.
func (l *ledger) deadSegments() int {
	n := 0
	for l.segments[n].sealed && l.segments[n].first == nil {
		n++
	}
	return n
}

// weigh adds up what the log takes on disk, from a segment on, and how much of that is dead.
func (l *ledger) weigh(from int) (total, dead int64) {
	for _, g := range l.segments[from:] {
		total += g.end
		dead += g.dead
	}
	return total, dead
}

// before is the segment before another, or nil.
func (l *ledger) before(g *segment) *segment {
	for i := len(l.segments) - 1; i > 0; i-- {
		if l.segments[i] == g {
			return l.segments[i-1]
		}
	}
	return nil
}
