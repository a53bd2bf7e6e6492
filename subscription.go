package rehop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/internal/rabbit"
	"github.com/rehop/rehop/layout"
	"github.com/rehop/rehop/topology"
)

const (
	// suspectAfter is how many unanswered deliveries make a message suspect of killing its consumers.
	suspectAfter = 3
	// refusedPause is the pause after the broker has refused a queue or a consumer.
	refusedPause = 5 * time.Second
	// closeGrace is how long the broker may take to answer at a stop.
	closeGrace = 2 * time.Second
)

// Subscription is a running subscription.
type Subscription struct {
	client  *Client
	config  Subscriber
	options rabbit.ConsumeOptions
	handler Handler
	watch   *watch
	layout  layouts.Layout
	queue   topology.Queue // as it is declared
	forms   []form         // of the layout, the newest first
	shares  bool           // the layout is one in which others than rehop write down what fails
	// returnKey is the routing key with which messages return to the queue, unless they keep their own.
	returnKey string
	keepsKey  bool

	mu       sync.Mutex
	current  offer             // what workers take from
	offered  chan struct{}     // closed when current changes
	sessions []*rabbit.Session // that may not have ended
	careful  bool              // deliver and handle one message at a time
	probing  bool              // deliver one message at a time, to find out whether an outage is over
	workers  map[*worker]struct{}
	suspect  *handling // waits to be the only one
	stuck    int       // handlers that were abandoned and have not returned
	outage   *outage
	// returning counts who gives prefetched messages back in an outage.
	returning sync.WaitGroup
	phase     phase

	givenUp    uint  // messages that went back at a stop because the broker did not take them
	unmoved    uint  // of these, those that had failed
	whyUnmoved error // why, for the last of them

	reopen chan struct{} // the session is to be replaced by one with another prefetch
	stop   chan struct{} // closed: receive no more
	halt   chan struct{} // closed: begin no more, cancel what runs
	kill   chan struct{} // closed: wait for nothing any more
	gone   chan struct{} // closed: stopping, and no worker is left
	mute   chan struct{} // closed: stopping, and the broker does not answer
	closed chan struct{} // closed: all has ended

	unanswered func() // closes mute

	rounds    rounds
	receiving atomic.Bool
	form      atomic.Pointer[form] // that the broker has
}

type phase int

const (
	running phase = iota
	draining
	halted
	killed
)

// offer is a session for the workers.
type offer struct {
	session *rabbit.Session
	careful bool // at most one message of it is under way
	narrow  bool // the broker sends one message at a time
}

// Subscribe declares what the subscription needs and begins to handle messages. If the broker cannot
// be reached now, that happens when it can. What the broker refuses is a *TopologyError.
//
// ctx bounds the start, and its values reach the handler's context; the subscription ends with
// [Subscription.Stop], [Subscription.Drain] or [Client.Close].
func (c *Client) Subscribe(ctx context.Context, config Subscriber) (*Subscription, error) {
	config = config.withDefaults(c.native)
	if err := config.validate(); err != nil {
		return nil, fmt.Errorf("rehop: subscription %q: %w", config.Queue, err)
	}
	forms, err := config.forms(c.native)
	if err != nil {
		return nil, fmt.Errorf("rehop: subscription %q: %w", config.Queue, err)
	}
	s := &Subscription{
		client: c, config: config, options: config.consumeOptions(forms[0].plan), forms: forms, handler: config.Handler,
		layout: config.layout(), queue: config.queue(), keepsKey: config.layout().KeepsKey(), returnKey: layouts.ReturnKey(config.queue()),
		// A process that was killed by a message must not take others with it when it tries again, so
		// it begins with one message and gets more when that one is above suspicion.
		careful: config.isolates(),
		offered: make(chan struct{}), workers: make(map[*worker]struct{}), reopen: make(chan struct{}, 1),
		stop: make(chan struct{}), halt: make(chan struct{}), kill: make(chan struct{}), gone: make(chan struct{}), mute: make(chan struct{}), closed: make(chan struct{}),
	}
	s.unanswered = sync.OnceFunc(func() { close(s.mute) })
	s.form.Store(&forms[0])
	s.watch = &watch{sub: s, epoch: time.Now()}
	if len(c.hooks.handle) > 0 {
		s.options.Told = s.told
		s.options.Around = func(calls func()) {
			defer c.inside.leave(c.inside.enter(s))
			calls()
		}
	}
	_, native := config.Layout.(layout.Native)
	s.shares = !native
	for i := len(config.Middleware) - 1; i >= 0; i-- {
		s.handler = config.Middleware[i](s.handler)
	}
	var first offer
	if c.State() == StateOpen || c.State() == StateBlocked {
		var err error
		if first, err = s.begin(ctx); err != nil && (rabbit.Permanent(err) || ctx.Err() != nil) {
			return nil, fmt.Errorf("rehop: subscribe to %q: %w", config.Queue, publicError(err))
		}
	}
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		if first.session != nil {
			first.session.Close()
		}
		return nil, fmt.Errorf("rehop: subscribe to %q: %w", config.Queue, ErrClosed)
	}
	c.subscriptions[s] = struct{}{}
	c.background.Go(func() { s.supervise(first) })
	c.mu.Unlock()
	base := context.WithoutCancel(ctx)
	for range config.Concurrency {
		s.startWorker(base, nil, nil)
	}
	return s, nil
}

// Queue is the name of the queue.
func (s *Subscription) Queue() string { return s.config.Queue }

// Receiving reports whether the broker sends messages to the subscription, as ConsumerHook is told.
func (s *Subscription) Receiving() bool { return s.receiving.Load() }

// Closed is closed when the subscription has ended.
func (s *Subscription) Closed() <-chan struct{} { return s.closed }

// Drain receives no more, and lets what has been received be handled. It returns nil when the broker
// knows of all that. When ctx ends before, it continues as Stop does, and the error says so.
//
// Handlers have the time that [Subscriber.Timeout] and [Subscriber.StuckAfter] give them. The broker has 30 s to take a message that
// failed, and half as long after each one that it has not taken, because of a memory alarm for example: a minute in all. Such
// messages go back to the queue, this attempt does not count, and the error says how many they are. A broker that does not answer at all
// for 30 s is not waited for either.
//
// Called by a handler or hook of this subscription, Drain does nothing and returns an error, as it would wait for itself.
func (s *Subscription) Drain(ctx context.Context) error {
	if err := s.fromInside("drain"); err != nil {
		return err
	}
	s.enter(draining)
	select {
	case <-s.closed:
		return s.unmovedError()
	case <-s.mute:
		s.enter(halted) // what has not begun is better handled elsewhere
		s.awaitHandlers(ctx, s.config.Timeout+s.config.StuckAfter)
	case <-ctx.Done():
	}
	err := s.Stop()
	if err == nil && ctx.Err() != nil {
		err = fmt.Errorf("rehop: drain subscription %q: stopped before all was handled: %w", s.config.Queue, ctx.Err())
	}
	return errors.Join(err, s.unmovedError())
}

// Stop begins no more handlers and cancels the contexts of those that run. What they do not finish
// goes back to the queue, and no attempt is used. It waits for them for [Subscriber.StopGrace]. A handler that ignores its context
// for longer does not keep Stop from returning: its message goes back while it still runs, and Stop says so. A message that has failed and that
// the broker does not take within 2 s goes back, too. Called by a handler or hook of this subscription, Stop does nothing and returns an
// error, as it would wait for itself.
func (s *Subscription) Stop() error {
	if err := s.fromInside("stop"); err != nil {
		return err
	}
	s.enter(halted)
	s.cancelHandlers()
	s.awaitHandlers(context.Background(), s.config.StopGrace)
	ignoring := s.abandonAll()
	if s.client.State() == StateOpen {
		// A message that is being moved is better waited for: given back now, it would be there twice.
		s.waitClosed(closeGrace)
	}
	s.enter(killed)
	ended := s.waitClosed(closeGrace)
	switch {
	case ignoring > 0:
		return fmt.Errorf("rehop: subscription %q: %d handlers still run %v after they were canceled; their messages went back to the queue", s.config.Queue, ignoring, s.config.StopGrace)
	case !ended:
		return fmt.Errorf("rehop: subscription %q: the broker has not answered within %v; it takes back what is unfinished when the connection ends", s.config.Queue, closeGrace)
	}
	return nil
}

// fromInside is an error if a handler or hook of the subscription calls what would wait for it.
func (s *Subscription) fromInside(what string) error {
	if owner, _ := s.client.inside.of(); owner != s {
		return nil
	}
	return fmt.Errorf("rehop: %s subscription %q: called by one of its own handlers or hooks, for whose end it would wait; nothing is done; call it from another goroutine", what, s.config.Queue)
}

func (s *Subscription) waitClosed(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-s.closed:
		return true
	case <-timer.C:
		return false
	}
}

func (s *Subscription) enter(p phase) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p <= s.phase {
		return
	}
	if s.phase < draining {
		close(s.stop)
		s.checkGone()
	}
	if s.phase < halted && p >= halted {
		close(s.halt)
	}
	if p == killed {
		close(s.kill)
	}
	s.phase = p
}

// checkGone is called with the mutex held, when a worker has left or the phase has changed.
func (s *Subscription) checkGone() {
	select {
	case <-s.stop:
	default:
		return
	}
	if len(s.workers) == 0 {
		select {
		case <-s.gone:
		default:
			close(s.gone)
		}
	}
}

func (s *Subscription) stopping() bool {
	select {
	case <-s.stop:
		return true
	default:
		return false
	}
}

func (s *Subscription) halting() bool {
	select {
	case <-s.halt:
		return true
	default:
		return false
	}
}

// begin is open for a subscription that had no consumer, or has lost it.
func (s *Subscription) begin(ctx context.Context) (offer, error) {
	if err := s.refuseMigrating(ctx); err != nil {
		return offer{}, err
	}
	return s.open(ctx)
}

// open declares what the subscription needs and starts a consumer.
func (s *Subscription) open(ctx context.Context) (offer, error) {
	careful, narrow := s.isCareful(), s.isNarrow()
	prefetch := s.config.Prefetch
	if narrow {
		prefetch = 1
	}
	session, err := s.openForm(ctx, prefetch)
	return offer{session: session, careful: careful, narrow: narrow}, err
}

// refuseMigrating keeps the queue as it is while it is being migrated: declaring its bindings again, beside the way on which the migration
// keeps its messages, would have each of them handled twice. The subscription goes on when the migration is over.
func (s *Subscription) refuseMigrating(ctx context.Context) error {
	if s.queue.Exclusive || s.queue.AutoDelete {
		return nil
	}
	moving := layouts.MovingQueue(s.config.Queue)
	_, err := s.client.consume.Inspect(ctx, moving)
	var refused *rabbit.DeclareError
	switch {
	case err == nil:
		return fmt.Errorf("queue %q is being migrated, its messages are in queue %q; migrate it to the end", s.config.Queue, moving)
	case errors.As(err, &refused): // it is not there, or its name is not for this user
		return nil
	}
	return err
}

// supervise keeps a session open until the subscription ends.
func (s *Subscription) supervise(o offer) {
	defer s.client.inside.leave(s.client.inside.enter(s))
	defer s.end()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() { // supervise ends only after stop
		<-s.stop
		cancel()
	}()
	backoff := s.client.config.options().Backoff
	begin := s.begin
	for failures := 0; !s.stopping(); {
		if o.session == nil {
			var err error
			if o, err = begin(ctx); err != nil {
				begin = s.begin
				failures++
				s.tellDown(err)
				wait := backoff.Delay(failures)
				if rabbit.Permanent(err) {
					wait = max(wait, refusedPause)
				}
				s.sleep(wait)
				continue
			}
		}
		failures = 0
		s.receiving.Store(true)
		tell(s.client.hooks.consumer, func(h ConsumerHook) { h.OnConsumer(ConsumerEvent{Queue: s.config.Queue, Up: true}) })
		lost := s.serve(o)
		o, begin = offer{}, s.open
		if lost && !s.stopping() {
			if s.layout.RedeliveryFails() {
				s.setCareful(true) // what comes again now was not given back: see gaveBack
			}
			begin = s.begin
			s.tellDown(errors.New("the broker ended the consumer, or the connection was lost"))
			s.sleep(backoff.Delay(1))
		}
	}
	if o.session != nil {
		defer s.expectAnswer()()
		o.session.Cancel()
		s.giveBackRest(context.Background(), o)
		o.session.Close()
	}
}

// giveBackRest gives back what a session has received and no worker has taken. The broker must not take it back by itself: it may be a message that
// was just given back, and would then count as delivered without an answer.
func (s *Subscription) giveBackRest(base context.Context, o offer) {
	for d, ok := o.session.Next(); ok; d, ok = o.session.Next() {
		s.giveBack(s.receive(base, o, d), Result{})
	}
}

// serve lets the workers take from a session until it is over. It reports whether the session ended
// by itself.
func (s *Subscription) serve(o offer) (lost bool) {
	s.mu.Lock()
	s.sessions = slices.DeleteFunc(s.sessions, (*rabbit.Session).HasEnded)
	s.sessions = append(s.sessions, o.session)
	s.current = o
	close(s.offered)
	s.offered = make(chan struct{})
	s.mu.Unlock()

	for ended := false; ; {
		select {
		case <-o.session.Exhausted():
			ended = true
		case <-o.session.Ended():
			ended = true
		case <-s.reopen:
		case <-s.stop:
			s.drain(o.session)
			return false
		}
		if s.isCareful() != o.careful || s.isNarrow() != o.narrow {
			break
		}
		if ended {
			return true
		}
		// The token was meant for a session before this one.
	}
	// The consumer is replaced by one with another prefetch.
	o.session.Cancel()
	if s.isNarrow() { // one message at a time: not before all others are settled
		select {
		case <-o.session.Ended():
		case <-s.stop:
			s.drain(o.session)
		}
	}
	return false
}

// expectAnswer has Drain give up if the broker does not answer for long. The caller waits for the answer and then calls what it returns.
func (s *Subscription) expectAnswer() (answered func()) {
	timer := time.AfterFunc(confirmGrace, s.unanswered)
	return func() { timer.Stop() }
}

// drain ends a session when the subscription stops.
func (s *Subscription) drain(session *rabbit.Session) {
	canceled := make(chan struct{})
	go func() {
		defer close(canceled)
		defer s.expectAnswer()()
		session.Cancel()
	}()
	select {
	case <-session.Ended():
	case <-s.gone: // see end
	}
	<-canceled
}

func (s *Subscription) sleep(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.stop:
	}
}

func (s *Subscription) tellDown(err error) {
	err = publicError(err)
	s.receiving.Store(false)
	if s.stopping() {
		return
	}
	s.client.config.Logger.Warn("rehop: not consuming", "queue", s.config.Queue, "err", err)
	tell(s.client.hooks.consumer, func(h ConsumerHook) { h.OnConsumer(ConsumerEvent{Queue: s.config.Queue, Err: err}) })
}

// end is the last thing that happens. A session that was replaced may have had a message in hand until
// now: the broker must have its ack before the connection may close.
func (s *Subscription) end() {
	<-s.gone
	s.watch.end()
	s.mu.Lock()
	sessions := s.sessions
	s.mu.Unlock()
	for _, session := range sessions {
		s.giveBackRest(context.Background(), offer{session: session}) // all workers have left, or were stuck
		answered := s.expectAnswer()
		<-session.Ended()
		answered()
	}
	s.receiving.Store(false)
	s.leaveOutage()
	s.returning.Wait()
	s.client.mu.Lock()
	delete(s.client.subscriptions, s)
	last := true
	for other := range s.client.subscriptions {
		last = last && other.config.Queue != s.config.Queue
	}
	s.client.mu.Unlock()
	if last {
		tell(s.client.hooks.consumerEnd, func(h ConsumerEndHook) { h.OnConsumerEnd(s.config.Queue) })
	}
	close(s.closed)
}

// next waits for a session other than last. False: there will be none.
func (s *Subscription) next(last *rabbit.Session) (offer, bool) {
	for {
		s.mu.Lock()
		o, offered := s.current, s.offered
		s.mu.Unlock()
		if o.session != nil && o.session != last {
			return o, true
		}
		select {
		case <-offered:
		case <-s.stop:
			return offer{}, false
		}
	}
}

func (s *Subscription) isCareful() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.careful
}

// setCareful changes how many messages the broker sends at once.
func (s *Subscription) setCareful(careful bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.careful == careful || !s.config.isolates() {
		return
	}
	s.careful = careful
	s.replaceConsumer()
}

// replaceConsumer has the consumer replaced by one with another prefetch, if it has to. The caller holds the lock.
func (s *Subscription) replaceConsumer() {
	select {
	case s.reopen <- struct{}{}:
	default:
	}
}

// isNarrow reports whether the broker is to send one message at a time.
func (s *Subscription) isNarrow() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.careful || s.probing
}
