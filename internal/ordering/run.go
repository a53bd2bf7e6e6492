package ordering

import (
	"slices"
	"time"
)

// Verdict is what has become of a message that was taken.
type Verdict int

// The verdicts.
const (
	Finished    Verdict = iota // it is done
	Retry                      // it has failed, and is tried again when it is due
	Postpone                   // it is tried again when it is due, and has not failed
	FailForGood                // it goes to the failed queue
	Unavailable                // what the handler needs is down: no message runs until this one, when it is due, has run
	Unfinished                 // it was not handled
)

// Take returns the next message to be handled. False: there is none at the moment. Each message that is
// taken is to be returned by Done.
func (o *Owner) Take(now time.Time) (*Message, bool) {
	o.now = now
	if len(o.parked) > 0 && o.room() {
		o.unpark()
	}
	for o.phase == owning && o.runnable.len() > 0 {
		if !o.mayTake() {
			return nil, false
		}
		k := o.runnable.take()
		k.queued = false
		m := k.head()
		if m == nil || k.running != nil || k.moving != nil || m.Due.After(now) && !m.skip {
			o.advance(k)
			continue
		}
		if o.pause != nil && o.pause.of != k {
			continue // the end of the pause looks at all keys
		}
		if !o.mayBegin(k, m) {
			if !k.parked {
				k.parked = true
				o.parked = append(o.parked, k)
			}
			continue
		}
		if o.trial != nil && !o.mayTry(k, m) {
			return nil, false
		}
		if m.from == Main {
			m.room = true
			o.reserved++
		}
		k.running, k.since = m, now
		o.running++
		return m, true
	}
	return nil, false
}

// unpark lets the keys run first that had to wait for room in the held queue.
func (o *Owner) unpark() {
	var first []*key
	for _, k := range o.parked {
		k.parked = false
		if !k.queued {
			k.queued = true
			first = append(first, k)
		}
	}
	o.parked = nil
	o.runnable.putFirst(first...)
}

// Crashed reports whether a message that was taken has crashed its consumers so often that it is to fail
// without another attempt.
func (o *Owner) Crashed(m *Message) bool {
	return o.trial != nil && o.trial.crashes[o.print(m)] > 0 && o.trial.crashes[m.Print]+suspectAfter >= o.opt.CrashLimit
}

// Skipped reports whether an operator has given up a message that was taken: it is to fail without
// another attempt.
func (m *Message) Skipped() bool { return m.skip }

// Done receives what has become of a message that was taken. due is when it is tried again.
func (o *Owner) Done(m *Message, v Verdict, due time.Time, now time.Time) {
	o.now = now
	if o.phase == closed {
		return
	}
	k := o.keys[m.Key]
	if k.follows != nil && k.follows.of == m { // see conclude
		k.ended = &ended{v, due}
		return
	}
	k.running, k.took = nil, now.Sub(k.since)
	o.running--
	if m.room {
		m.room = false
		o.reserved--
	}
	switch v {
	case Unfinished:
	case Unavailable:
		if o.pause == nil {
			o.pause = &pause{k}
		}
		if o.pause.of == k {
			m.Due = due
		}
	case Finished:
		o.finished(k, m)
	case FailForGood:
		o.failed(k, m)
	case Retry, Postpone:
		if v == Retry {
			m.Attempt++
		}
		m.Due = due
		o.retry(k, m)
	}
	if o.pause != nil && o.pause.of == k && v != Unfinished && v != Unavailable {
		o.pause = nil
		o.advanceAll()
	} else {
		o.advance(k)
	}
	o.tried(m, v)
	o.releaseLast()
	o.farewell()
}

// Probing reports whether a message that was taken finds out whether a pause is over, or would begin one.
func (o *Owner) Probing(m *Message) bool { return o.pause == nil || o.pause.of == o.keys[m.Key] }

// lift takes out the Block that a message replaces, if any.
func (o *Owner) lift(k *key, m *Message) *Message {
	if !k.blocked() || !m.replays(k.held[0]) {
		return nil
	}
	block := k.held[0]
	o.remove(k, block)
	return block
}

func (o *Owner) finished(k *key, m *Message) {
	if block := o.lift(k, m); block != nil {
		defer o.ack(block)
	}
	o.remove(k, m)
	o.ack(m)
}

// failed moves a message to the failed queue.
func (o *Owner) failed(k *key, m *Message) {
	if m.Kind == Block { // its message is in the failed queue
		o.remove(k, m)
		o.ack(m)
		return
	}
	block := o.lift(k, m)
	o.remove(k, m)
	copied := *m
	copied.Seq = o.place(m, block)
	copied.also, copied.done, copied.Data, copied.skip = nil, false, nil, false
	k.moving = &Move{key: k, of: m, lifts: block, to: Failed, copy: copied}
	o.publish(k.moving)
}

// retry moves a message to the held queue until it is due.
func (o *Owner) retry(k *key, m *Message) {
	lifts := o.lift(k, m)
	o.remove(k, m)
	o.unskip(m)
	copied := *m
	copied.Seq = o.place(m, lifts)
	k.moving = o.toHeld(k, m, copied)
	k.moving.lifts = lifts
}

// unskip keeps the order to skip a message that is moved: it is for its copy.
func (o *Owner) unskip(m *Message) {
	for i := len(m.also) - 1; i >= 0; i-- {
		if m.also[i].Kind == Skip {
			o.skips = append(o.skips, m.also[i])
			m.also = slices.Delete(m.also, i, i+1)
		}
	}
	m.skip = false
}

// place is the number of the copy of a message.
func (o *Owner) place(m, block *Message) uint64 {
	switch {
	case block != nil:
		return block.Seq
	case m.from == Held:
		return m.Seq
	}
	o.seq++
	return o.seq
}

// skip gives up a message that waits: a Block is lifted, and a Copy goes to the failed queue. The order to do so
// is acked together with the message. If that has not been read yet, or is on its way, the order waits.
func (o *Owner) skip(order *Message) {
	if !o.hasRead() {
		o.skips = append(o.skips, order)
		return
	}
	found, coming := false, false
	for _, k := range o.sorted() {
		for _, mv := range k.moves() {
			coming = coming || mv.copy.ID == order.ID
		}
		for _, h := range k.held {
			if h.ID == order.ID {
				found, h.skip = true, true
				h.also = append(h.also, order)
				o.advance(k)
			}
		}
	}
	switch {
	case found:
	case coming:
		o.skips = append(o.skips, order)
	default:
		o.ack(order)
	}
}

// skipAll carries out orders that had to wait.
func (o *Owner) skipAll() {
	orders := o.skips
	o.skips = nil
	for _, order := range orders {
		o.skip(order)
	}
}
