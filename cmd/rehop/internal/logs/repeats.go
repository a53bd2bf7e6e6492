package logs

import (
	"context"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// Repeats is a handler that passes on the first few of failures that are the same, and counts the rest: after a while one line reports the
// last of them and how many there were. A record is a failure if it has the attribute err. Two are the same if they differ only in what
// belongs to one message, such as its id, and in digits of the error. Other records, and those for debugging, are passed on unchanged.
type Repeats struct {
	next  slog.Handler
	books *books
	attrs []slog.Attr // of WithAttrs, for the comparison
	deep  bool        // in a group, where attributes have other names
}

const (
	// first is how many are passed on before they are counted.
	first = 5
	// shortest is how long is counted at first. It doubles while failures continue, up to longest.
	shortest, longest = 10 * time.Second, 5 * time.Minute
	// kinds is how many kinds of failures are counted separately. Beyond that only level and message are compared.
	kinds = 200
	// compared is how many characters of an error are compared on either side of where it was cut.
	compared = 150
)

// NewRepeats returns a handler before another one. Close it at the end.
func NewRepeats(next slog.Handler) *Repeats {
	return &Repeats{next: next, books: &books{open: make(map[string]*account)}}
}

// books has the accounts of all handlers that were derived from one.
type books struct {
	mu     sync.Mutex
	closed bool
	open   map[string]*account
	timers sync.WaitGroup // functions of timers that run or will run
}

// account is what is known of one kind of failure.
type account struct {
	passed  int // records that were passed on in this period
	counted int // records that were not
	from    time.Time
	period  time.Duration
	last    slog.Record
	next    slog.Handler
	timer   *time.Timer
}

// ofOneMessage are attributes that differ between messages that fail for the same reason.
var ofOneMessage = []string{"id", "key", "attempt", "max_attempts", "took", "after", "message", "message_id", "row", "delay"}

// number is what differs between errors of the same kind: ids, ports, times.
var number = regexp.MustCompile(`[0-9a-fA-F]{8,}(-[0-9a-fA-F]{4,})*|[0-9]+`)

// Enabled reports whether records of a level are passed on.
func (h *Repeats) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level)
}

// WithAttrs returns a handler that adds attributes to each record.
func (h *Repeats) WithAttrs(attrs []slog.Attr) slog.Handler {
	with := *h
	with.next, with.attrs = h.next.WithAttrs(attrs), append(slices.Clip(h.attrs), attrs...)
	return &with
}

// WithGroup returns a handler whose attributes belong to a group.
func (h *Repeats) WithGroup(name string) slog.Handler {
	with := *h
	with.next, with.deep = h.next.WithGroup(name), h.deep || name != ""
	return &with
}

// Handle passes on a record, or counts it.
func (h *Repeats) Handle(ctx context.Context, r slog.Record) error {
	kind, failure := h.kind(r)
	if !failure || r.Level < slog.LevelInfo || !h.books.count(kind, r, h.next) {
		return h.next.Handle(ctx, r)
	}
	return nil
}

// kind returns what two records of the same failure have in common, and whether it is a failure.
func (h *Repeats) kind(r slog.Record) (kind string, failure bool) {
	if h.deep {
		return "", false
	}
	var text strings.Builder
	text.WriteString(r.Level.String() + " " + r.Message)
	add := func(a slog.Attr) bool {
		switch {
		case slices.Contains(ofOneMessage, a.Key):
		case a.Key == "err":
			failure = true
			text.WriteString("\x00err=" + cause(a.Value.Resolve().String()))
		default:
			text.WriteString("\x00" + a.Key + "=" + a.Value.Resolve().String())
		}
		return true
	}
	for _, a := range h.attrs {
		add(a)
	}
	r.Attrs(add)
	return text.String(), failure
}

// cause is what errors of the same kind have in common. Targets cut off long answers and put … there. Where they do that depends on how many digits an answer
// has, so of such errors only the beginning and the end count.
func cause(text string) string {
	text = number.ReplaceAllString(text, "#")
	before, after, isCut := strings.Cut(text, "…")
	if !isCut {
		return text
	}
	head, tail := []rune(before), []rune(after)
	return string(head[:min(len(head), compared)]) + "…" + string(tail[max(0, len(tail)-compared):])
}

// count reports whether a record is counted instead of passed on.
func (b *books) count(kind string, r slog.Record, next slog.Handler) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false
	}
	a := b.open[kind]
	if a == nil && len(b.open) >= kinds {
		kind = r.Level.String() + " " + r.Message // there are only as many as the program has
		a = b.open[kind]
	}
	if a == nil {
		a = &account{from: time.Now(), period: shortest}
		b.open[kind] = a
		b.timers.Add(1)
		a.timer = time.AfterFunc(a.period, func() { b.turn(kind, a) })
	}
	if a.passed < first {
		a.passed++
		return false
	}
	a.counted++
	a.last, a.next = r.Clone(), next
	return true
}

// turn ends the period of an account: it reports what was counted, and begins another one if there was anything.
func (b *books) turn(kind string, a *account) {
	b.mu.Lock()
	if b.closed { // close reports it
		b.mu.Unlock()
		b.timers.Done()
		return
	}
	report := a.report()
	if report == nil {
		delete(b.open, kind)
		b.mu.Unlock()
		b.timers.Done()
		return
	}
	a.from, a.counted = time.Now(), 0
	a.period = min(2*a.period, longest)
	b.timers.Add(1)
	a.timer.Reset(a.period)
	b.mu.Unlock()
	report()
	b.timers.Done()
}

// report returns a function that passes on what was counted. Nil: there is nothing.
func (a *account) report() func() {
	if a.counted == 0 {
		return nil
	}
	r, next := a.last.Clone(), a.next
	r.Time = time.Now()
	r.AddAttrs(slog.Int("repeated", a.counted), slog.Duration("within", time.Since(a.from)))
	return func() { _ = next.Handle(context.Background(), r) }
}

// Close reports what was counted and not reported yet. Later records are passed on unchanged.
func (h *Repeats) Close() {
	b := h.books
	b.mu.Lock()
	var reports []func()
	if !b.closed {
		b.closed = true
		for _, a := range b.open {
			if a.timer.Stop() {
				b.timers.Done()
			}
			if report := a.report(); report != nil {
				reports = append(reports, report)
			}
		}
	}
	b.open = nil
	b.mu.Unlock()
	for _, report := range reports {
		report()
	}
	b.timers.Wait()
}
