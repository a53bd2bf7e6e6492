package logs

import (
	"io"
	"log/slog"
)

// NewJSON returns a handler that writes records of at least a level as JSON, one per line. Durations are texts, as in 1.5s.
func NewJSON(out io.Writer, least slog.Leveler) slog.Handler {
	return slog.NewJSONHandler(out, &slog.HandlerOptions{Level: least, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Value.Kind() == slog.KindDuration {
			a.Value = slog.StringValue(rounded(a.Value.Duration()).String())
		}
		return a
	}})
}
