package ordering

import "time"

// Several messages are handled at once again after as many as an owner may have had unacked, and at least trustAfter,
// are done, or after trustTime, in which the session has not crashed.
const (
	trustAfter = 10
	trustTime  = time.Minute
)

// trial handles messages one by one after several owners have crashed in a row. Before a handler runs, the
// session writes into the held queue for which message: if the process dies, the next owner
// knows what it was, and counts.
type trial struct {
	crashes map[string]int      // of messages, by their print: crashes of handlers that ran alone
	notes   map[string]*Message // the notes about that
	of      *Message            // the message that is tried next
	number  uint64              // of its note
	move    *Move               // that writes the note
	noted   bool                // the note is confirmed
	passed  int                 // messages that are done
	calm    *Move               // that writes that the trial is over
	began   time.Time
}

func (o *Owner) beginTrials() {
	if o.trial == nil {
		o.trial = &trial{crashes: make(map[string]int), notes: make(map[string]*Message), began: o.now}
	}
}

// fromTrial receives a note.
func (o *Owner) fromTrial(m *Message, own bool) {
	t := o.trial
	if !own && o.hasRead() || own && (t == nil || t.of == nil || t.number != m.Number) {
		o.ack(m)
		return
	}
	o.beginTrials()
	if !own {
		o.top = max(o.top, m.Epoch)
	}
	if old := o.trial.notes[m.Print]; old != nil {
		if !own && (old.Epoch > m.Epoch || old.Epoch == m.Epoch && old.Number > m.Number) {
			old, m = m, old
		}
		o.ack(old)
	}
	o.trial.notes[m.Print] = m
}

// blame finds out which message the owner before has crashed with: that of the newest note, unless it has ended in an orderly
// way, or had ended its trial before. All other notes are of messages that did not crash it.
func (o *Owner) blame() {
	if o.trial == nil {
		return
	}
	var newest *Message
	for _, note := range o.trial.notes {
		if newest == nil || note.Epoch > newest.Epoch || note.Epoch == newest.Epoch && note.Number > newest.Number {
			newest = note
		}
	}
	for print, note := range o.trial.notes {
		n := note.Crashes
		if note != newest || o.crashes == 0 || note.Epoch <= o.calmed {
			n--
		}
		if n > 0 {
			o.trial.crashes[print] = n
			continue
		}
		delete(o.trial.notes, print)
		delete(o.trial.crashes, print)
		o.ack(note)
	}
	if len(o.trial.notes) == 0 && o.crashes < suspectAfter {
		o.trial = nil
	}
}

// mayTry reports whether the note of a message is confirmed, and writes it if there is none.
func (o *Owner) mayTry(k *key, m *Message) bool {
	t := o.trial
	if o.Crashed(m) || t.of == m && t.noted {
		return true
	}
	if t.of != m {
		t.of, t.noted = m, false
		t.number++
		t.move = &Move{key: k, to: Held, copy: Message{Kind: Trial, Number: t.number, Print: o.print(m), Crashes: t.crashes[o.print(m)] + 1, Epoch: o.epoch, Session: o.opt.Session}}
		o.publish(t.move)
	}
	return false
}

// tried is called when a handler has returned.
func (o *Owner) tried(m *Message, v Verdict) {
	t := o.trial
	if t == nil {
		return
	}
	t.of, t.move, t.noted = nil, nil, false
	delete(t.crashes, o.print(m))
	if note := t.notes[m.Print]; note != nil {
		delete(t.notes, m.Print)
		o.ack(note)
	}
	if v == Finished || v == FailForGood { // others come again, and would keep the rest from being tried
		t.passed++
	}
	o.endTrials()
}

// mayTake reports whether the next message can be taken, as far as a trial is concerned.
func (o *Owner) mayTake() bool {
	t := o.trial
	return t == nil || o.running == 0 && (t.of == nil || t.noted) && t.calm == nil
}

// endTrials writes that several messages are handled at once again, if it is time. That begins when it is confirmed:
// otherwise the message of the last note would be blamed if one of them crashed the process at once.
func (o *Owner) endTrials() {
	t := o.trial
	if t == nil || t.calm != nil || o.phase != owning || o.running > 0 {
		return
	}
	since := o.since(t.began)
	// A message that has crashed its consumers is waited for. But it may be gone.
	if len(t.crashes) > 0 && since < max(trustTime, o.opt.Lasting/2) || t.passed < max(trustAfter, o.opt.Window) && since < trustTime {
		return
	}
	t.calm = &Move{to: Held, copy: Message{Kind: Calm, Epoch: o.epoch, Session: o.opt.Session}}
	o.publish(t.calm)
}

// calmDown handles several messages at once again.
func (o *Owner) calmDown() {
	for _, note := range o.trial.notes {
		o.ack(note)
	}
	o.trial, o.crashes = nil, 0
	o.advanceAll()
}

// print is a hash of a message's content.
func (o *Owner) print(m *Message) string {
	if m.Print == "" {
		m.Print = o.opt.Print(m)
	}
	return m.Print
}
