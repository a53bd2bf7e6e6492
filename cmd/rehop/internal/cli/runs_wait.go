package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/rehop/rehop/triage"
)

// runWait waits for the end of a run.
type runWait struct {
	*index
	store *triage.Store
	every time.Duration // how often the run is read
	// untouched is how long nothing may happen to a run until a notice is printed that something must work on it.
	untouched time.Duration
}

func newRunWait(x *index, store *triage.Store) *runWait {
	return &runWait{index: x, store: store, every: 200 * time.Millisecond, untouched: 10 * time.Second}
}

// until waits until the run has ended or is paused, shows how far it is, and prints the result. The verb is that of messages with which the
// run is done.
func (w *runWait) until(ctx context.Context, run triage.Run, verb string) error {
	id := run.ID
	run, err := w.watch(ctx, run, verb)
	if err != nil {
		w.notice("the run continues without this command: rehop runs show %s shows it, and rehop runs stop %s stops it", id, id)
		return err
	}
	if w.json {
		err = w.printJSON(runViewOf(run))
	} else {
		err = w.printf("%s: %s\n", run.State, numbersOf(run))
	}
	if err != nil {
		return err
	}
	if n := run.Counts.Sent; n > 0 && run.Action == triage.ActionReplay && run.State == triage.Done {
		w.notice("the outcome of %s is not known yet; rehop runs show %s shows it when it is", counted(n, "message"), id)
	}
	switch n := run.Counts.Refused; {
	case run.State == triage.Stopped:
		return fmt.Errorf("run %s was stopped: %s", id, dash(run.Reason))
	case run.State == triage.Paused:
		return fmt.Errorf("run %s is paused: %s; rehop runs continue %s continues it", id, dash(run.Reason), id)
	case n > 0:
		return fmt.Errorf("%s refused; rehop runs show %s lists the reasons", counted(n, "message"), id)
	}
	return nil
}

// watch reads the run until it is not running any more.
func (w *runWait) watch(ctx context.Context, run triage.Run, verb string) (triage.Run, error) {
	shown := w.progressOf(verb)
	defer shown.end()
	tick := time.NewTicker(w.every)
	defer tick.Stop()
	remind := time.NewTimer(w.untouched)
	defer remind.Stop()
	for run.State == triage.Running {
		n := run.Counts
		shown.show(int64(n.Total()-n.Planned-n.Sending), int64(n.Total()))
		select {
		case <-tick.C:
		case <-remind.C:
			if n.Planned == n.Total() {
				shown.end()
				w.notice("nothing works on the run yet: rehop up or rehop run must be running with this index; waiting for it (^C ends only this command)")
			}
		case <-ctx.Done():
			return run, ctx.Err()
		}
		next, err := w.store.Run(ctx, run.ID)
		if ctx.Err() != nil {
			return run, ctx.Err()
		}
		if err != nil {
			return run, err
		}
		run = next
	}
	return run, nil
}
