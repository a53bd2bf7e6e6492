package ordering

import (
	"fmt"
	"time"
)

// endChannel ends a session's consumers, in any order.
func (w *world) endChannel(s *session) {
	if w.Intn(2) == 0 {
		w.main.remove(s.main)
		w.held.remove(s.held)
	} else {
		w.held.remove(s.held)
		w.main.remove(s.main)
	}
}

// die ends a process. What it has written may still arrive, up to some point.
func (w *world) die(s *session) {
	if s.dead {
		return
	}
	s.dead = true
	w.takeovers++
	for _, a := range s.publishes {
		if w.Intn(2) == 0 {
			break
		}
		w.enqueue(a)
	}
	w.endChannel(s)
}

// together lets a session and all others continue for a while.
func (w *world) together(s *session, steps int) {
	for range w.Intn(steps) {
		for _, each := range w.sessions {
			if !each.dead && (each != s || !s.dead) {
				w.step(each)
			}
		}
		if w.Intn(10) == 0 {
			w.tick()
		}
	}
}

func (w *world) fault() {
	s := w.victim()
	if s == nil {
		return
	}
	kind := w.Intn(6)
	if w.bug == "everything is acked" || w.bug == "redelivered without mark" || w.bug == "copies of others are kept" {
		kind = 1 + w.Intn(3) // others do not show these
	}
	w.trace("fault %d of %s", kind, s.owner.opt.Session)
	switch kind {
	case 0: // the process dies
		w.die(s)
		w.open()
	case 1: // the connection is lost, and the process notices later
		w.endChannel(s)
		w.together(s, 40)
		w.die(s)
		w.open()
	case 2, 3: // one queue, or both, lose sight of the consumer, and find it again
		w.blind++
		both := w.Intn(3)
		if both != 1 {
			w.main.lose(s.main)
		}
		if both != 2 {
			w.held.lose(s.held)
		}
		w.takeovers++
		w.together(s, 60)
		if w.Intn(3) > 0 { // the next one is gone soon, too
			if next := w.victim(); next != nil && next != s {
				w.die(next)
				w.open()
			}
		}
		w.main.find(s.main)
		w.held.find(s.held)
	case 4: // one queue loses sight of it for good
		w.blind++
		if w.Intn(2) == 0 {
			w.main.lose(s.main)
		} else {
			w.held.lose(s.held)
		}
		w.together(s, 60)
		w.die(s)
		w.open()
	case 5:
		s.owner.Stop(w.now)
		w.carryOut(s)
	}
}

// victim is a session, rather an owner.
func (w *world) victim() (v *session) {
	for _, s := range w.sessions {
		if !s.dead && (v == nil || w.Intn(3) == 0 || s.owner.phase > waiting && w.Intn(3) > 0) {
			v = s
		}
	}
	return v
}

func (w *world) publish() {
	n := len(w.fates)
	f := &fate{key: w.Intn(w.keys), fails: 0}
	switch w.Intn(5) {
	case 0:
		f.fails = 1 + w.Intn(3)
	case 2:
		if w.keys > 4 { // many wait
			f.fails = 3
		}
	case 1:
		f.fails = neverOK * w.Intn(2)
	}
	if n == 13 && w.Intn(3) == 0 {
		f.fails = poison
	}
	f.position = len(w.byKey[f.key])
	w.byKey[f.key] = append(w.byKey[f.key], n)
	w.fates = append(w.fates, f)
	m := Message{Print: fmt.Sprint(n), Key: fmt.Sprint("k", f.key)}
	if !w.noIDs {
		m.ID = fmt.Sprint("id ", n)
	}
	if w.Intn(10) == 0 {
		m.Due = w.now.Add(time.Duration(w.Intn(8000)) * time.Millisecond)
	}
	w.main.put(m)
	f.copies = 1
	if w.Intn(20) == 0 {
		f.copies++
		w.main.put(m) // the publisher did not get the confirm
	}
}

// operate replays or skips what blocks its key. A block can come twice if its publish was repeated, and its owner
// died when the first one was lifted: then it is to be skipped again.
func (w *world) operate() {
	if w.held.active != nil {
		for _, m := range w.held.active.out {
			if m.Kind != Block {
				continue
			}
			if f := w.fates[w.number(m)]; f.over && f.failed == 0 && w.Intn(20) == 0 {
				w.trace("operator skips %s again", m.ID)
				w.held.put(Message{Kind: Skip, ID: m.ID, Session: "operator"})
			}
		}
	}
	for n, f := range w.fates {
		if f.failed == 0 || w.Intn(3) > 0 {
			continue
		}
		if w.Intn(3) == 0 {
			f.over, f.failed = true, 0
			w.trace("operator skips %d", n)
			w.held.put(Message{Kind: Skip, ID: f.id, Session: "operator"})
			continue
		}
		if f.fails == poison {
			f.fails = 0
		}
		again := Message{ID: f.id, Print: fmt.Sprint(n), Key: fmt.Sprint("k", f.key), Replays: f.before + 1}
		if w.Intn(10) == 0 { // to the end of the queue, by a program that does not know better: it may not get through
			w.main.put(again)
			f.copies++
			continue
		}
		f.failed--
		f.replays++
		again.Kind, again.Seq, again.Session = Replay, f.seq, "operator"
		w.trace("operator replays %s", show(&again))
		w.held.put(again)
	}
}
