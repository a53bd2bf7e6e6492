package flow

import (
	"context"
	"log/slog"

	"github.com/rehop/rehop"
)

// journal writes what became of messages into the log: what needs a person as a warning, what mends itself as information.
type journal struct{ log *slog.Logger }

// OnHandled is told what became of a message.
func (j journal) OnHandled(ctx context.Context, d *rehop.Delivery, r rehop.Result) {
	level, text := slog.LevelDebug, "message "+string(r.Outcome)
	switch r.Outcome {
	case rehop.OutcomeFailed:
		level, text = slog.LevelWarn, "message rests in the failed queue"
	case rehop.OutcomeRetry:
		level, text = slog.LevelInfo, "message is tried again"
	case rehop.OutcomeDiscarded:
		level = slog.LevelInfo
	}
	if !j.log.Enabled(ctx, level) {
		return
	}
	args := []any{"queue", d.Queue, "id", d.ID, "key", d.Key, "attempt", d.Attempt, "attempts", d.Attempts, "took", r.Took}
	if r.Outcome == rehop.OutcomeRetry {
		args = append(args, "after", r.Delay)
	}
	if r.Err != nil {
		args = append(args, "kind", r.Kind, "err", r.Err)
	}
	j.log.Log(ctx, level, text, args...)
}
