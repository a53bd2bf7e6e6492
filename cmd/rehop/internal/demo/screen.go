package demo

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"
)

// screen shows the shop as a picture that is updated. It needs 80 columns and 24 lines.
type screen struct {
	out      io.Writer
	width    int
	coloured bool
	byHand   bool
	steps    []time.Duration
}

// Control sequences of a terminal. The picture uses the alternate screen, so that the previous content comes back.
const (
	enter  = "\x1b[?1049h\x1b[?25l"
	leave  = "\x1b[?25h\x1b[?1049l"
	home   = "\x1b[H"
	toEnd  = "\x1b[K"
	toFoot = "\x1b[J"
	plain  = "\x1b[0m"
)

// Colours, by what they are for.
const (
	bold   = "\x1b[1m"
	dim    = "\x1b[2m"
	good   = "\x1b[32m"
	later  = "\x1b[33m"
	bad    = "\x1b[31m"
	moving = "\x1b[36m"
)

func (s *screen) open()  { fmt.Fprint(s.out, enter) }
func (s *screen) close() { fmt.Fprint(s.out, leave) }

func (s *screen) draw(b *books, down bool, note string) {
	var frame strings.Builder
	frame.WriteString(home)
	for _, line := range s.picture(b.view(len(s.steps)), down, note) {
		// A terminal in raw mode needs the carriage return.
		frame.WriteString(s.render(line) + toEnd + "\r\n")
	}
	frame.WriteString(toFoot)
	fmt.Fprint(s.out, frame.String())
}

type piece struct{ colour, text string }

type line []piece

func words(format string, args ...any) line { return line{{"", fmt.Sprintf(format, args...)}} }

func (l line) and(colour, format string, args ...any) line {
	return append(l, piece{colour, fmt.Sprintf(format, args...)})
}

// render cuts a line to the width of the screen.
func (s *screen) render(l line) string {
	var out strings.Builder
	room := s.width - 1
	for _, p := range l {
		text := p.text
		if n := utf8.RuneCountInString(text); n > room {
			text = string([]rune(text)[:max(room, 0)])
		}
		room -= utf8.RuneCountInString(text)
		if s.coloured && p.colour != "" {
			text = p.colour + text + plain
		}
		out.WriteString(text)
	}
	return out.String()
}

const (
	barWidth   = 24
	eventLines = 6
)

// bar shows a number of messages as marks, with … if there are more.
func bar(mark string, n int) string {
	text := strings.Repeat(mark, min(n, barWidth))
	if n > barWidth {
		text = strings.Repeat(mark, barWidth-1) + "…"
	}
	return fmt.Sprintf("%-*s", barWidth, text)
}

func (s *screen) picture(v view, down bool, note string) []line {
	summary, notification := v.queues[Summary], v.queues[Notification]
	gateway := piece{good, "up"}
	if down {
		gateway = piece{bad, "DOWN"}
	}
	lines := []line{
		line{}.and(bold, " rehop demo").and(dim, "  a shop's orders on an embedded broker").and("", "%13.1f s", v.at.Seconds()),
		{},
		words(" orders ──▶ ").and(bold, "order").and("", " ─┬─ %-13s ─▶ ", everythingKey).and(bold, "%s", Summary),
		words("%-12s       │                     handled ", fmt.Sprintf(" %d sent", v.messages)).and(good, "%-5d", summary.handled).and(dim, " in queue %d", summary.queued+summary.working),
		words("                   └─ %-13s ─▶ ", keyCreated).and(bold, "%s", Notification).and("", "  SMS ").and(gateway.colour, "%s", gateway.text),
		words("                                         handled ").and(good, "%-5d", notification.handled).and(dim, " in queue %d", notification.queued).
			and("", "  ").and(moving, "%s", strings.Repeat("▸", notification.working)),
		words("                                            │ fails  ▲ comes back"),
		words("   wait on the broker                       ▼        │"),
	}
	for i, n := range notification.waiting {
		lines = append(lines, words("   %d.  %-6s ", i+1, names[i]).and(dim, "%-16s", fmt.Sprintf("(here %v)", s.steps[i])).
			and(later, "%s", bar("●", n)).and("", " %3d", n))
	}
	inFailed := words("   in the failed queue        ").and(bad, "%s", bar("■", notification.failed)).and("", " %3d", notification.failed)
	if s.byHand && notification.failed > 0 {
		inFailed = inFailed.and(bold, "   press r to replay")
	}
	lines = append(lines, words("                                            ▼ gives up"), inFailed, line{})
	for _, e := range v.events {
		lines = append(lines, words(" ").and(dim, "%6.1fs ", e.at.Seconds()).and(colourOf(e.kind), "%s", e.text))
	}
	for range eventLines - len(v.events) {
		lines = append(lines, line{})
	}
	return append(lines, line{}, s.balance(v), s.foot(note))
}

// balance shows the states of the copies of both queues.
func (s *screen) balance(v view) line {
	var all count
	for _, c := range v.queues {
		all.copies += c.copies
		all.handled += c.handled
		all.failed += c.failed
		all.queued += c.queued + c.working
		all.waiting = append(all.waiting, c.waiting...)
	}
	return words(" copies %d = handled ", all.copies).and(good, "%d", all.handled).and("", " + waiting ").and(later, "%d", all.waits()).
		and("", " + failed ").and(bad, "%d", all.failed).and("", " + in queues %d", all.queued)
}

func (s *screen) foot(note string) line {
	switch {
	case note != "":
		return line{}.and(bold, " %s", note)
	case s.byHand:
		return line{}.and(bold, " r").and("", " replay failed messages   ").and(bold, "o").and("", " turn the gateway off or on   ").and(bold, "q").and("", " end and see the sums")
	}
	return line{}.and(dim, " failed messages are replayed automatically")
}

func colourOf(kind place) string {
	switch kind {
	case waiting:
		return later
	case failed:
		return bad
	case handled:
		return good
	}
	return bold
}
