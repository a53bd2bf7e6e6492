package triage

import (
	"context"
	"fmt"
	"time"
)

// RunCount is how many messages a run would have.
type RunCount struct {
	Messages int
	// At is when they were counted, for RunPlan.UpTo. Whatever fails or changes its state later has a later time, also if the database's clock
	// is set back.
	At time.Time
	// NotWhole is the NotWhole of a search with the same query: messages that may be missing because the index does not have all their
	// words.
	NotWhole int
}

// CountRun counts the messages of a run without starting it, to ask an operator first. With RunPlan.UpTo a run then has no messages that
// were not counted.
func (s *Store) CountRun(ctx context.Context, plan RunPlan) (count RunCount, err error) {
	if err := plan.check(); err != nil {
		return count, fmt.Errorf("triage: count the messages of a run: %w", err)
	}
	err = s.write(ctx, func(w *writer) error { // it has its turn, so that no older change is committed later
		count = RunCount{At: timeOfMicros(w.turn)}
		return w.eachOfPlan(ctx, plan, func(rows []*row) error {
			count.Messages += len(rows)
			return nil
		})
	})
	if err == nil && len(plan.Refs) == 0 && plan.Query.usesTerms() {
		count.NotWhole, err = s.notWhole(ctx, plan.Query)
	}
	if err != nil {
		return RunCount{}, fmt.Errorf("triage: count the messages of a run: %w", err)
	}
	return count, nil
}
