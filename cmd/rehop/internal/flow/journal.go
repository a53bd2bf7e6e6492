package flow

import (
	"context"
	"log/slog"

	"github.com/rehop/rehop"
)

// journal logs the results of messages: at warning what needs an operator, at info what rehop resolves automatically.
type journal struct{ log *slog.Logger }

// OnResult logs a result.
func (j journal) OnResult(ctx context.Context, d *rehop.Delivery, r rehop.Result) {
	level, text := slog.LevelDebug, "message "+string(r.Outcome)
	switch r.Outcome {
	case rehop.OutcomeFailed:
		level, text = slog.LevelWarn, "message moved to the failed queue"
	case rehop.OutcomeRetry:
		level, text = slog.LevelInfo, "message is retried"
	case rehop.OutcomePostponed:
		level, text = slog.LevelInfo, "message is postponed"
	case rehop.OutcomeDiscarded:
		level = slog.LevelInfo
	}
	if !j.log.Enabled(ctx, level) {
		return
	}
	args := []any{"queue", d.Queue, "id", d.ID, "key", d.Key, "attempt", d.Attempt, "max_attempts", d.MaxAttempts, "took", r.Took}
	if r.Outcome == rehop.OutcomeRetry || r.Outcome == rehop.OutcomePostponed {
		args = append(args, "after", r.Delay)
	}
	if r.Err != nil {
		args = append(args, "kind", r.Kind, "err", r.Err)
	}
	j.log.Log(ctx, level, text, args...)
}
