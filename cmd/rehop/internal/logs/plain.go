package logs

import (
	"context"
	"log/slog"
	"strings"
)

// Plain is a handler that turns records of the library into those of the program: without the library's name, which every line would have,
// and with errors in the words of the program's users.
type Plain struct {
	next    slog.Handler
	explain func(error) error
}

// NewPlain returns a handler before another one. Explain returns an error with a text for users, or the same.
func NewPlain(next slog.Handler, explain func(error) error) *Plain { return &Plain{next, explain} }

// Enabled reports whether records of a level are passed on.
func (p *Plain) Enabled(ctx context.Context, level slog.Level) bool {
	return p.next.Enabled(ctx, level)
}

// WithAttrs returns a handler that adds attributes to each record.
func (p *Plain) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &Plain{p.next.WithAttrs(attrs), p.explain}
}

// WithGroup returns a handler whose attributes belong to a group.
func (p *Plain) WithGroup(name string) slog.Handler { return &Plain{p.next.WithGroup(name), p.explain} }

// library is how texts of the library begin.
const library = "rehop: "

// Handle passes on a record. Errors become texts, so that they look the same in every format.
func (p *Plain) Handle(ctx context.Context, r slog.Record) error {
	changed := slog.NewRecord(r.Time, r.Level, strings.TrimPrefix(r.Message, library), r.PC)
	r.Attrs(func(a slog.Attr) bool {
		if err, ok := a.Value.Any().(error); ok {
			a = slog.String(a.Key, strings.TrimPrefix(p.explain(err).Error(), library))
		}
		changed.AddAttrs(a)
		return true
	})
	return p.next.Handle(ctx, changed)
}
