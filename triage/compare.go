package triage

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/internal/rabbit"
)

// checkedQueue is a failed queue that is compared with the index.
type checkedQueue struct {
	differs time.Time     // since when; zero: it does not
	swept   time.Time     // when the last sweep ended, also if it failed
	took    time.Duration // how long that took
	equal   time.Time     // when the last sweep has made the index equal to the queue
}

const (
	// restFactor bounds the time that sweeps of a queue take: after one, the queue is left alone for that many times as long.
	restFactor = 10
	// lagsFor is how long a small difference may be messages whose reports are on their way.
	lagsFor = 10 * time.Minute
	// sweepSome is how many messages of a queue are recorded in one transaction, and sweepBytes how large their bodies are together.
	sweepSome  = 500
	sweepBytes = 8 << 20
)

// compare compares each failed queue with the index, and sweeps those that differ.
func (s *Service) compare(ctx context.Context) {
	for {
		s.complain(ctx, "failed queues could not be compared with the index; trying again", s.compareOnce(ctx))
		if rabbit.Pause(ctx, s.config.CheckEvery) != nil {
			return
		}
	}
}

func (s *Service) compareOnce(ctx context.Context) error {
	a, err := s.config.Connect(ctx)
	if err != nil {
		return err
	}
	arrived := int(s.put.Swap(0))
	queues, known, err := s.failedQueues(ctx, a)
	if err != nil {
		return err
	}
	var faults []error
	for _, q := range queues {
		if q.Err != nil { // the others are compared
			faults = append(faults, fmt.Errorf("queue %q cannot be used: %w", q.Name, q.Err))
			continue
		}
		at := slices.IndexFunc(known, func(k Queue) bool { return k.Name == q.Name })
		if at < 0 && q.Messages == 0 {
			continue
		}
		index := Queue{Name: q.Name}
		if at >= 0 {
			index = known[at]
		}
		if s.isDue(index, q.Messages, arrived) {
			faults = append(faults, s.sweepQueue(ctx, a, q))
		}
	}
	for _, k := range known { // a queue that was deleted has no messages
		if k.Failed > 0 && !slices.ContainsFunc(queues, func(q failedQueue) bool { return q.Name == k.Name }) {
			_, err := s.reconcile(ctx, k.Name, noMessages)
			faults = append(faults, err)
		}
	}
	return errors.Join(faults...)
}

// isDue reports whether a queue has to be swept: its number of messages differs from the index at two checks, or it was not swept for a long time. A small
// difference may be messages that have just failed.
func (s *Service) isDue(index Queue, depth, arrived int) bool {
	c := s.checked[index.Name]
	if c == nil {
		c = &checkedQueue{}
		s.checked[index.Name] = c
	}
	now := time.Now()
	if depth == index.Failed && !index.Swept.IsZero() {
		c.differs = time.Time{}
		return depth > 0 && s.isOld(index, c, now) && now.Sub(c.swept) >= restFactor*c.took
	}
	if c.differs.IsZero() {
		c.differs = now
		return index.Swept.IsZero()
	}
	if missing := depth - index.Failed; missing > 0 && missing <= arrived/2 && now.Sub(c.differs) < lagsFor {
		return false
	}
	return now.Sub(c.swept) >= restFactor*c.took
}

// isOld reports whether the index was equal to a queue a long time ago: the number of messages does not show that some have left and others arrived. The
// time in the index is by the database's clock, which may be wrong, or was; then the sweeps of this process count.
func (s *Service) isOld(index Queue, c *checkedQueue, now time.Time) bool {
	every := s.config.SweepEvery
	return now.Sub(index.Swept).Abs() >= every && (c.equal.IsZero() || now.Sub(c.equal) >= every)
}

// failedQueue is a failed queue or an error queue.
type failedQueue struct {
	admin.FailedQueue
	other bool // it is an error queue of another program
}

// message is a message of the queue for the index. One without a record of its failure belongs to the queue whose failed queue it is in.
func (q failedQueue) message(m admin.Message) Message {
	one := FromFailed(q.Name, m)
	if one.Queue == "" && !q.other && q.Queue != q.Name {
		one.Queue = q.Queue
	}
	return one
}

// failedQueues lists the queues that exist, and those that the index knows.
func (s *Service) failedQueues(ctx context.Context, a *admin.Admin) (all []failedQueue, known []Queue, err error) {
	if known, err = s.store.Queues(ctx); err != nil {
		return nil, nil, err
	}
	found, err := a.FailedQueues(ctx)
	if err != nil {
		return nil, nil, err
	}
	for _, q := range found {
		if !slices.Contains(s.config.ErrorQueues, q.Name) {
			all = append(all, failedQueue{FailedQueue: q})
		}
	}
	for _, name := range s.config.ErrorQueues {
		n, err := a.ErrorQueue(name).Depth(ctx)
		if errors.Is(err, admin.ErrNoQueue) {
			continue
		}
		if err != nil && !refuses(err) {
			return nil, nil, err
		}
		all = append(all, failedQueue{admin.FailedQueue{Name: name, Queue: name, Messages: n, Err: err}, true})
	}
	for _, k := range known {
		if k.Of == "" || slices.ContainsFunc(all, func(q failedQueue) bool { return q.Name == k.Name }) {
			continue
		}
		// Its queue was deleted, and messages may still be here.
		q, err := a.FailedQueueOf(ctx, k.Of)
		switch {
		case errors.Is(err, admin.ErrNoQueue):
		case refuses(err):
			all = append(all, failedQueue{FailedQueue: admin.FailedQueue{Name: k.Name, Queue: k.Of, Err: err}})
		case err != nil:
			return nil, nil, err
		case q.Name == k.Name:
			all = append(all, failedQueue{FailedQueue: q})
		}
	}
	return all, known, nil
}

// refuses reports whether the broker does not let a queue be used, which is no reason to leave the others alone.
func refuses(err error) bool {
	_, refused := errors.AsType[*rabbit.DeclareError](err)
	return refused
}

// sweepQueue makes the index equal to a queue.
func (s *Service) sweepQueue(ctx context.Context, a *admin.Admin, q failedQueue) error {
	began := time.Now()
	done, err := s.reconcile(ctx, q.Name, messagesOf(ctx, a, q))
	c := s.checked[q.Name]
	c.swept, c.took = time.Now(), time.Since(began)
	if errors.Is(err, admin.ErrBusy) {
		return nil // somebody replays its messages
	}
	if err != nil {
		return err
	}
	c.differs, c.equal = time.Time{}, time.Now()
	if done.Added+done.Gone > 0 {
		s.log.Debug("triage: the index of failed messages was compared with a queue and updated", "queue", q.Name, "messages", done.Seen, "added", done.Added, "gone", done.Gone)
	}
	return nil
}

// errEnough ends a sweep.
var errEnough = errors.New("enough")

// messagesOf reads the messages of a queue, some at a time, and leaves them there.
func messagesOf(ctx context.Context, a *admin.Admin, q failedQueue) iter.Seq2[[]Message, error] {
	return func(yield func([]Message, error) bool) {
		var some []Message
		size := 0
		see := func(m admin.Message) error {
			some, size = append(some, q.message(m)), size+len(m.Body)
			if len(some) < sweepSome && size < sweepBytes {
				return nil
			}
			if !yield(some, nil) {
				return errEnough
			}
			some, size = nil, 0
			return nil
		}
		var err error
		if q.other {
			err = a.ErrorQueue(q.Name).Each(ctx, 0, admin.Filter{}, see)
		} else {
			err = a.EachFailed(ctx, q.Queue, 0, admin.Filter{}, see)
		}
		switch {
		case errors.Is(err, errEnough):
		case err != nil:
			yield(nil, fmt.Errorf("read queue %q: %w", q.Name, err))
		case len(some) > 0:
			yield(some, nil)
		}
	}
}

// Reconcile makes the index equal to a failed queue now.
func (s *Service) Reconcile(ctx context.Context, name string) (Reconciled, error) {
	a, err := s.config.Connect(ctx)
	if err != nil {
		return Reconciled{}, fmt.Errorf("triage: reconcile queue %q: %w", name, err)
	}
	queues, _, err := s.failedQueues(ctx, a)
	if err != nil {
		return Reconciled{}, fmt.Errorf("triage: reconcile queue %q: %w", name, err)
	}
	at := slices.IndexFunc(queues, func(q failedQueue) bool { return q.Name == name })
	if at < 0 {
		return s.reconcile(ctx, name, noMessages)
	}
	return s.reconcile(ctx, name, messagesOf(ctx, a, queues[at]))
}

// noMessages are the messages of a queue that does not exist.
func noMessages(func([]Message, error) bool) {}

// reconcile waits until no other sweep of this service runs: a second one would make the first useless.
func (s *Service) reconcile(ctx context.Context, name string, messages iter.Seq2[[]Message, error]) (Reconciled, error) {
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return Reconciled{}, ctx.Err()
	}
	defer func() { <-s.turn }()
	return s.store.Reconcile(ctx, name, messages)
}
