package ordering

import (
	"fmt"
	"strings"
	"time"
)

// Alone begins the key that an Owner gives to a message which has none.
const Alone = "\x00"

// Options are those of an Owner.
type Options struct {
	Session    string                // the name of this session, that no other has
	Window     int                   // how many messages of the main queue are delivered ahead
	Workers    int                   // how many messages are handled at the same time
	MaxHeld    int                   // how many messages may wait in the held queue; failed ones may exceed it by Window
	Halt       bool                  // a message that has failed for good blocks its key
	CrashLimit int                   // how often a message may crash its consumers before it goes to the failed queue
	Lasting    time.Duration         // after which the session ends, before the broker ends it. 0: never
	Deliveries int                   // of the held queue, after which the session ends. 0: without limit
	EndWithin  time.Duration         // how long handlers may keep the session from ending. 0: without limit
	Probe      time.Duration         // how often to show signs of life
	Print      func(*Message) string // a hash of a message's content
	Lease      time.Duration         // how long a queue may send nothing although it should, before the session ends
}

// phase is how far a session has come.
type phase int

const (
	waiting  phase = iota // for the main queue
	entering              // for the held queue
	reading               // the held queue, up to the first mark
	claiming              // until the claim has come back
	owning
	closing // it starts no handlers any more
	closed
)

// Owner is a session that wants to handle the messages of a main queue, and then does. Its methods are
// not safe for concurrent use. After each of them, Actions are to be carried out.
type Owner struct {
	opt   Options
	now   time.Time // of the last event
	phase phase
	out   []Action

	keys     map[string]*key
	copies   index // in the held queue, or on their way to it
	past     index // copies of others that are done, until newer messages come from the main queue than their originals
	fresh    bool  // newer messages have come
	runnable fifo[*key]
	parked   []*key // that have to wait for room in the held queue
	timers   timers
	running  int
	alone    int    // messages without a key
	seq      uint64 // the highest number in the held queue
	held     int    // messages in the held queue
	coming   int    // messages on their way to it
	reserved int    // messages that run and for which there is room in it
	moves    int    // publishes that are not confirmed
	unacked  int    // of the main queue

	// What the session knows of others.
	epoch   uint64
	top     uint64     // the highest epoch of others
	calmed  uint64     // the highest epoch of an owner that has ended its trial
	crashes int        // owners that have crashed before this one, in a row
	notes   []*Message // claims and farewells of others, which are acked when the own claim is back
	skips   []*Message // orders of operators, for messages that have not been read yet
	claim   *Message   // the own claim, which stays unacked
	calm    []*Message // that the session does not crash, which stays unacked, too

	// What came from the main queue and must not be used yet, and the marks.
	pen      fifo[penned]
	need     uint64 // the mark that the newest message needs
	sent     uint64 // marks sent
	back     uint64 // marks that have come back
	marked   time.Time
	deferred *Message // of the main queue: it is done, and stays unacked because no other one is
	arrived  int      // messages of the main queue

	pause   *pause // not nil while something that the handler needs is down
	trial   *trial // not nil while the messages are handled one by one, because of crashes
	bye     *Move
	leaving int // messages that had arrived when the last probe was sent
	probes  int // sent at the end

	began      time.Time // when the first message came
	probed     time.Time // when a probe was sent last
	greeted    time.Time // when a hello was sent last
	heardMain  time.Time
	heardHeld  time.Time
	probeNoted time.Time // when a probe was confirmed last
	markNoted  time.Time
	stopped    time.Time
	left       time.Time // when the last probe was sent
	received   int       // deliveries of the held queue
}

// penned is a message of the main queue that may be used when a mark has come back.
type penned struct {
	message *Message
	need    uint64
}

// pause is a time in which only one message is tried.
type pause struct{ of *key }

// New begins a session that consumes the main queue.
func New(opt Options, now time.Time) *Owner {
	o := &Owner{opt: opt, keys: make(map[string]*key), copies: make(index), past: make(index), now: now, heardMain: now, heardHeld: now}
	o.probe()
	return o
}

// Actions are what is to be done since the last call. They are valid until the next call of any method.
func (o *Owner) Actions() []Action {
	out := o.out
	o.out = o.out[:0]
	return out
}

// Owns reports whether the session may handle messages.
func (o *Owner) Owns() bool { return o.phase == owning }

// Running is how many messages are being handled.
func (o *Owner) Running() int { return o.running }

// Ending reports whether the session begins no handlers any more.
func (o *Owner) Ending() bool { return o.phase >= closing }

// Runnable is how many messages Take may return.
func (o *Owner) Runnable() int {
	if o.phase != owning || !o.mayTake() {
		return 0
	}
	if len(o.parked) > 0 && o.room() {
		return len(o.parked) + o.runnable.len()
	}
	return o.runnable.len()
}

// State is what can be seen of an Owner.
type State struct {
	Owns    bool // it may handle messages
	Held    int  // messages in the held queue
	Keys    int  // of these messages, without those that the Owner has given
	Blocked int  // keys that wait for an operator
	Stalled bool // the held queue is full, and no message can run until one of those that wait is due
}

// State returns what can be seen of the Owner.
func (o *Owner) State() State {
	s := State{Owns: o.phase == owning || o.phase == closing, Held: o.held}
	for _, k := range o.keys {
		if len(k.held) > 0 && !strings.HasPrefix(k.name, Alone) {
			s.Keys++
		}
		if k.blocked() {
			s.Blocked++
		}
	}
	idle := o.phase == owning && o.running == 0 && o.runnable.len() == 0 && o.moves == 0
	s.Stalled = idle && (o.full() && o.unacked >= o.opt.Window || len(o.parked) > 0 && !o.room())
	return s
}

// List returns the messages in the held queue, those of each key in their order.
func (o *Owner) List() []*Message {
	var all []*Message
	for _, k := range o.sorted() {
		all = append(all, k.held...)
	}
	return all
}

// Closed reports whether the session has ended.
func (o *Owner) Closed() bool { return o.phase == closed }

func (o *Owner) do(a Action) { o.out = append(o.out, a) }

// write publishes a message that may get lost: it is sent again if nothing comes back.
func (o *Owner) write(to Place, m Message) {
	m.Session = o.opt.Session
	o.do(Action{Do: Publish, To: to, Write: m})
}

// ack is called when a message is settled.
func (o *Owner) ack(m *Message) {
	if m.done {
		return
	}
	m.done = true
	if m.from == Main && o.unacked == 1 { // it stays unacked until there is another one
		o.deferred = m
		return
	}
	o.ackNow(m)
}

// ackNow acks a message and what goes with it. A Block goes first: it must not be left without the replay that
// lifts it, or without the order to skip it.
func (o *Owner) ackNow(m *Message) {
	for _, other := range m.also {
		if other.Kind == Block {
			o.ack(other)
		}
	}
	if m.from == Main {
		o.unacked--
	}
	o.do(Action{Do: Ack, Of: m})
	for _, other := range m.also {
		o.ack(other)
	}
}

// end closes the session at once. The broker gives everything that is not acked to another one.
func (o *Owner) end(reason string, clean bool) {
	if o.phase == closed {
		return
	}
	o.phase = closed
	o.runnable, o.parked, o.timers = fifo[*key]{}, nil, nil
	o.do(Action{Do: Close, Reason: reason, Clean: clean})
}

// FromMain receives a delivery of the main queue.
func (o *Owner) FromMain(m *Message, now time.Time) {
	o.now = now
	if o.phase == closed {
		return
	}
	m.from = Main
	o.heardMain = now
	crowded := o.crowded()
	o.unacked++
	o.arrived++
	if before := o.deferred; before != nil {
		o.deferred = nil
		o.ackNow(before)
	}
	if o.phase == waiting {
		o.phase, o.heardHeld, o.began = entering, now, now
		o.do(Action{Do: ConsumeHeld})
		o.hello()
	}
	if m.Redelivered || o.sent == 0 {
		o.need = o.sent + 1
	}
	o.pen.add(penned{m, o.need})
	o.admit()
	if o.phase == owning && o.crowded() && !crowded {
		o.advanceAll()
	}
	o.farewell()
}

// admit uses what has come from the main queue, as far as that is known to be right.
func (o *Owner) admit() {
	for o.phase == owning && o.pen.len() > 0 && o.pen.first().need <= o.back {
		o.enter(o.pen.take().message)
	}
	if o.phase == owning && o.sent == o.back && o.pen.len() > 0 {
		o.mark(0)
	}
}

// enter adds a message of the main queue to its key.
func (o *Owner) enter(m *Message) {
	if !m.Redelivered && !o.fresh {
		o.fresh = true
		clear(o.past)
	}
	if m.Kind != Plain {
		o.ack(m)
		return
	}
	if m.Redelivered && (o.copies.has(m) || o.past.has(m)) {
		o.ack(m) // its owner died after it had moved the message, and before it had acked the original
		return
	}
	if m.Key == "" {
		o.alone++
		m.Key = fmt.Sprintf("%s%s %d", Alone, o.opt.Session, o.alone)
	}
	k := o.key(m.Key)
	k.lane = append(k.lane, m)
	o.advance(k)
}

func (o *Owner) advanceAll() {
	for _, k := range o.sorted() {
		o.advance(k)
	}
}
