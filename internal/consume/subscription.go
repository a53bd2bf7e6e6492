package consume

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/internal/rabbit"
)

const (
	// closeGrace is how long the broker may take to answer at a stop.
	closeGrace = 2 * time.Second
	// moveWait is how long a broker that is connected and not blocked may take at a stop to confirm messages that are being moved.
	moveWait = 10 * time.Second
	// ConfirmGrace is how long the broker has to confirm or answer when a client closes or a
	// subscription stops.
	ConfirmGrace = 30 * time.Second
)

// Subscription is a running subscription.
type Subscription struct {
	shared   *Shared
	settings Settings
	watch    *watch
	bucket   *bucket // of the rate; nil: there is none
	opened   offer   // the first session, until Supervise has it
	shares   bool    // programs without rehop record failures in this layout
	// returnKey is the routing key with which messages return to the queue, unless they keep their
	// own.
	returnKey string
	keepsKey  bool

	pausedOrder atomic.Pointer[orderedPause] // not nil while a subscription that handles messages in order pauses

	mu       sync.Mutex
	current  offer             // what workers take from
	order    *ordered          // the same, if messages are handled in order
	offered  chan struct{}     // closed when current changes
	sessions []*rabbit.Session // that may not have ended
	careful  bool              // deliver and handle one message at a time
	probing  bool              // deliver one message at a time, to find out whether an outage is over
	workers  map[*worker]struct{}
	suspect  *Handling // waits to be the only unacked message
	stuck    int       // handlers that were abandoned and have not returned
	outage   *outage
	paused   chan struct{} // closed when the next outage begins, or in one
	// returning waits until prefetched messages are requeued in an outage.
	returning sync.WaitGroup
	phase     phase

	givenUp    uint  // messages that went back at a stop because the broker did not confirm them
	unmoved    uint  // of these, those that had failed
	whyUnmoved error // why, for the last of them
	unhandled  uint  // messages that a stop has given back to a queue that ends with the subscription

	stopped time.Time     // when stop was closed
	reopen  chan struct{} // the session is to be replaced by one with another prefetch
	stop    chan struct{} // closed: receive no more
	halt    chan struct{} // closed: start no more handlers, cancel the running ones
	kill    chan struct{} // closed: wait for nothing any more
	gone    chan struct{} // closed: stopping, and no worker is left
	silent  chan struct{} // closed: stopping, and the broker does not answer
	closed  chan struct{} // closed: everything has ended

	unanswered func() // closes silent

	rounds    rounds
	receiving atomic.Bool
	form      atomic.Pointer[Form] // that the broker has
}

// New returns a subscription that has not begun. Open may be called once, then Supervise, which
// runs until the subscription has ended, and Work; or else Abort.
func New(shared *Shared, settings Settings) *Subscription {
	s := &Subscription{
		shared: shared, settings: settings,
		keepsKey: settings.Layout.KeepsKey(), returnKey: layouts.ReturnKey(settings.Declared),
		// A message that has crashed the process must not affect others at the next start. So a
		// subscription begins with a prefetch of one, until a message is not suspect.
		careful: settings.Isolates,
		offered: make(chan struct{}), workers: make(map[*worker]struct{}), reopen: make(chan struct{}, 1),
		paused: make(chan struct{}),
		stop:   make(chan struct{}), halt: make(chan struct{}), kill: make(chan struct{}), gone: make(chan struct{}),
		silent: make(chan struct{}), closed: make(chan struct{}),
	}
	s.unanswered = sync.OnceFunc(func() { close(s.silent) })
	s.form.Store(&settings.Forms[0])
	s.watch = &watch{sub: s, epoch: time.Now()}
	if settings.Order != nil && settings.Order.Shared != nil {
		s.bucket = settings.Order.Shared.bucket
	} else if settings.Rate > 0 {
		s.bucket = newBucket(settings.Rate, settings.Burst)
	}
	if settings.Events.Result != nil {
		s.settings.Options.Settled = s.reportSettled
		s.settings.Options.Around = func(calls func()) {
			defer shared.Inside.Leave(shared.Inside.Enter(s))
			calls()
		}
	}
	_, native := settings.Layout.(layouts.Native)
	s.shares = !native
	return s
}

// Open declares what the subscription needs and starts its first consumer. After an error the
// subscription can begin without one.
func (s *Subscription) Open(ctx context.Context) (err error) {
	s.opened, err = s.begin(ctx)
	return err
}

// Abort ends a subscription that has not begun.
func (s *Subscription) Abort() {
	if s.opened.session != nil {
		s.opened.session.Close()
	}
}

// Work starts the workers. The values of base reach the handlers' contexts.
func (s *Subscription) Work(base context.Context) {
	for range s.settings.Concurrency {
		s.startWorker(base, nil, nil)
	}
}

// Receiving reports whether the broker sends messages to the subscription.
func (s *Subscription) Receiving() bool { return s.receiving.Load() }

// Closed is closed when the subscription has ended.
func (s *Subscription) Closed() <-chan struct{} { return s.closed }

type phase int

const (
	running phase = iota
	draining
	halted
	killed
)

// Drain receives no more, and lets handlers finish what was received: see Drain of package rehop.
func (s *Subscription) Drain(ctx context.Context) error {
	if err := s.FromInside("drain"); err != nil {
		return err
	}
	s.enter(draining)
	select {
	case <-s.closed:
		return errors.Join(s.unmovedError(), s.unhandledError())
	case <-s.silent:
		s.enter(halted) // another consumer can handle what has not begun
		s.awaitHandlers(ctx, s.settings.Timeout+s.settings.StuckAfter)
	case <-ctx.Done():
	}
	err := s.haltNow()
	if err == nil && ctx.Err() != nil {
		err = fmt.Errorf("rehop: drain subscription %q: stopped before all was handled%s: %w", s.settings.Queue, s.settings.loss(), ctx.Err())
	}
	return errors.Join(err, s.unmovedError(), s.unhandledError())
}

// Stop starts no more handlers and cancels the running ones: see Stop of package rehop.
func (s *Subscription) Stop() error {
	if err := s.FromInside("stop"); err != nil {
		return err
	}
	return errors.Join(s.haltNow(), s.unhandledError())
}

// haltNow stops, and returns what is left of handlers and of the broker's answers.
func (s *Subscription) haltNow() error {
	s.enter(halted)
	for _, h := range s.handlers() {
		h.stop()
	}
	s.awaitHandlers(context.Background(), s.settings.StopGrace)
	ignoring := s.abandonAll()
	if s.shared.open() {
		// Wait for messages that are being moved: requeued now, they would be duplicated.
		s.waitClosed(moveWait)
	}
	s.enter(killed)
	ended := s.waitClosed(closeGrace)
	switch {
	case ignoring > 0:
		return fmt.Errorf("rehop: subscription %q: %d handlers still run %v after they were canceled; their messages went back to the queue", s.settings.Queue, ignoring, s.settings.StopGrace)
	case !ended:
		return fmt.Errorf("rehop: subscription %q: the broker has not answered within %v; it requeues unfinished messages when the connection ends", s.settings.Queue, closeGrace)
	}
	return nil
}

// FromInside is an error if a handler or hook of the subscription calls a method that would wait for it.
func (s *Subscription) FromInside(what string) error {
	if owner, _ := s.shared.Inside.Of(); owner != s {
		return nil
	}
	return fmt.Errorf("rehop: %s subscription %q: called by one of its own handlers or hooks, which it would wait for; nothing was done. Call it from another goroutine", what, s.settings.Queue)
}

func (s *Subscription) waitClosed(d time.Duration) bool {
	select {
	case <-s.closed:
		return true
	case <-time.After(d):
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
		s.stopped = time.Now()
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
	if s.stopping() && len(s.workers) == 0 && !isClosed(s.gone) {
		close(s.gone)
	}
}

// stoppedAt is when the subscription began to drain or stop.
func (s *Subscription) stoppedAt() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stopped
}

func (s *Subscription) stopping() bool { return isClosed(s.stop) }
func (s *Subscription) halting() bool  { return isClosed(s.halt) }

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
