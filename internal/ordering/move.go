package ordering

import (
	"slices"
	"strings"
	"time"
)

// Move is a message on its way to another queue. When it is confirmed, the original is acked.
type Move struct {
	key       *key
	of        *Message // the original; nil: none
	lifts     *Message // the Block that it replaces
	to        Place
	copy      Message
	confirmed bool
	since     time.Time // when it was confirmed
	back      bool      // the copy has come back from the held queue
	runs      bool      // the handler of the original runs
	came      *Message  // the copy of one whose handler runs
}

// ended is what has become of a message that was taken.
type ended struct {
	verdict Verdict
	due     time.Time
}

// toHeld moves a message to the held queue.
func (o *Owner) toHeld(k *key, of *Message, copied Message) *Move {
	copied.Epoch, copied.Session, copied.Redelivered = o.epoch, o.opt.Session, false
	if copied.Kind != Block {
		copied.Kind = Copy
	}
	copied.Number, copied.Crashes, copied.also, copied.done, copied.skip, copied.room, copied.Data = 0, 0, nil, false, false, false, nil
	mv := &Move{key: k, of: of, to: Held, copy: copied}
	o.coming++
	o.copies.add(&mv.copy)
	o.publish(mv)
	return mv
}

func (o *Owner) publish(mv *Move) {
	o.moves++
	o.do(Action{Do: Publish, To: mv.to, Write: mv.copy, Of: mv.of, Move: mv})
}

// Published is called when a move is confirmed.
func (o *Owner) Published(mv *Move, now time.Time) {
	o.now = now
	o.moves--
	if o.phase == closed {
		return
	}
	mv.confirmed, mv.since = true, now
	switch {
	case mv == o.bye:
		o.end("", true)
		return
	case o.trial != nil && mv == o.trial.move:
		o.trial.noted = true
		o.again(mv.key)
	case o.trial != nil && mv == o.trial.calm:
		o.calmDown()
	case mv.to == Failed && o.opt.Halt && !mv.of.skip && !strings.HasPrefix(mv.copy.Key, Alone):
		o.block(mv)
	case mv.to == Failed:
		o.settle(mv)
		mv.back = true
	case mv.runs: // it is settled when its handler has returned
	default:
		o.settle(mv)
	}
	o.complete(mv)
	o.farewell()
}

// Refused is called when a message can never be published in this form, because it is too large. One that has
// failed goes to the failed queue instead, and one that follows another stays where it is.
func (o *Owner) Refused(mv *Move, now time.Time) {
	o.now = now
	o.moves--
	k := mv.key
	if o.phase == closed || k == nil {
		return
	}
	o.coming--
	o.copies.remove(&mv.copy)
	switch mv {
	case k.moving:
		k.moving = &Move{key: k, of: mv.of, lifts: mv.lifts, to: Failed, copy: mv.copy}
		o.publish(k.moving)
	case k.follows:
		k.follows = nil
		mv.of.stays = true
		if mv.runs {
			o.conclude(k)
		} else {
			k.lane = slices.Insert(k.lane, 0, mv.of)
		}
		o.advance(k)
	}
	o.farewell()
}

// block writes into the held queue that the key of a message that has failed for good waits for an
// operator. Only then is the original acked: a Block without its message in the failed queue would never
// be lifted.
func (o *Owner) block(mv *Move) {
	b := mv.copy
	b.Kind, b.Due = Block, time.Time{}
	mv.key.moving = o.toHeld(mv.key, mv.of, b)
	mv.key.moving.lifts = mv.lifts
}

// settle acks what a move replaces.
func (o *Owner) settle(mv *Move) {
	if mv.of != nil {
		o.ack(mv.of)
	}
	if mv.lifts != nil {
		o.ack(mv.lifts)
	}
}

// complete ends a move that is confirmed and has come back.
func (o *Owner) complete(mv *Move) {
	if !mv.confirmed || !mv.back || mv.key == nil {
		return
	}
	switch k := mv.key; mv {
	case k.moving:
		k.moving = nil
	case k.follows:
		k.follows = nil
		if mv.runs {
			o.exchange(mv)
		}
	}
	o.skipAll()
	o.advance(mv.key)
}

// exchange lets a message whose handler runs take the place of its copy in the held queue, and acks its delivery of
// the main queue. Then others can be moved behind it.
func (o *Owner) exchange(mv *Move) {
	k, m, copied := mv.key, mv.of, mv.came
	o.remove(k, m)
	o.do(Action{Do: Exchange, Of: m, With: copied})
	m.from, copied.from = Held, Main
	m.Kind, copied.Kind = Copy, Plain
	m.ID, m.Print, m.Seq, m.Epoch, m.Session = copied.ID, copied.Print, copied.Seq, copied.Epoch, copied.Session
	o.insert(k, m)
	o.ack(copied)
	o.conclude(k)
}

// conclude is called when the copy of a message that runs is not under way any more: its handler may have returned
// meanwhile.
func (o *Owner) conclude(k *key) {
	if e := k.ended; e != nil {
		k.ended = nil
		o.Done(k.running, e.verdict, e.due, o.now)
	}
}

// again lets a key run next that had to wait for something.
func (o *Owner) again(k *key) {
	if o.phase != owning {
		return
	}
	o.runnable.remove(func(other *key) bool { return other == k })
	o.runnable.putFirst(k)
	k.queued = true
}
