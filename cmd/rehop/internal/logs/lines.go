package logs

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
)

// Lines is a handler that writes each record as one short line: the time of day, the level if it is not info, the message and its
// attributes.
type Lines struct {
	out      io.Writer
	writing  *sync.Mutex // of all handlers that share the output
	least    slog.Leveler
	coloured bool
	prefix   string // of groups
	attrs    []slog.Attr
}

// NewLines returns a handler for records of at least a level.
func NewLines(out io.Writer, least slog.Leveler, coloured bool) *Lines {
	return &Lines{out: out, writing: &sync.Mutex{}, least: least, coloured: coloured}
}

// Enabled reports whether records of a level are written.
func (l *Lines) Enabled(_ context.Context, level slog.Level) bool { return level >= l.least.Level() }

// WithAttrs returns a handler that adds attributes to each record.
func (l *Lines) WithAttrs(attrs []slog.Attr) slog.Handler {
	next := *l
	next.attrs = slices.Clone(l.attrs)
	for _, a := range attrs {
		next.attrs = appendFlat(next.attrs, l.prefix, a)
	}
	return &next
}

// WithGroup returns a handler whose attributes have a name before theirs.
func (l *Lines) WithGroup(name string) slog.Handler {
	if name == "" {
		return l
	}
	next := *l
	next.prefix += name + "."
	return &next
}

// Handle writes a record.
func (l *Lines) Handle(_ context.Context, r slog.Record) error {
	var line strings.Builder
	if !r.Time.IsZero() {
		line.WriteString(l.code("2", r.Time.Format(time.TimeOnly)) + " ")
	}
	line.WriteString(l.level(r.Level))
	line.WriteString(printable(r.Message))
	attrs := slices.Clone(l.attrs)
	r.Attrs(func(a slog.Attr) bool {
		attrs = appendFlat(attrs, l.prefix, a)
		return true
	})
	for _, a := range attrs {
		line.WriteString(" " + l.code("2", printable(a.Key)+"=") + text(a.Value))
	}
	line.WriteByte('\n')
	l.writing.Lock() // a line is written as a whole
	defer l.writing.Unlock()
	_, err := io.WriteString(l.out, line.String())
	return err
}

// level names a level that a reader has to notice.
func (l *Lines) level(level slog.Level) string {
	switch {
	case level >= slog.LevelError:
		return l.code("1;31", "error") + " "
	case level >= slog.LevelWarn:
		return l.code("33", "warning") + " "
	case level >= slog.LevelInfo:
		return ""
	}
	return l.code("2", "debug") + " "
}

func (l *Lines) code(code, text string) string {
	if !l.coloured {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// appendFlat appends an attribute, or those of a group.
func appendFlat(to []slog.Attr, prefix string, a slog.Attr) []slog.Attr {
	value := a.Value.Resolve()
	if value.Kind() == slog.KindGroup {
		if a.Key != "" {
			prefix += a.Key + "."
		}
		for _, member := range value.Group() {
			to = appendFlat(to, prefix, member)
		}
		return to
	}
	if a.Key == "" && value.Equal(slog.Value{}) {
		return to
	}
	return append(to, slog.Attr{Key: prefix + a.Key, Value: value})
}

// text is a value on one line, in quotes if it is not one word.
func text(v slog.Value) string {
	var shown string
	switch v.Kind() {
	case slog.KindDuration:
		shown = rounded(v.Duration()).String()
	case slog.KindTime:
		shown = v.Time().Format(time.DateTime)
	case slog.KindAny:
		if list, ok := v.Any().([]string); ok {
			shown = strings.Join(list, ",")
			break
		}
		shown = fmt.Sprint(v.Any())
	default:
		shown = v.String()
	}
	if shown == "" || strings.ContainsFunc(shown, func(c rune) bool { return c == '"' || c == '=' || unicode.IsSpace(c) || !unicode.IsPrint(c) }) {
		return strconv.Quote(shown)
	}
	return shown
}

// rounded is a duration with as many digits as a reader needs.
func rounded(d time.Duration) time.Duration {
	switch {
	case d >= time.Minute:
		return d.Round(time.Second)
	case d >= time.Second:
		return d.Round(10 * time.Millisecond)
	case d >= time.Millisecond:
		return d.Round(10 * time.Microsecond)
	}
	return d
}

// printable is a text without characters that a terminal would obey.
func printable(text string) string {
	if !strings.ContainsFunc(text, func(c rune) bool { return !unicode.IsPrint(c) }) {
		return text
	}
	quoted := strconv.Quote(text)
	return quoted[1 : len(quoted)-1]
}
