package consume

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/internal/rabbit"
	"github.com/rehop/rehop/topology"
)

// refusedPause is the pause after the broker has refused a queue or a consumer.
const refusedPause = 5 * time.Second

// offer is a session for the workers.
type offer struct {
	session *rabbit.Session
	careful bool // at most one of its messages is unacked
	narrow  bool // the prefetch is one
	// turn has room for the one worker that fills a batch: several at once would all wait with few
	// messages each.
	turn chan struct{}
}

// begin is open for a subscription that had no consumer, or has lost it.
func (s *Subscription) begin(ctx context.Context) (offer, error) {
	if err := s.refuseMigrating(ctx); err != nil {
		return offer{}, err
	}
	return s.open(ctx)
}

// open declares what the subscription needs and starts a consumer.
func (s *Subscription) open(ctx context.Context) (offer, error) { return s.offer(ctx, s.openForm) }

// openAgain starts a consumer after another one, for which everything was declared. It makes few calls, because it may be in the middle of them when
// the subscription stops: see openGrace of package rabbit.
func (s *Subscription) openAgain(ctx context.Context) (offer, error) {
	if s.settings.Declared.AutoDelete { // the queue has ended with its last consumer
		return s.open(ctx)
	}
	o, err := s.offer(ctx, func(ctx context.Context, prefetch int) (*rabbit.Session, error) {
		options := s.settings.Options
		options.Plan = topology.Plan{}
		return s.shared.Consume.OpenSession(ctx, options, prefetch)
	})
	if _, refused := errors.AsType[*rabbit.DeclareError](err); refused { // it has been deleted
		return s.open(ctx)
	}
	return o, err
}

// offer is a session with the prefetch that is needed now.
func (s *Subscription) offer(ctx context.Context, open func(ctx context.Context, prefetch int) (*rabbit.Session, error)) (offer, error) {
	careful, narrow := s.isCareful(), s.isNarrow()
	prefetch := s.settings.Prefetch
	if narrow {
		prefetch = 1
	}
	session, err := open(ctx, prefetch)
	return offer{session: session, careful: careful, narrow: narrow, turn: make(chan struct{}, 1)}, err
}

// refuseMigrating returns an error while the queue is being migrated: if its bindings were declared
// again, in addition to those of the migration, each message would be handled twice. The subscription
// resumes when the migration is over.
func (s *Subscription) refuseMigrating(ctx context.Context) error {
	if s.settings.Declared.Exclusive || s.settings.Declared.AutoDelete {
		return nil
	}
	keeping := layouts.MigratingQueue(s.settings.Queue)
	_, err := s.shared.Consume.Inspect(ctx, keeping)
	if err == nil {
		return fmt.Errorf("queue %q is being migrated, its messages are in queue %q; finish the migration (rehop topology migrate)", s.settings.Queue, keeping)
	}
	if _, refused := errors.AsType[*rabbit.DeclareError](err); refused { // it does not exist, or the user has no permission
		return nil
	}
	return err
}

// Supervise keeps a session open until the subscription ends. The values of base reach the handlers' contexts.
func (s *Subscription) Supervise(base context.Context) {
	defer s.shared.Inside.Leave(s.shared.Inside.Enter(s))
	defer s.end()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() { // Supervise ends only after stop
		<-s.stop
		cancel()
	}()
	if s.settings.Order != nil {
		s.superviseOrdered(ctx, base)
		return
	}
	o := s.opened
	s.opened = offer{}
	backoff := s.shared.Backoff
	begin := s.begin
	for failures := 0; !s.stopping(); {
		if o.session == nil {
			var err error
			if o, err = begin(ctx); err != nil {
				begin = s.begin
				failures++
				s.awaitRetry(ctx, failures, err)
				continue
			}
		}
		failures = 0
		s.receiving.Store(true)
		s.settings.Events.Consumer(true, nil)
		lost := s.serve(o)
		o, begin = offer{}, s.openAgain
		if lost && !s.stopping() {
			if s.settings.Layout.RedeliveryFails() {
				s.setCareful(true) // what is redelivered now was not requeued: see gaveBack
			}
			begin = s.begin
			s.reportDown(errors.New("the broker ended the consumer, or the connection was lost"))
			_ = rabbit.Pause(ctx, backoff.Delay(1))
		}
	}
	if o.session == nil {
		s.receiving.Store(false)
	} else {
		defer s.expectAnswer()()
		o.session.Cancel()
		s.receiving.Store(false)
		s.giveBackRest(context.Background(), o)
		<-o.session.Ended() // when the broker has been sent all of that
	}
}

// awaitRetry reports that no consumer could be started, and waits until it is to be tried again.
func (s *Subscription) awaitRetry(ctx context.Context, failures int, err error) {
	s.reportDown(err)
	wait := s.shared.Backoff.Delay(failures)
	if rabbit.Permanent(err) {
		wait = max(wait, refusedPause)
	}
	_ = rabbit.Pause(ctx, wait)
}

// giveBackRest requeues what a session has received and no worker has taken. The broker must not take
// it back automatically: it may be a message that was just requeued, and would then count as delivered
// without an answer.
func (s *Subscription) giveBackRest(base context.Context, o offer) {
	for d, ok := o.session.Next(); ok; d, ok = o.session.Next() {
		s.giveBack(s.receive(base, o, d), Result{})
	}
}

// serve lets the workers take from a session until it is over. It reports whether the session was lost.
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
		// The signal was for an earlier session.
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

// expectAnswer makes Drain give up if the broker does not answer within ConfirmGrace. The caller calls
// answered when it has.
func (s *Subscription) expectAnswer() (answered func() bool) {
	return time.AfterFunc(ConfirmGrace, s.unanswered).Stop
}

// drain ends a session when the subscription stops.
func (s *Subscription) drain(session *rabbit.Session) {
	canceled := make(chan struct{})
	go func() {
		defer close(canceled)
		defer s.expectAnswer()()
		session.Cancel()
		s.receiving.Store(false)
	}()
	select {
	case <-session.Ended():
	case <-s.gone: // see end
	}
	<-canceled
}

func (s *Subscription) reportDown(err error) {
	s.receiving.Store(false)
	if s.stopping() {
		return
	}
	s.shared.Logger.Warn("rehop: subscription does not receive messages", "queue", s.settings.Queue, "err", err)
	s.settings.Events.Consumer(false, err)
}

// end is the last step. A session that was replaced may have an unacked message until now: the broker
// must have its ack before the connection may close.
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
	s.settings.Events.Ended()
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

// setCareful changes between a prefetch of one and the usual one.
func (s *Subscription) setCareful(careful bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.careful == careful || !s.settings.Isolates {
		return
	}
	s.careful = careful
	s.replaceConsumer()
}

// replaceConsumer has the consumer replaced by one with another prefetch, if necessary. The caller holds
// the lock.
func (s *Subscription) replaceConsumer() {
	select {
	case s.reopen <- struct{}{}:
	default:
	}
}

// isNarrow reports whether the prefetch is to be one.
func (s *Subscription) isNarrow() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.careful || s.probing
}
