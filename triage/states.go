package triage

import (
	"context"
	"fmt"
	"slices"
)

// Change is a change of the states of messages.
type Change struct {
	Refs []string // which messages
	From []State  // only those in one of these states; none: in any state
	To   State
	Run  string // the run that does it, if any
}

// SetStates changes the states of messages, in one transaction, and returns the Refs of those that it has changed. Messages that are not in the
// index, or not in one of the states From, are left out. A message becomes Kept only if the store has its contents, from a run. The caller records the run, or the decision, in the audit.
func (s *Store) SetStates(ctx context.Context, change Change) (changed []string, err error) {
	if change.To.number() < 0 {
		return nil, fmt.Errorf("triage: set states: there is no state %q", string(change.To))
	}
	wanted := make(map[lineage][]int, len(change.Refs))
	lineages := make([]lineage, 0, len(change.Refs))
	for _, ref := range change.Refs {
		l, ordinal, err := parseRef(ref)
		if err != nil {
			return nil, fmt.Errorf("triage: set states: %w", err)
		}
		if wanted[l] == nil {
			lineages = append(lineages, l)
		}
		wanted[l] = append(wanted[l], ordinal)
	}
	err = s.write(ctx, func(w *writer) error {
		changed = nil
		found, err := w.rowsOf(ctx, lineages)
		if err != nil {
			return err
		}
		var rows []*row
		for _, l := range lineages {
			for _, r := range found[l] {
				isFrom := len(change.From) == 0 || slices.Contains(change.From, states[r.state])
				if slices.Contains(wanted[l], r.ordinal) && isFrom && states[r.state] != change.To {
					rows, changed = append(rows, r), append(changed, l.ref(r.ordinal))
				}
			}
		}
		if change.To == Kept {
			if err := w.haveLines(ctx, rows); err != nil {
				return err
			}
		}
		c := newCounters()
		if err := w.setStates(ctx, c, rows, change.To, change.Run); err != nil {
			return err
		}
		return c.flush(ctx, w)
	})
	if err != nil {
		return nil, fmt.Errorf("triage: set states of %d messages: %w", len(change.Refs), err)
	}
	return changed, nil
}
