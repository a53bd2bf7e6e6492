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
	shares   bool    // the layout is one in which others than rehop write down what fails
	// returnKey is the routing key with which messages return to the queue, unless they keep their
	// own.
	returnKey string
	keepsKey  bool

	mu       sync.Mutex
	current  offer             // what workers take from
	offered  chan struct{}     // closed when current changes
	sessions []*rabbit.Session // that may not have ended
	careful  bool              // deliver and handle one message at a time
	probing  bool              // deliver one message at a time, to find out whether an outage is over
	workers  map[*worker]struct{}
	suspect  *Handling // waits to be the only one
	stuck    int       // handlers that were abandoned and have not returned
	outage   *outage
	paused   chan struct{} // closed when the next outage begins, or in one
	// returning counts who gives prefetched messages back in an outage.
	returning sync.WaitGroup
	phase     phase

	givenUp    uint  // messages that went back at a stop because the broker did not take them
	unmoved    uint  // of these, those that had failed
	whyUnmoved error // why, for the last of them
	unhandled  uint  // messages that a stop has given back to a queue that ends with the subscription

	reopen  chan struct{} // the session is to be replaced by one with another prefetch
	stopped time.Time     // when stop was closed
	stop    chan struct{} // closed: receive no more
	halt    chan struct{} // closed: begin no more, cancel what runs
	kill    chan struct{} // closed: wait for nothing any more
	gone    chan struct{} // closed: stopping, and no worker is left
	silent  chan struct{} // closed: stopping, and the broker does not answer
	closed  chan struct{} // closed: all has ended

	unanswered func() // closes mute

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
		// A process that was killed by a message must not take others with it when it tries again,
		// so it begins with one message and gets more when that one is above suspicion.
		careful: settings.Isolates,
		offered: make(chan struct{}), workers: make(map[*worker]struct{}), reopen: make(chan struct{}, 1),
		paused: make(chan struct{}),
		stop:   make(chan struct{}), halt: make(chan struct{}), kill: make(chan struct{}), gone: make(chan struct{}),
		silent: make(chan struct{}), closed: make(chan struct{}),
	}
	s.unanswered = sync.OnceFunc(func() { close(s.silent) })
	s.form.Store(&settings.Forms[0])
	s.watch = &watch{sub: s, epoch: time.Now()}
	if settings.Rate > 0 {
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

// Drain receives no more, and lets what has been received be handled. It returns nil when the
// broker knows of all that. When ctx ends before, it continues as Stop does, and the error says so.
//
// A message that waits because of [Subscriber.Rate] goes back to its queue at once. Where the queue
// ends with the subscription or the client (Exclusive, AutoDelete), it is handled when the rate
// allows it. If ctx ends before, it is lost with the queue, and the error says so.
//
// Handlers have the time that [Subscriber.Timeout] and [Subscriber.StuckAfter] give them. The
// broker has 30 s to take a message that failed, and half as long after each one that it has not
// taken, because of a memory alarm for example: a minute in all. Such messages go back to the
// queue, this attempt does not count, and the error says how many they are. A broker that does not
// answer at all for 30 s is not waited for either.
//
// Called by a handler or hook of this subscription, Drain does nothing and returns an error, as it
// would wait for itself.
func (s *Subscription) Drain(ctx context.Context) error {
	if err := s.fromInside("drain"); err != nil {
		return err
	}
	s.enter(draining)
	select {
	case <-s.closed:
		return errors.Join(s.unmovedError(), s.unhandledError())
	case <-s.silent:
		s.enter(halted) // what has not begun is better handled elsewhere
		s.awaitHandlers(ctx, s.settings.Timeout+s.settings.StuckAfter)
	case <-ctx.Done():
	}
	err := s.haltNow()
	if err == nil && ctx.Err() != nil {
		err = fmt.Errorf("rehop: drain subscription %q: stopped before all was handled%s: %w", s.settings.Queue, s.settings.loss(), ctx.Err())
	}
	return errors.Join(err, s.unmovedError(), s.unhandledError())
}

// Stop begins no more handlers and cancels the contexts of those that run. What they do not finish
// goes back to the queue, and no attempt is used. It waits for them for [Subscriber.StopGrace]. A
// handler that ignores its context for longer does not keep Stop from returning: its message goes
// back while it still runs, and Stop says so. A message that has failed and that the broker does
// not take within 2 s goes back, too. Called by a handler or hook of this subscription, Stop does
// nothing and returns an error, as it would wait for itself.
func (s *Subscription) Stop() error {
	if err := s.fromInside("stop"); err != nil {
		return err
	}
	return errors.Join(s.haltNow(), s.unhandledError())
}

// haltNow stops, and returns what is left of handlers and of the broker's answers.
func (s *Subscription) haltNow() error {
	s.enter(halted)
	s.cancelHandlers()
	s.awaitHandlers(context.Background(), s.settings.StopGrace)
	ignoring := s.abandonAll()
	if s.shared.open() {
		// A message that is being moved is better waited for: given back now, it would be there
		// twice.
		s.waitClosed(closeGrace)
	}
	s.enter(killed)
	ended := s.waitClosed(closeGrace)
	switch {
	case ignoring > 0:
		return fmt.Errorf("rehop: subscription %q: %d handlers still run %v after they were canceled; their messages went back to the queue", s.settings.Queue, ignoring, s.settings.StopGrace)
	case !ended:
		return fmt.Errorf("rehop: subscription %q: the broker has not answered within %v; it takes back what is unfinished when the connection ends", s.settings.Queue, closeGrace)
	}
	return nil
}

// fromInside is an error if a handler or hook of the subscription calls what would wait for it.
func (s *Subscription) fromInside(what string) error {
	if owner, _ := s.shared.Inside.Of(); owner != s {
		return nil
	}
	return fmt.Errorf("rehop: %s subscription %q: called by one of its own handlers or hooks, for whose end it would wait; nothing is done; call it from another goroutine", what, s.settings.Queue)
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

// stoppedAt is when the subscription began to drain or stop.
func (s *Subscription) stoppedAt() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stopped
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
