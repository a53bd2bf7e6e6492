package triage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/internal/rabbit"
)

// ServiceConfig has the settings of a service. Store, and Admin or Connect, are required.
type ServiceConfig struct {
	Store *Store
	// Admin is the broker.
	Admin *admin.Admin
	// Connect returns the broker, and is called whenever it is needed. Set it instead of Admin if the broker may be out of reach at the
	// start. Default: Admin.
	Connect func(ctx context.Context) (*admin.Admin, error)
	// ErrorQueues are queues with failed messages of other programs that are indexed, too. Default: none.
	ErrorQueues []string
	// Alone means that no other process has a service with the same store. Then the service need not write to the database while nothing
	// happens. Default: others may have one, and one of them works.
	Alone bool
	// ReportsQueue collects the reports of subscribers; see admin.ReportOptions. Default: rehop.triage.
	ReportsQueue string
	// CheckEvery is how often the number of messages in each failed queue is compared with the index. Default: 10 s.
	CheckEvery time.Duration
	// SweepEvery is how often a failed queue with messages is read and compared with the index although the numbers are equal: one
	// message may have left, and another one arrived without a report. A queue that takes long to read is read less often, for at most an
	// eleventh of the time. Default: an hour.
	SweepEvery time.Duration
	// Retention is how long messages stay in the index after they were replayed or discarded, have succeeded or are gone, and runs after their end.
	// Default: 30 days.
	Retention time.Duration
	// OutcomeWait is how long a replay with Canary waits for outcomes until it is paused. A message that fails again is retried first,
	// which can take hours. Default: 15 minutes.
	OutcomeWait time.Duration
	// Logger receives what goes wrong. Default: slog.Default().
	Logger *slog.Logger
}

// Service keeps an index equal to the failed queues of a virtual host, and works on runs. Several processes can have one with the same store: one
// works, and another takes over within seconds when it ends.
type Service struct {
	config ServiceConfig
	store  *Store
	log    *slog.Logger
	owner  string
	wake   chan struct{} // has a value if there may be a new run
	put    atomic.Int64  // messages that reports have brought
	turn   chan struct{} // has room for the one sweep that compares a queue with the index
	// sending has room for the runs that send at the same time.
	sending chan struct{}

	// The right of another process that has expired, and is left to it until then. They belong to the goroutine of Run.
	spared      int64
	sparedUntil time.Time

	// checked belongs to the goroutine that compares queues with the index.
	checked map[string]*checkedQueue
}

const (
	leaseLasts = 3 * time.Second
	leaseRenew = time.Second
	pollEvery  = 500 * time.Millisecond // for new runs, and for a lease that has expired
	retryAfter = time.Second
	cleanEvery = time.Hour
	maxRuns    = 4   // that send at the same time
	maxWorkers = 100 // runs that are worked on at the same time, most of which wait
)

// NewService returns a service. It does nothing before Run is called.
func NewService(config ServiceConfig) (*Service, error) {
	switch {
	case config.Store == nil:
		return nil, errors.New("triage: ServiceConfig.Store is required")
	case config.Admin == nil && config.Connect == nil:
		return nil, errors.New("triage: ServiceConfig.Admin or Connect is required")
	case config.CheckEvery < 0 || config.SweepEvery < 0 || config.Retention < 0 || config.OutcomeWait < 0:
		return nil, fmt.Errorf("triage: CheckEvery is %v, SweepEvery %v, Retention %v and OutcomeWait %v; they must not be negative", config.CheckEvery, config.SweepEvery, config.Retention, config.OutcomeWait)
	}
	if config.Connect == nil {
		only := config.Admin
		config.Connect = func(context.Context) (*admin.Admin, error) { return only, nil }
	}
	config.CheckEvery = cmp.Or(config.CheckEvery, 10*time.Second)
	config.SweepEvery = cmp.Or(config.SweepEvery, time.Hour)
	config.Retention = cmp.Or(config.Retention, 30*24*time.Hour)
	config.OutcomeWait = cmp.Or(config.OutcomeWait, 15*time.Minute)
	return &Service{config: config, store: config.Store, log: cmp.Or(config.Logger, slog.Default()), owner: rabbit.NewID(),
		wake: make(chan struct{}, 1), sending: make(chan struct{}, maxRuns), turn: make(chan struct{}, 1), checked: make(map[string]*checkedQueue)}, nil
}

// Wake makes the service look for new runs at once. Without it they are found within a second.
func (s *Service) Wake() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Run works until ctx ends, and returns when everything that it has started has ended.
func (s *Service) Run(ctx context.Context) {
	if s.config.Alone {
		s.work(ctx)
		return
	}
	for ctx.Err() == nil {
		acquired, err := s.acquire(ctx)
		if err != nil && ctx.Err() == nil {
			s.log.Error("triage: the database cannot be used", "err", err)
		}
		if acquired {
			s.work(ctx)
			s.leave(ctx)
			continue
		}
		_ = rabbit.Pause(ctx, pollEvery)
	}
}

// acquire tries to get the right to work. If that had to wait for long, the owner has probably waited, too, to renew its right: on SQLite a transaction keeps
// all others waiting. The owner has some seconds then.
func (s *Service) acquire(ctx context.Context) (bool, error) {
	began := time.Now()
	return s.store.acquire(ctx, s.owner, leaseLasts, func(expires int64) bool {
		if expires != s.spared && time.Since(began) > leaseRenew { // once for each time that it has expired
			s.spared, s.sparedUntil = expires, time.Now().Add(leaseLasts)
		}
		return expires == s.spared && time.Now().Before(s.sparedUntil)
	})
}

// leave lets another process work.
func (s *Service) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaseLasts)
	defer cancel()
	if err := s.store.release(ctx, s.owner); err != nil {
		s.log.Warn("triage: another process takes over only after some seconds", "err", err)
	}
}

// work works until ctx ends, or another process has the right to.
func (s *Service) work(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var working sync.WaitGroup
	for _, part := range []func(context.Context){s.collect, s.collect, s.compare, s.workOnRuns, s.clean, s.regroup} {
		working.Go(func() { part(ctx) })
	}
	defer working.Wait()
	if s.config.Alone {
		<-ctx.Done()
		return
	}
	for rabbit.Pause(ctx, leaseRenew) == nil {
		acquired, err := s.store.renew(ctx, s.owner, leaseLasts)
		if err == nil && !acquired {
			acquired, err = s.acquire(ctx)
		}
		if err != nil {
			continue // nobody else can have it, or the next try shows that
		}
		if !acquired {
			cancel()
		}
	}
}

// complain logs an error, unless ctx has ended.
func (s *Service) complain(ctx context.Context, text string, err error, more ...any) {
	if err != nil && ctx.Err() == nil {
		s.log.Error("triage: "+text, append(more, "err", err)...)
	}
}

// collect reads reports. It runs twice: while the database writes some, the terms of the next ones are computed.
func (s *Service) collect(ctx context.Context) {
	for ctx.Err() == nil {
		err := s.collectOnce(ctx)
		s.complain(ctx, "reports are not collected; trying again", err)
		_ = rabbit.Pause(ctx, retryAfter)
	}
}

func (s *Service) collectOnce(ctx context.Context) error {
	a, err := s.config.Connect(ctx)
	if err != nil {
		return err
	}
	err = a.Reports(ctx, admin.ReportOptions{Queue: s.config.ReportsQueue}, s.take)
	if now, connectErr := s.config.Connect(ctx); connectErr == nil && now != a {
		return nil // Connect has replaced the connection, and closed this one
	}
	return err
}

// take records reports.
func (s *Service) take(ctx context.Context, some []admin.Report) error {
	var messages []Message
	var outcomes []Outcome
	for _, r := range some {
		if r.Failed == nil {
			outcomes = append(outcomes, Outcome{Run: r.Outcome.Run, ID: r.Outcome.ID, Queue: r.Outcome.Queue, Handled: r.Outcome.Handled})
			continue
		}
		messages = append(messages, FromFailed(r.FailedQueue, *r.Failed))
	}
	all, errs := s.store.prepareEach(messages)
	usable := all[:0]
	for i, err := range errs {
		if err != nil {
			m := &messages[i]
			s.log.Warn("triage: a failed message cannot be indexed; it is in its failed queue", "queue", m.FailedQueue, "id", m.ID, "err", err)
			continue
		}
		usable = append(usable, all[i])
	}
	if err := s.store.put(ctx, usable); err != nil {
		return err
	}
	s.put.Add(int64(len(usable)))
	return s.store.PutOutcomes(ctx, outcomes)
}

// clean deletes what is old.
func (s *Service) clean(ctx context.Context) {
	for {
		_, err := s.store.Clean(ctx, s.config.Retention)
		s.complain(ctx, "old messages were not deleted from the index", err)
		if rabbit.Pause(ctx, cleanEvery) != nil {
			return
		}
	}
}

// regroup puts messages of groups of older versions into those of the store's grouping, so that these keep what operators have decided. Not those of newer
// ones: while programs are replaced by others, each would undo what the other does. What it has done stays done if it is interrupted.
func (s *Service) regroup(ctx context.Context) {
	for ctx.Err() == nil {
		moved, err := s.store.regroup(ctx, "<")
		if moved > 0 {
			s.log.Info("triage: messages were put into groups of the new version", "messages", moved, "version", s.store.grouping.Version)
		}
		if err == nil {
			return
		}
		s.complain(ctx, "not all messages were grouped again; trying again", err)
		_ = rabbit.Pause(ctx, retryAfter)
	}
}
