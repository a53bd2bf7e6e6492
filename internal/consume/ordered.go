package consume

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/rehop/rehop/internal/envelope"
	"github.com/rehop/rehop/internal/ordering"
	"github.com/rehop/rehop/internal/rabbit"
)

// Order are the settings of a subscription that handles messages in order by key.
type Order struct {
	Key     func(view any) string // the key of a message; "": it is ordered with no other
	Held    string                // the queue for what waits
	MaxHeld int                   // messages that may wait in it
	Halt    bool                  // a message that has failed for good blocks its key

	Shared    *Partitions // what the partitions share, of which the queue is one; nil: it has none
	Partition int
}

const (
	// heldPrefetch is the prefetch of the held queue: an owner reads all of it.
	heldPrefetch = 65535
	// OrderedSession is how long a session of an ordered subscription lasts, so that no message is unacked for
	// longer than the broker allows.
	OrderedSession = 10 * time.Minute

	heldDeliveries = 20_000 // of the held queue in a session, whose acks have to be remembered
	probeEvery     = 5 * time.Second
	standbyAfter   = 5 * time.Second // after which a session that does not own waits for another process
	leaseTime      = 20 * time.Second
)

// ordered is a session of a subscription that handles messages in order: it reports to an Owner what happens, and
// carries out what the Owner decides.
type ordered struct {
	sub    *Subscription
	base   context.Context
	from   offer           // of the main queue
	ctx    context.Context // ends with the session
	end    context.CancelFunc
	over   chan struct{} // closed when the Owner has closed
	ending chan struct{} // closed when no handler begins any more
	tasks  sync.WaitGroup
	timer  *time.Timer

	reported Held // to hooks; only watch uses it, and serve when watch has ended
	at       time.Time

	presented time.Time // when present has done so; only watch uses it

	mu        sync.Mutex
	owner     *ordering.Owner
	held      *rabbit.Session
	reason    string
	clean     bool
	owned     bool                   // it has handled messages, or could
	released  bool                   // because another process is to have the partition
	ticks     time.Time              // when the timer fires
	questions []rabbit.Delivery      // of operators, what waits
	ready     *sync.Cond             // there may be a message to take, or this session has no more
	idle      int                    // workers that wait for ready, without one that was woken
	waking    bool                   // one was woken, and has not run yet
	noting    map[string]int         // by kind, notes that are not confirmed
	pending   map[*Handling]struct{} // whose results are reported when they are acked
	ended     bool                   // no handler begins any more
}

// superviseOrdered keeps a session open until the subscription ends.
func (s *Subscription) superviseOrdered(ctx context.Context, base context.Context) {
	o := s.opened
	s.opened = offer{}
	up := false // and reported so
	for failures := 0; !s.stopping(); {
		if o.session == nil {
			var err error
			if o, err = s.begin(ctx); err != nil {
				failures++
				up = false
				s.awaitRetry(ctx, failures, err)
				continue
			}
		}
		failures = 0
		s.receiving.Store(true)
		if !up {
			s.settings.Events.Consumer(true, nil)
		}
		up = true
		r := s.newOrdered(base, o)
		r.serve()
		o = offer{}
		if !r.clean && !s.stopping() {
			up = false
			s.reportDown(errors.New(r.reason))
			_ = rabbit.Pause(ctx, s.shared.Backoff.Delay(1))
		}
		if r.wasReleased() {
			_ = rabbit.Pause(ctx, standBack)
		}
	}
	if o.session != nil {
		o.session.Close()
	}
	s.receiving.Store(false)
	s.resumeOrdered()
}

func (s *Subscription) newOrdered(base context.Context, o offer) *ordered {
	ctx, end := context.WithCancel(context.Background())
	r := &ordered{sub: s, base: base, from: o, ctx: ctx, end: end, over: make(chan struct{}),
		ending: make(chan struct{}), noting: make(map[string]int), pending: make(map[*Handling]struct{}), timer: time.NewTimer(time.Hour)}
	r.ready = sync.NewCond(&r.mu)
	handler := s.settings.Timeout*time.Duration(1+s.settings.Schedule.Immediate) + s.settings.StuckAfter
	r.owner = ordering.New(ordering.Options{
		Session: rabbit.NewID(), Window: s.settings.Prefetch, Workers: s.settings.Concurrency, MaxHeld: s.settings.Order.MaxHeld, Halt: s.settings.Order.Halt,
		CrashLimit: s.settings.CrashLimit, Lasting: lastingOf(base), Deliveries: heldDeliveries, EndWithin: handler + ConfirmGrace,
		Probe: probeEvery, Lease: leaseTime,
		Print: func(m *ordering.Message) string { return printOf(m.Data.(*Handling)) },
	}, time.Now())
	return r
}

// lastingKey is the key of how long sessions of an ordered subscription last, in the context that it was made with.
type lastingKey struct{}

// ShortSessions is a context for an ordered subscription whose sessions last this long, for tests.
func ShortSessions(ctx context.Context, lasting time.Duration) context.Context {
	return context.WithValue(ctx, lastingKey{}, lasting)
}

func lastingOf(ctx context.Context) time.Duration {
	if lasting, ok := ctx.Value(lastingKey{}).(time.Duration); ok {
		return lasting
	}
	return OrderedSession
}

// serve lets workers handle messages until the session has ended.
func (r *ordered) serve() {
	s := r.sub
	r.event(func(*ordering.Owner, time.Time) {})
	r.tasks.Go(r.watch)
	r.tasks.Go(r.readMain)
	s.mu.Lock()
	s.order = r
	close(s.offered)
	s.offered = make(chan struct{})
	s.mu.Unlock()

	stop, gone := s.stop, s.gone
	var limit <-chan time.Time
	for ended := false; !ended; {
		select {
		case <-r.over:
			ended = true
		case <-stop:
			stop = nil
			r.event((*ordering.Owner).Stop)
			r.wakeAll()
		case <-gone: // no handler runs, and the broker has to confirm what they have left
			gone = nil
			timer := time.NewTimer(ConfirmGrace)
			defer timer.Stop()
			limit = timer.C
		case <-limit:
			s.noteUnmoved(true)
			r.abandon("the broker has not confirmed what was to be moved")
		case <-s.kill:
			r.abandon("the subscription was stopped")
		}
	}
	r.wakeAll()
	r.timer.Stop()
	r.mu.Lock()
	held := r.held
	r.mu.Unlock()
	s.receiving.Store(false)
	defer s.expectAnswer()()
	r.from.session.Close()
	if held != nil {
		held.Close()
	}
	r.end()
	r.tasks.Wait()
	if r.owned && !r.reported.Owns { // too shortly for watch
		r.reportHeld(Held{Owns: true})
	}
	r.reportHeld(Held{})
	if p := s.settings.Order.Shared; p != nil {
		p.owns(r, false, false)
	}
	r.leave()
}

// event reports something to the Owner, and carries out what it decides.
func (r *ordered) event(tell func(o *ordering.Owner, now time.Time)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	tell(r.owner, time.Now())
	r.carryOut()
}

// carryOut does what the Owner wants. Nothing of it waits: publishes and closes are left to other goroutines. The
// caller holds the lock.
func (r *ordered) carryOut() {
	for _, a := range r.owner.Actions() {
		switch a.Do {
		case ordering.ConsumeHeld:
			r.tasks.Go(r.consumeHeld)
		case ordering.Publish:
			r.publish(a)
		case ordering.Ack:
			r.ack(a.Of.Data.(*Handling))
		case ordering.Exchange:
			running, copied := a.Of.Data.(*Handling), a.With.Data.(*Handling)
			running.exchanged, copied.exchanged = copied, running
		case ordering.Close:
			r.endTurns()
			r.reason, r.clean = a.Reason, a.Clean
			close(r.over)
		}
	}
	if r.owner.Owns() {
		r.owned = true
		r.answer()
	}
	if r.owner.Ending() {
		r.endTurns()
	}
	// One at a time: it wakes the next one when it has taken a message. If handlers take little time, those that run take most messages.
	if r.idle > 0 && !r.waking && r.owner.Runnable() > 0 {
		r.idle--
		r.waking = true
		r.ready.Signal()
	}
	if next := r.owner.Next(); !r.owner.Closed() && (r.ticks.IsZero() || next.Before(r.ticks)) {
		r.ticks = next
		r.timer.Reset(time.Until(next))
	}
}

// watch reports the time to the Owner, and what waits to hooks.
func (r *ordered) watch() {
	began := time.Now()
	for {
		select {
		case <-r.timer.C:
		case <-r.over:
			return
		}
		var (
			held       Held
			owns, busy bool
		)
		r.event(func(o *ordering.Owner, now time.Time) {
			r.ticks = time.Time{}
			o.Tick(now)
			held, owns, busy = r.waiting(), o.Owns(), o.Running() > 0
		})
		r.reportHeld(held)
		if !held.Owns && time.Since(began) >= standbyAfter {
			r.sub.resumeOrdered() // another process finds out when the handler can work again
		}
		if p := r.sub.settings.Order.Shared; p != nil {
			if p.owns(r, owns, busy); !held.Owns {
				r.present()
			}
		}
	}
}

// atOnce is how many deliveries of the main queue are reported to the Owner together, if they have arrived.
const atOnce = 16

// readMain reports to the Owner what the main queue delivers.
func (r *ordered) readMain() {
	session := r.from.session
	arrived := make([]*ordering.Message, 0, atOnce)
	for d, ok := session.Next(); ok; d, ok = session.Next() {
		arrived = append(arrived[:0], r.message(d, false))
		for len(arrived) < atOnce {
			if d, ok = session.Arrived(); !ok {
				break
			}
			arrived = append(arrived, r.message(d, false))
		}
		r.event(func(o *ordering.Owner, now time.Time) {
			for _, m := range arrived {
				o.FromMain(m, now)
			}
		})
	}
	r.abandon(lostConsumer)
}

// readHeld reports to the Owner what the held queue delivers.
func (r *ordered) readHeld(session *rabbit.Session) {
	for d, ok := session.Next(); ok; d, ok = session.Next() {
		if len(d.Body) == 0 && r.readNote(d) {
			continue
		}
		m := r.message(d, true)
		r.event(func(o *ordering.Owner, now time.Time) { o.FromHeld(m, now) })
	}
	r.abandon(lostConsumer)
}

// lostConsumer is why a session ends that receives nothing any more.
const lostConsumer = "the broker ended the consumer, or the connection was lost"

// readNote reads a message of the held queue that is not for the Owner. False: it is.
func (r *ordered) readNote(d rabbit.Delivery) bool {
	switch envelope.Text(d.Headers[envelope.OrderKind]) {
	case envelope.OrderList:
		r.event(func(*ordering.Owner, time.Time) { r.questions = append(r.questions, d) })
	case envelope.OrderPresent:
		if p := r.sub.settings.Order.Shared; p != nil {
			p.saw(&d)
		}
		d.Ack()
	default:
		return false
	}
	return true
}

// abandon ends the session at once.
func (r *ordered) abandon(reason string) {
	r.event(func(o *ordering.Owner, now time.Time) { o.Abandon(reason, now) })
}

// consumeHeld begins to read the held queue.
func (r *ordered) consumeHeld() {
	options := r.sub.settings.Options
	options.Queue, options.Tag, options.Args, options.Plan, options.First = r.sub.settings.Order.Held, "", nil, r.sub.form.Load().RetryPlan, ""
	session, err := r.sub.shared.Consume.OpenSession(r.ctx, options, heldPrefetch)
	if err != nil {
		r.abandon(err.Error())
		return
	}
	r.mu.Lock()
	closed := r.owner.Closed()
	r.held = session
	r.mu.Unlock()
	if closed {
		session.Close()
		return
	}
	r.readHeld(session)
}

// ack acks a delivery, or has the broker move it to the failed queue if rehop cannot.
func (r *ordered) ack(h *Handling) {
	by := (*rabbit.Delivery).Ack
	if h.rejects {
		by = (*rabbit.Delivery).Reject
	}
	delivery := &h.raw
	if h.exchanged != nil {
		delivery = &h.exchanged.raw
	}
	if h.pending == nil {
		by(delivery)
		return
	}
	h.settled = true
	delete(r.pending, h)
	r.sub.settle(h, *h.pending, func(d *rabbit.Delivery) bool {
		delivery.Note = d.Note
		return by(delivery)
	})
}

// endTurns notes that no handler begins any more. The caller holds the lock.
func (r *ordered) endTurns() {
	if !r.ended {
		r.ended = true
		close(r.ending)
	}
}

// errLost is why a handler is canceled whose session was lost: the broker delivers its message again.
var errLost = errors.New("the session of the message was lost")

// leave ends what is left of a session. Its handlers are canceled, and have some time: another message of their keys may begin
// in the next session.
func (r *ordered) leave() {
	r.mu.Lock()
	pending := slices.Collect(maps.Keys(r.pending))
	r.mu.Unlock()
	for _, h := range pending {
		r.sub.report(h, Result{Outcome: Lost, Err: h.pending.Err, Took: h.pending.Took})
	}
	if r.clean || r.sub.stopping() {
		return
	}
	var mine []*worker
	for w, h := range r.sub.handlers() {
		if h.ordered == r {
			h.cancel(context.Canceled, errLost)
			mine = append(mine, w)
		}
	}
	limit := time.NewTimer(r.sub.settings.StopGrace)
	defer limit.Stop()
	for _, w := range mine {
		idle := w.untilIdle()
		if idle == nil {
			continue
		}
		select {
		case <-idle:
		case <-limit.C:
			return
		case <-r.sub.stop:
			return
		}
	}
}

// wakeAll has all idle workers look whether this session has more messages for them.
func (r *ordered) wakeAll() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.idle = 0
	r.ready.Broadcast()
}

// take waits for a message to handle, which ends with endTurn. False: this session has no more.
func (r *ordered) take() (*ordering.Message, bool) {
	for r.awaitRunnable() {
		m, ok := r.owner.Take(time.Now())
		crashed, skipped := ok && r.owner.Crashed(m), ok && m.Skipped()
		r.carryOut()
		r.mu.Unlock()
		switch {
		case crashed, skipped:
			r.giveUp(m, crashed)
		case ok:
			return m, true
		}
		r.sub.endTurn() // there is none any more, or it is not to be handled
	}
	return nil, false
}

// awaitRunnable waits until there may be a message to take, and a handler may run. The session is locked then. False: this session
// has no more.
func (r *ordered) awaitRunnable() bool {
	r.mu.Lock()
	for !r.sub.stopping() && !r.owner.Closed() {
		if r.owner.Runnable() == 0 {
			r.idle++
			r.ready.Wait()
			r.waking = false
			continue
		}
		if r.sub.settings.Order.Shared == nil {
			return true
		}
		r.mu.Unlock()
		if !r.takeTurn() {
			return false
		}
		r.mu.Lock()
		return true
	}
	r.mu.Unlock()
	return false
}
