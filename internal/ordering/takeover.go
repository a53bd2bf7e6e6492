package ordering

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// suspectAfter is how many owners have to crash in a row before messages are handled one by one.
const suspectAfter = 3

// FromHeld receives a delivery of the held queue.
func (o *Owner) FromHeld(m *Message, now time.Time) {
	o.now = now
	if o.phase == closed {
		return
	}
	m.from = Held
	o.heardHeld = now
	o.received++
	if o.phase == entering {
		o.phase = reading
		o.mark(0)
	}
	own := m.Session == o.opt.Session
	if m.Redelivered && (o.hasRead() || own && m.Kind == Mark) {
		// The claim of an owner, at least, is unacked, and marks are sent by the active consumer. So the broker had
		// taken everything back, and others may have been the owner.
		o.end("the broker had taken the held queue away", false)
		return
	}
	if !own && o.phase >= claiming && (m.Epoch > o.epoch || m.Epoch == o.epoch && o.phase == claiming) {
		o.end("another session has become the owner", false)
		return
	}
	switch m.Kind {
	case Hello:
		if !own && o.phase >= owning {
			o.end("another session is the active consumer of the main queue", false)
			return
		}
		o.ack(m)
	case Mark:
		if own {
			o.ownMark(m)
		} else {
			o.otherMark(m)
		}
	case Bye, Calm:
		switch {
		case own && m.Kind == Calm:
			o.calm = append(o.calm, m) // stays unacked, as the claim does
		case o.hasRead():
			o.ack(m)
		default:
			o.notes = append(o.notes, m)
			if m.Kind == Calm {
				o.calmed = max(o.calmed, m.Epoch)
			}
		}
	case Trial:
		o.fromTrial(m, own)
	case Skip:
		o.skip(m)
	case Replay:
		o.seq = max(o.seq, m.Seq)
		k := o.key(m.Key)
		o.insert(k, m)
		o.advance(k)
	default:
		if own {
			o.ownCopy(m)
		} else {
			o.otherCopy(m)
		}
	}
	o.admit()
	o.farewell()
}

// hasRead reports whether the session knows what was in the held queue before its claim.
func (o *Owner) hasRead() bool { return o.phase >= owning }

// Noted is called when a message that an Owner has written about itself is confirmed. A queue that sends nothing is silent only if it has something to send.
func (o *Owner) Noted(kind Kind, now time.Time) {
	switch kind {
	case Probe:
		o.probeNoted = now
	case Mark:
		o.markNoted = now
	}
}

func (o *Owner) hello() {
	o.greeted = o.now
	o.write(Held, Message{Kind: Hello})
}

func (o *Owner) probe() {
	o.probed = o.now
	o.write(Main, Message{Kind: Probe})
}

// mark publishes a mark to the held queue, with an epoch if it is a claim.
func (o *Owner) mark(epoch uint64) {
	o.sent++
	o.marked = o.now
	o.write(Held, Message{Kind: Mark, Number: o.sent, Epoch: epoch, Crashes: o.crashes})
}

// ownMark receives a mark of this session that has come back.
func (o *Owner) ownMark(m *Message) {
	if m.Number > o.sent { // of an earlier use of the same name, which there is not
		o.ack(m)
		return
	}
	o.back = max(o.back, m.Number)
	switch {
	case o.phase == reading:
		o.ack(m)
		o.phase = claiming
		o.epoch, o.crashes = o.top+1, o.crashesBefore()
		o.mark(o.epoch)
		return
	case o.phase == claiming && m.Epoch == o.epoch:
		o.claim = m
		for _, note := range o.notes {
			o.ack(note)
		}
		o.notes = nil
		o.own()
	case m.Epoch != 0 && o.claim != nil: // the broker has taken it back and delivers it again, or it was sent twice
		o.claim.also = append(o.claim.also, m)
	default:
		o.ack(m)
	}
	o.admit()
}

// crashesBefore is how many owners have crashed in a row before this one, by what they left in the held
// queue: a claim, and a farewell unless they crashed.
func (o *Owner) crashesBefore() int {
	last, crashes := uint64(0), 0
	for _, note := range o.notes {
		switch {
		case note.Epoch < last:
		case note.Kind == Mark:
			last, crashes = note.Epoch, note.Crashes+1
		case note.Kind == Calm:
			last, crashes = note.Epoch, 1
		}
	}
	for _, note := range o.notes {
		if note.Kind == Bye && note.Epoch == last {
			return 0
		}
	}
	return crashes
}

// own begins to handle messages.
func (o *Owner) own() {
	o.phase, o.heardMain, o.received = owning, o.now, 0
	o.skipAll()
	o.blame()
	if o.crashes >= suspectAfter {
		o.beginTrials()
	}
	o.advanceAll()
}

// otherMark receives a mark of another session.
func (o *Owner) otherMark(m *Message) {
	switch {
	case m.Epoch == 0:
		o.ack(m)
	case !o.hasRead():
		o.top = max(o.top, m.Epoch)
		o.notes = append(o.notes, m)
	default:
		o.ack(m)
	}
}

// otherCopy receives a message that another session has moved to the held queue. If it comes after the claim of a
// later session, it is a duplicate: its original was not acked, and has come from its queue to that session.
func (o *Owner) otherCopy(m *Message) {
	k := o.key(m.Key)
	switch {
	case o.hasRead():
		o.ack(m)
	case k.has(m):
	case m.Epoch < o.top:
		o.notes = append(o.notes, m)
	default:
		o.top, o.seq = max(o.top, m.Epoch), max(o.seq, m.Seq)
		o.insert(k, m)
	}
}

// has reports whether the key has a message of the held queue already. The broker delivers it again, or it was
// published twice: it is acked together with the first one.
func (k *key) has(m *Message) bool {
	for _, h := range k.held {
		if h.Seq == m.Seq && h.ID == m.ID && h.Session == m.Session && h.Kind == m.Kind && h.Attempt == m.Attempt {
			h.also = append(h.also, m)
			return true
		}
	}
	return false
}

// ownCopy receives a message that this session has moved to the held queue.
func (o *Owner) ownCopy(m *Message) {
	k := o.key(m.Key)
	for _, mv := range k.moves() {
		if !mv.back && mv.to == Held && mv.copy.Seq == m.Seq && mv.copy.Attempt == m.Attempt && mv.copy.Kind == m.Kind {
			mv.back = true
			o.coming--
			o.copies.remove(&mv.copy)
			if mv.runs {
				mv.came = m
			} else {
				o.insert(k, m)
			}
			o.complete(mv)
			return
		}
	}
	if !k.has(m) {
		o.ack(m) // it was published twice, and the first one is done
	}
	o.advance(k)
}

// sorted are the keys in a fixed order: whatever a map yields, a session does the same.
func (o *Owner) sorted() []*key {
	return slices.SortedFunc(maps.Values(o.keys), func(a, b *key) int { return cmp.Compare(a.name, b.name) })
}
