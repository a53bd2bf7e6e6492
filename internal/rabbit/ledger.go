package rabbit

import (
	"slices"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// ackDelay is the longest time that a finished message waits to be acked together with others.
const ackDelay = 5 * time.Millisecond

type verdict uint8

const (
	unsettled verdict = iota
	acked             // finished: may be acked together with others
	requeued          // requeue it (basic.nack)
	rejected          // dead-letter it (basic.reject)
	sent              // the frame has been sent
)

// ledger records the verdict on each delivery of one session, and sends them in as few frames as
// possible: one ack for all up to a tag, once everything up to it is finished.
//
// Delivery tags of a channel with one consumer count 1, 2, 3, …, so a slice from the first unsettled tag
// on is enough. One goroutine sends, so that a requeue or reject always precedes the ack that passes over
// it.
type ledger struct {
	ch      *amqp.Channel
	batch   int // this many finished ones in a row are acked at once
	slack   int // and this many behind one that is not finished
	settled func(notes []any, sent bool)
	sent    []any // notes for settled, of what is being sent; only run uses it
	// flushed wait for what is being sent; only run uses it.
	flushed []chan struct{}

	mu       sync.Mutex
	first    uint64          // the tag of verdicts[0]
	verdicts []verdict       // by tag, from first to the newest delivered
	notes    []any           // of the same tags; nil if they are not needed
	ended    bool            // nothing is sent any more
	prefix   int             // this many from first on have a verdict
	finished int             // with a verdict that was not sent
	returns  int             // of these, requeued or rejected
	late     bool            // the timer has fired
	flushing []chan struct{} // to be closed when all verdicts have been sent
	mark     uint64          // first when the timer was set
	open     int             // delivered, without a verdict
	retired  bool            // no more deliveries will come
	drained  chan struct{}
	alone    chan struct{} // closed: no more will come, and one is left without a verdict

	pace pace

	timer *time.Timer
	wake  chan struct{}
	end   chan struct{} // closed: stop
	done  chan struct{}
}

func newLedger(ch *amqp.Channel, prefetch int, o ConsumeOptions) *ledger {
	l := &ledger{
		ch: ch, settled: o.Settled, first: 1, batch: max(1, prefetch/4), slack: max(1, prefetch*3/4),
		pace:    pace{free: prefetch > 0 && prefetch <= unheld},
		drained: make(chan struct{}), alone: make(chan struct{}), wake: make(chan struct{}, 1), end: make(chan struct{}), done: make(chan struct{}),
	}
	l.timer = time.AfterFunc(time.Hour, l.expire)
	l.timer.Stop()
	go func() {
		defer close(l.done)
		if o.Around == nil {
			l.run()
		} else {
			o.Around(l.run)
		}
	}()
	return l
}

func (l *ledger) signal() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// delivered adds a tag.
func (l *ledger) delivered(tag uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for next := l.first + uint64(len(l.verdicts)); next <= tag; next++ {
		l.verdicts = append(l.verdicts, unsettled)
		if l.settled != nil {
			l.notes = append(l.notes, nil)
		}
		l.open++
	}
}

// settle records a verdict, and a note to be reported when it has been sent. False: it never will be. A
// second verdict on the same delivery is ignored.
func (l *ledger) settle(tag uint64, v verdict, note any) bool {
	l.mu.Lock()
	if l.ended {
		l.mu.Unlock()
		return false
	}
	i := tag - l.first
	if tag < l.first || i >= uint64(len(l.verdicts)) || l.verdicts[i] != unsettled {
		l.mu.Unlock()
		return true
	}
	l.verdicts[i] = v
	if l.settled != nil {
		l.notes[i] = note
	}
	l.open--
	l.finished++
	if v != acked {
		l.returns++
	}
	for l.prefix < len(l.verdicts) && l.verdicts[l.prefix] != unsettled {
		l.prefix++
	}
	now := l.returns > 0 || l.retired && l.open == 0 || l.prefix >= l.batch || l.finished >= l.prefix+l.slack
	if !now && l.finished == 1 {
		l.setTimer()
	}
	l.mu.Unlock()
	if now {
		l.signal()
	}
	return true
}

// setTimer is called with the mutex held.
func (l *ledger) setTimer() {
	l.mark = l.first
	l.timer.Reset(ackDelay)
}

func (l *ledger) expire() {
	l.mu.Lock()
	l.late = true
	l.mu.Unlock()
	l.signal()
}

// flush waits until every verdict so far has been sent, or never will be.
func (l *ledger) flush() {
	flushed := make(chan struct{})
	l.mu.Lock()
	l.flushing = append(l.flushing, flushed)
	l.mu.Unlock()
	l.signal()
	select {
	case <-flushed:
	case <-l.done:
	}
}

// retire notes that no further delivery will come.
func (l *ledger) retire() {
	l.mu.Lock()
	l.retired = true
	l.mu.Unlock()
	l.signal()
}

// stop ends the goroutine. Nothing is sent any more.
func (l *ledger) stop() {
	close(l.end)
	<-l.done
}

// leave reports that the remaining verdicts will never be sent.
func (l *ledger) leave() {
	l.mu.Lock()
	l.ended = true
	for i := range l.notes {
		l.take(i)
	}
	l.mu.Unlock()
	l.reportNotes(false)
}

// take keeps the note of a delivery for settled. The caller holds the lock.
func (l *ledger) take(i int) {
	if l.settled != nil && l.notes[i] != nil {
		l.sent = append(l.sent, l.notes[i])
		l.notes[i] = nil
	}
}

func (l *ledger) reportNotes(sent bool) {
	if len(l.sent) > 0 {
		l.settled(l.sent, sent)
		clear(l.sent)
		l.sent = l.sent[:0]
	}
}

func (l *ledger) run() {
	defer l.leave()
	defer l.timer.Stop()
	var frames []settlement
	alone := false
	for {
		select {
		case <-l.wake:
		case <-l.end:
			return
		}
		var left int
		frames, left = l.collect(frames[:0])
		for _, f := range frames {
			if f.send(l.ch) != nil {
				return // the session is dead: the broker redelivers its messages
			}
		}
		l.noteSent(len(frames))
		l.reportNotes(true)
		for _, f := range l.flushed {
			close(f)
		}
		switch left {
		case 1:
			if !alone {
				close(l.alone)
				alone = true
			}
		case 0:
			close(l.drained)
			return
		}
	}
}

// noteSent notes that frames were sent.
func (l *ledger) noteSent(frames int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pace.sent(frames)
}

// rest is how long the channel must stay open so that the broker does not forget acks.
func (l *ledger) rest() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.pace.rest()
}

// settlement is one frame to the broker.
type settlement struct {
	tag      uint64
	verdict  verdict
	multiple bool
}

func (s settlement) send(ch *amqp.Channel) error {
	switch s.verdict {
	case requeued:
		return ch.Nack(s.tag, false, true)
	case rejected:
		return ch.Reject(s.tag, false)
	default:
		return ch.Ack(s.tag, s.multiple)
	}
}

// collect returns what is to be sent: first requeues and rejects, then one ack for the finished prefix,
// then, if the gap behind that lasts, an ack for each finished message behind it. It also returns how
// many deliveries are left to be settled; -1: more will come, or there is more to be sent.
func (l *ledger) collect(out []settlement) ([]settlement, int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.returns > 0 {
		for i, v := range l.verdicts {
			if v == requeued || v == rejected {
				out = append(out, settlement{tag: l.first + uint64(i), verdict: v})
				l.verdicts[i] = sent
				l.take(i)
				l.finished--
			}
		}
		l.returns = 0
	}
	last := -1
	for i, v := range l.verdicts[:l.prefix] {
		if v == acked {
			last = i
			l.take(i)
			l.finished--
		}
	}
	if last >= 0 {
		out = append(out, settlement{tag: l.first + uint64(last), verdict: acked, multiple: true})
	}
	l.verdicts = slices.Delete(l.verdicts, 0, l.prefix)
	if l.settled != nil {
		l.notes = slices.Delete(l.notes, 0, l.prefix)
	}
	l.first += uint64(l.prefix)
	l.prefix = 0
	l.flushed, l.flushing = l.flushing, nil
	if l.finished >= l.slack || len(l.flushed) > 0 || l.late && l.mark == l.first {
		for i, v := range l.verdicts {
			if v == acked {
				out = append(out, settlement{tag: l.first + uint64(i), verdict: acked})
				l.verdicts[i] = sent
				l.take(i)
			}
		}
		l.finished = 0
	}
	if l.late = false; l.finished > 0 {
		l.setTimer()
	}
	if !l.retired || l.finished > 0 {
		return out, -1
	}
	return out, l.open
}
