package triage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/internal/rabbit"
)

// workOnRuns works on the runs that are running. A few of them send at the same time, and others wait for outcomes.
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
			begin := !active[r.ID] && len(active) < maxWorkers
			if begin {
				active[r.ID] = true
			}
			mu.Unlock()
			if begin {
				working.Go(func() {
					(&worker{service: s, store: s.store, id: r.ID, certain: make(map[int64]map[string]*item)}).run(ctx)
					mu.Lock()
					delete(active, r.ID)
					mu.Unlock()
				})
			}
		}
		poll := time.NewTimer(pollEvery)
		select {
		case <-ctx.Done():
		case <-s.wake:
		case <-poll.C:
		}
		poll.Stop()
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
	reason  string                     // why it makes no progress
	missed  map[int64]bool             // the failed queues in which the last sweep has not found all messages
	certain map[int64]map[string]*item // by failed queue: what was being sent, and is in it
	// recording is the context to record what was done. It does not end when the run is paused or stopped, and ends some time after the service.
	recording context.Context
	// back are messages that the broker has in their failed queues again, which is not recorded yet. No other line is taken before it is: after a failure
	// to record it, the same messages would be returned once more, without any bound.
	back []keptLine
	of   runRow // the run of which they are
}

// recordGrace is how long a service that ends tries to record what it has done. What is not recorded then is repeated, as after a kill.
const recordGrace = 10 * time.Second

// grace returns a context that ends recordGrace after ctx.
func grace(ctx context.Context) (recording context.Context, cancel func()) {
	recording, end := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		_ = rabbit.Pause(recording, recordGrace)
		end()
	})
	return recording, func() { stop(); end() }
}

// byRehop is who has stopped, paused or finished a run, for the audit.
const byRehop = "rehop"

// run works until the run has ended or is paused, or ctx ends.
func (w *worker) run(ctx context.Context) {
	recording, cancel := grace(ctx)
	defer cancel()
	w.recording = recording
	defer func() { _ = w.recordBack() }() // if that fails once more, they are returned again
	for ctx.Err() == nil {
		pause, err := w.step(ctx)
		if errors.Is(err, errHalted) || errors.Is(err, errDisplaced) {
			_ = rabbit.Pause(ctx, pollEvery) // the next step finds out
			continue
		}
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
	if err := w.recordBack(); err != nil { // also if it was paused or stopped since
		return 0, err
	}
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
	if c.Planned+c.Sending <= 0 {
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
	if r.Action == ActionKeep { // a process with other settings may have started the run
		if err := w.store.checkDurable(ctx); err != nil {
			return 0, err
		}
	}
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
		return finished, w.end(ctx, r, Paused, fmt.Sprintf("the outcome of %d messages is not known after %v: they may still be retried, or their subscriber does not report failures; continue it to send the rest without waiting", unknown, limit))
	}
	return pollEvery / 2, nil
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
	select {
	case w.service.sending <- struct{}{}:
		defer func() { <-w.service.sending }()
	case <-ctx.Done():
		return ctx.Err()
	}
	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() { w.watch(ctx, cancel) })
	defer watching.Wait()
	defer cancel()
	err := w.send(ctx, r, from, allowed)
	if ctx.Err() != nil { // what failed, failed because of that
		return errHalted
	}
	return err
}

// send is advance until ctx ends.
func (w *worker) send(ctx context.Context, r runRow, from []itemState, allowed int) error {
	a, err := w.service.config.Connect(ctx)
	if err != nil {
		return err
	}
	returned, all, err := w.returnKept(ctx, a, r, from, allowed)
	if err != nil || r.Action == ActionRestore {
		return err
	}
	if !all { // these are replayed from their failed queue before others are returned
		allowed = returned
	}
	queues, err := w.store.openQueues(ctx, r)
	if err != nil {
		return err
	}
	existing, _, err := w.service.failedQueues(ctx, a)
	if err != nil {
		return err
	}
	var faults []error // of one queue: the others need not wait for it
	for _, q := range queues {
		done, complete, err := 0, true, error(nil) // a queue that does not exist has no messages
		failed, exists := named(existing, q.name)
		if exists {
			done, complete, err = w.sweep(ctx, a, r, q.number, failed, from, allowed)
		}
		if err == nil && complete && all {
			err = w.finish(ctx, r, q, from, exists)
		}
		faults = append(faults, err)
		if allowed > 0 {
			if allowed -= done; allowed <= 0 {
				break
			}
		}
	}
	return errors.Join(faults...)
}

// named is the failed queue with a name.
func named(all []failedQueue, name string) (q failedQueue, exists bool) {
	at := slices.IndexFunc(all, func(q failedQueue) bool { return q.Name == name })
	if at < 0 {
		return q, false
	}
	return all[at], true
}

// returnKept returns messages of a run that are in the store to their failed queues: those of items in some states, up to a number, or all if it is negative.
// A restore is finished then.
func (w *worker) returnKept(ctx context.Context, a *admin.Admin, r runRow, from []itemState, allowed int) (returned int, all bool, err error) {
	if len(r.Action.fromStore()) == 0 {
		return 0, true, nil
	}
	for ctx.Err() == nil {
		most := linesSome
		if allowed > 0 {
			if most = min(most, allowed-returned); most == 0 {
				return returned, false, nil
			}
		}
		done, more, err := w.fromStore(ctx, a, r, from, most)
		if returned += done; err != nil {
			return returned, false, err
		}
		if more {
			continue
		}
		if r.Action == ActionRestore { // what is left is not in the store
			err = w.finishAll(ctx, r)
		}
		return returned, true, err
	}
	return returned, false, errHalted
}

// secondSweep is how long after a sweep another one decides about messages that were not found. A quorum queue can still hold messages of a process that
// was killed, when it shows no consumer any more.
const secondSweep = 3 * time.Second

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
		_ = rabbit.Pause(ctx, secondSweep) // if it is paused or stopped meanwhile, the next step finds out
		return nil
	}
	delete(w.missed, q.number)
	return w.store.finishQueue(ctx, r, q.number, from)
}

// targetMissing pauses a run whose target does not exist, or cannot be one.
func (w *worker) targetMissing(ctx context.Context, r runRow) (bool, error) {
	if r.To == "" {
		return false, nil
	}
	a, err := w.service.config.Connect(ctx)
	if err != nil {
		return false, err
	}
	switch err = a.CheckTarget(ctx, r.To); {
	case errors.Is(err, admin.ErrNoQueue):
		return true, w.end(ctx, r, Paused, fmt.Sprintf("queue %q does not exist: declare it, and continue the run", r.To))
	case errors.Is(err, admin.ErrTarget):
		return true, w.end(ctx, r, Paused, err.Error()+": stop the run, and start another one")
	case err == nil && slices.Contains(w.service.config.ErrorQueues, r.To):
		return true, w.end(ctx, r, Paused, fmt.Sprintf("queue %q is one of the error queues of the index: stop the run, and start another one", r.To))
	}
	return false, err
}

// settleStopped decides about messages that were being sent when a run was stopped or its process was killed: those that are in the store stay there, those
// that are in their failed queue were not taken, and the others were.
func (w *worker) settleStopped(ctx context.Context, r runRow) error {
	if err := w.store.stayInStore(ctx, r); err != nil {
		return err
	}
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
		failed, exists := named(existing, q.name)
		if exists {
			if err := w.unclaim(ctx, a, r, q.number, failed); err != nil {
				return err
			}
		}
		if err := w.finish(ctx, r, q, []itemState{sending}, exists); err != nil {
			return err
		}
	}
	return nil
}

// unclaim finds out which messages that were being sent are in their failed queue.
func (w *worker) unclaim(ctx context.Context, a *admin.Admin, r runRow, number int64, q failedQueue) error {
	left, err := w.store.leftovers(ctx, r, number)
	if err != nil {
		return err
	}
	for some, err := range messagesOf(ctx, a, q) {
		if err != nil {
			return err
		}
		for i := range some {
			l, err := lineageOf(&some[i])
			if err != nil {
				return err
			}
			left.see(sighting{l, failureOf(&some[i])})
		}
	}
	certain, err := w.store.certain(ctx, left)
	if err != nil {
		return err
	}
	return w.store.unclaim(ctx, r, certain)
}

// watch calls stop when the run must end.
func (w *worker) watch(ctx context.Context, stop func()) {
	for rabbit.Pause(ctx, pollEvery) == nil {
		r, err := w.store.run(ctx, w.store.db, w.id)
		if err == nil && (r.State != Running || r.tooManyFailed(true) != "") {
			stop()
			return
		}
	}
}

// fromStore does what a run does with messages that are in the store: those of items in some states, up to a number of them. more: there may be others.
func (w *worker) fromStore(ctx context.Context, a *admin.Admin, r runRow, from []itemState, most int) (done int, more bool, err error) {
	some, err := w.store.takeLines(ctx, w.service.holds, r, from, most)
	if err != nil || len(some) == 0 {
		return 0, false, err
	}
	if r.Action == ActionDiscard {
		return len(some), true, w.store.discardKept(w.recording, r, some)
	}
	n, err := a.Import(ctx, &lineReader{lines: some})
	w.back, w.of = some[:n], r
	if wrong, ok := errors.AsType[*admin.ImportError](err); ok {
		w.back = nil
		var reasons []settled
		for i, one := range some[:wrong.Tried] {
			if slices.Contains(wrong.Lines, i+1) {
				reasons = append(reasons, settled{one.item, err.Error()})
			} else {
				w.back = append(w.back, one)
			}
		}
		err = w.store.settle(w.recording, r, reasons)
	}
	done = len(w.back)
	return done, true, errors.Join(err, w.recordBack())
}

// recordBack records which messages are back in their failed queues.
func (w *worker) recordBack() error {
	if len(w.back) == 0 {
		return nil
	}
	after := planned // it is replayed from its failed queue
	if w.of.Action == ActionRestore {
		after = sent
	}
	err := w.store.returned(w.recording, w.of, w.back, after)
	if err == nil {
		w.back = nil
	}
	return err
}

// lineReader reads lines of an export, and lets go of each when it was read.
type lineReader struct {
	lines []keptLine
	next  int
	rest  []byte
}

func (l *lineReader) Read(p []byte) (int, error) {
	for len(l.rest) == 0 {
		if l.next == len(l.lines) {
			return 0, io.EOF
		}
		one := &l.lines[l.next]
		l.rest, one.line = append(one.line, '\n'), nil
		l.next++
	}
	n := copy(p, l.rest)
	l.rest = l.rest[n:]
	return n, nil
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
