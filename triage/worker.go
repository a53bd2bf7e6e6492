package triage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/internal/rabbit"
)

// workOnRuns works on the runs that are running, a few at the same time.
func (s *Service) workOnRuns(ctx context.Context) {
	var working sync.WaitGroup
	defer working.Wait()
	var mu sync.Mutex
	active := make(map[string]bool)
	for ctx.Err() == nil {
		runs, err := s.store.unfinishedRuns(ctx)
		s.complain(ctx, "runs could not be read; trying again", err)
		for _, r := range runs {
			mu.Lock()
			begin := !active[r.ID] && len(active) < maxRuns
			if begin {
				active[r.ID] = true
			}
			mu.Unlock()
			if begin {
				working.Go(func() {
					(&worker{service: s, store: s.store, id: r.ID}).run(ctx)
					mu.Lock()
					delete(active, r.ID)
					mu.Unlock()
				})
			}
		}
		look := time.NewTimer(lookEvery)
		select {
		case <-ctx.Done():
		case <-s.wake:
		case <-look.C:
		}
		look.Stop()
	}
}

// worker works on one run.
type worker struct {
	service *Service
	store   *Store
	id      string
	// waiting is since when the worker has waited for outcomes, and unknown how many were not known then.
	waiting time.Time
	unknown int
	reason  string         // why it makes no progress
	missed  map[int64]bool // the failed queues in which the last sweep has not found all messages
}

// byRehop is who has stopped, paused or finished a run, for the audit.
const byRehop = "rehop"

// run works until the run has ended or is paused, or ctx ends.
func (w *worker) run(ctx context.Context) {
	for ctx.Err() == nil {
		pause, err := w.step(ctx)
		w.explain(ctx, err)
		if err != nil {
			pause = retryAfter
		}
		if pause < 0 {
			return
		}
		_ = rabbit.Pause(ctx, pause)
	}
}

// explain records why a run makes no progress, for those who look at it, and logs it once.
func (w *worker) explain(ctx context.Context, err error) {
	reason := ""
	if err != nil {
		reason = "it makes no progress, and is tried again: " + err.Error()
	}
	if reason == w.reason || ctx.Err() != nil {
		return
	}
	if w.reason = reason; err != nil {
		w.service.complain(ctx, "a run makes no progress; trying again", err, "run", w.id)
	}
	w.service.complain(ctx, "the reason could not be recorded", w.store.explainRun(ctx, w.id, reason), "run", w.id)
}

// finished is what step returns if nothing is left to do.
const finished = time.Duration(-1)

// step does what can be done now, and returns how long to wait before the next step.
func (w *worker) step(ctx context.Context) (time.Duration, error) {
	r, err := w.store.run(ctx, w.store.db, w.id)
	if err != nil {
		return 0, err
	}
	if r.State == Stopped && r.Counts.Sending > 0 {
		return 0, w.settleStopped(ctx, r)
	}
	if r.State != Running {
		return finished, nil
	}
	c := r.Counts
	if reason := r.tooManyFailed(c.Sent+c.Sending > 0); reason != "" {
		return finished, w.end(ctx, r, Stopped, reason)
	}
	if c.Planned+c.Sending == 0 {
		return finished, w.end(ctx, r, Done, "")
	}
	if r.canary == canaryOn && c.Sending > 0 { // of a process that was killed: whether they were sent must be known before others are
		return 0, w.advance(ctx, r, []itemState{sending}, -1)
	}
	allowed := r.allowed()
	if allowed == 0 {
		return w.wait(ctx, r)
	}
	w.waiting = time.Time{}
	if missing, err := w.targetMissing(ctx, r); missing || err != nil {
		return finished, err
	}
	return 0, w.advance(ctx, r, []itemState{planned, sending}, allowed)
}

// end ends a run, or pauses it. Somebody else may have done so.
func (w *worker) end(ctx context.Context, r runRow, state RunState, reason string) error {
	_, err := w.store.setRun(ctx, r.ID, state, byRehop, reason)
	if errors.Is(err, ErrRunEnded) {
		return nil
	}
	return err
}

// wait waits for outcomes, and pauses the run if none has arrived for a long time.
func (w *worker) wait(ctx context.Context, r runRow) (time.Duration, error) {
	unknown := r.Counts.Sent
	if w.waiting.IsZero() || unknown < w.unknown {
		w.waiting, w.unknown = time.Now(), unknown
	}
	if limit := w.service.config.OutcomeWait; time.Since(w.waiting) > limit {
		if err := w.store.endCanary(ctx, r); err != nil {
			return 0, err
		}
		return finished, w.end(ctx, r, Paused, fmt.Sprintf("the outcome of %d messages is not known after %v: they may still be retried, or their subscriber has no Config.Reports; continue it to send the rest without waiting", unknown, limit))
	}
	return lookEvery / 2, nil
}

// The steps of a canary: how many messages are sent, all together, before it waits.
const (
	firstStep  = 1
	secondStep = 10
	thirdStep  = 100
	thirdShare = 20 // one of 20, if that is less
)

// allowed is how many messages may be sent now, or -1 for all. 0 means that it has to wait for outcomes.
func (r *runRow) allowed() int {
	if r.canary != canaryOn {
		return -1
	}
	taken, before := r.Counts.Taken(), 0
	mustWait := func() bool { return taken == before && r.Counts.Sent > 0 }
	for _, step := range []int{firstStep, secondStep, max(secondStep, min(thirdStep, r.Counts.Total()/thirdShare))} {
		if taken < step {
			if mustWait() {
				return 0
			}
			return step - taken
		}
		before = step
	}
	if mustWait() {
		return 0
	}
	return -1
}

// fewOutcomes is how many outcomes must be known to end a run between the steps of a canary.
const fewOutcomes = 20

// tooManyFailed returns why a run must be stopped, or nothing. between means that outcomes are still on their way: a few prove little then.
func (r *runRow) tooManyFailed(between bool) string {
	c := r.Counts
	known := c.Succeeded + c.Failed
	if r.StopAbove == 0 || known == 0 || between && known < fewOutcomes || float64(c.Failed) <= r.StopAbove*float64(known) {
		return ""
	}
	return fmt.Sprintf("%d of %d messages failed again, and it stops above %g %%", c.Failed, known, 100*r.StopAbove)
}

// advance sends up to a number of messages, or all if it is negative: those of items in some states.
func (w *worker) advance(ctx context.Context, r runRow, from []itemState, allowed int) error {
	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() { w.watch(ctx, cancel) })
	defer watching.Wait()
	defer cancel()
	a, err := w.service.config.Connect(ctx)
	if err != nil {
		return err
	}
	more, err := w.fromStore(ctx, a, r, allowed)
	if err != nil || r.Action == ActionRestore {
		return err
	}
	queues, err := w.store.openQueues(ctx, r)
	if err != nil {
		return err
	}
	existing, _, err := w.service.failedQueues(ctx, a)
	if err != nil {
		return err
	}
	for _, q := range queues {
		done, complete := 0, true // a queue that does not exist has no messages
		at := slices.IndexFunc(existing, func(e failedQueue) bool { return e.Name == q.name })
		exists := at >= 0
		if exists {
			if done, complete, err = w.sweep(ctx, a, r, existing[at], from, allowed); err != nil {
				return err
			}
		}
		if complete && !more {
			if err := w.finish(ctx, r, q, from, exists); err != nil {
				return err
			}
		}
		if allowed > 0 {
			if allowed -= done; allowed <= 0 {
				return nil
			}
		}
	}
	return nil
}

// secondLook is how long after a sweep another one decides about messages that were not found. A quorum queue can still hold messages of a process that
// was killed, when it shows no consumer any more.
const secondLook = 3 * time.Second

// finish decides about the items of a queue that a complete sweep has not found, if the sweep before it has not found them either.
func (w *worker) finish(ctx context.Context, r runRow, q openQueue, from []itemState, exists bool) error {
	rest, err := w.store.openQueues(ctx, r)
	if err != nil || !slices.Contains(rest, q) {
		delete(w.missed, q.number)
		return err
	}
	if exists && !w.missed[q.number] {
		if w.missed == nil {
			w.missed = make(map[int64]bool)
		}
		w.missed[q.number] = true
		_ = rabbit.Pause(ctx, secondLook) // if it is paused or stopped meanwhile, the next step finds out
		return nil
	}
	delete(w.missed, q.number)
	return w.store.finishQueue(ctx, r, q.number, from)
}

// targetMissing pauses a run whose target does not exist.
func (w *worker) targetMissing(ctx context.Context, r runRow) (bool, error) {
	if r.To == "" {
		return false, nil
	}
	a, err := w.service.config.Connect(ctx)
	if err != nil {
		return false, err
	}
	if _, err = a.ErrorQueue(r.To).Depth(ctx); !errors.Is(err, admin.ErrNoQueue) {
		return false, err
	}
	return true, w.end(ctx, r, Paused, fmt.Sprintf("queue %q does not exist: declare it, and continue the run", r.To))
}

// settleStopped decides about messages that a process was sending when it was killed, if the run was stopped since: those that are in their failed queue
// were not taken, and the others were.
func (w *worker) settleStopped(ctx context.Context, r runRow) error {
	a, err := w.service.config.Connect(ctx)
	if err != nil {
		return err
	}
	queues, err := w.store.openQueues(ctx, r)
	if err != nil {
		return err
	}
	existing, _, err := w.service.failedQueues(ctx, a)
	if err != nil {
		return err
	}
	for _, q := range queues {
		if at := slices.IndexFunc(existing, func(e failedQueue) bool { return e.Name == q.name }); at >= 0 {
			for some, err := range messagesOf(ctx, a, existing[at]) {
				if err == nil {
					err = w.store.unclaim(ctx, r, some)
				}
				if err != nil {
					return err
				}
			}
		}
		if err := w.store.finishQueue(ctx, r, q.number, []itemState{sending}); err != nil {
			return err
		}
	}
	return nil
}

// watch calls stop when the run must end.
func (w *worker) watch(ctx context.Context, stop func()) {
	for rabbit.Pause(ctx, lookEvery) == nil {
		r, err := w.store.run(ctx, w.store.db, w.id)
		if err == nil && (r.State != Running || r.tooManyFailed(true) != "") {
			stop()
			return
		}
	}
}

// storeSome is how many messages are taken out of the store together, and can be twice in a failed queue after a kill.
const storeSome = 256

// fromStore does what a run does with messages that are in the store, some of them. more: there are others.
func (w *worker) fromStore(ctx context.Context, a *admin.Admin, r runRow, allowed int) (more bool, err error) {
	from, most := []State{Kept}, storeSome
	if r.Action == ActionRestore {
		from = r.Action.from()
	}
	if allowed > 0 {
		most = min(most, allowed)
	}
	some, err := w.store.keptLines(ctx, r, from, most)
	if err != nil {
		return false, err
	}
	if len(some) == 0 {
		if r.Action == ActionRestore { // what is left is not in the store
			return false, w.finishAll(ctx, r)
		}
		return false, nil
	}
	if r.Action == ActionDiscard {
		return true, w.store.unkeep(ctx, r, some, sent, Discarded)
	}
	if err := w.store.markSending(ctx, r, some); err != nil {
		return true, err
	}
	var lines bytes.Buffer
	for _, one := range some {
		lines.Write(one.line)
		lines.WriteByte('\n')
	}
	n, err := a.Import(ctx, &lines)
	returned, reasons := some[:n], []settled(nil)
	if wrong, ok := errors.AsType[*admin.ImportError](err); ok {
		returned = nil
		for i, one := range some[:wrong.Tried] {
			if slices.Contains(wrong.Lines, i+1) {
				reasons = append(reasons, settled{one.item, err.Error()})
			} else {
				returned = append(returned, one)
			}
		}
		err = w.store.settle(ctx, r, reasons)
	}
	after := planned // it is replayed from its failed queue
	if r.Action == ActionRestore {
		after = sent
	}
	return true, errors.Join(err, w.store.unkeep(ctx, r, returned, after, Failed))
}

// finishAll ends the items of a run in all queues.
func (w *worker) finishAll(ctx context.Context, r runRow) error {
	queues, err := w.store.openQueues(ctx, r)
	if err != nil {
		return err
	}
	for _, q := range queues {
		if err := w.store.finishQueue(ctx, r, q.number, []itemState{planned, sending}); err != nil {
			return err
		}
	}
	return nil
}
