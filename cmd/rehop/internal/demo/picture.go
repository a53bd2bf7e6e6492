package demo

import (
	"fmt"
	"strings"
	"time"

	"github.com/rehop/rehop/cmd/rehop/internal/tty"
)

// picture shows the shop on a screen of at least 70 columns and 20 lines. Bars and events use the room of a larger one.
type picture struct {
	screen  *tty.Screen
	byHand  bool
	steps   []time.Duration
	console string // its address, or empty
}

func (p *picture) open()  { p.screen.Open() }
func (p *picture) close() { p.screen.Close() }

const (
	besideBars   = 55 // columns of a line with a bar
	withoutLines = 17 // lines of the picture without events
)

func (p *picture) draw(b *books, down bool, note string) {
	width, height := p.screen.Room()
	events := max(1, height-withoutLines)
	p.screen.Draw(p.lines(b.view(len(p.steps), events), max(10, width-besideBars), events, down, note))
}

func (p *picture) lines(v view, bars, events int, down bool, note string) []tty.Line {
	summary, notification := v.queues[Summary], v.queues[Notification]
	gateway := tty.Text(" SMS ").And(tty.Good, "up")
	if down {
		gateway = tty.Text(" SMS ").And(tty.Bad, "DOWN")
	}
	about := tty.Line{}.And(tty.Bold, " rehop demo").And(tty.Faint, "  a shop's orders on an embedded broker")
	if p.console != "" {
		about = tty.Line{}.And(tty.Bold, " rehop demo").And(tty.Plain, "  in your browser: ").And(tty.Bold, "%s", p.console)
	}
	lines := []tty.Line{
		about.And(tty.Plain, "%9.1f s", v.at.Seconds()),
		{},
		tty.Text(" orders ▶ ").And(tty.Bold, "order").And(tty.Plain, " ─┬─ %-13s ▶ ", everythingKey).And(tty.Bold, "%s", Summary),
		tty.Text("%-12s     │                    handled ", fmt.Sprintf(" %d sent", v.messages)).And(tty.Good, "%-5d", summary.handled).And(tty.Faint, " in queue %d", summary.queued+summary.working),
		append(tty.Text("                 └─ %-13s ▶ ", keyCreated).And(tty.Bold, "%s", Notification), gateway...),
		tty.Text("                                      handled ").And(tty.Good, "%-5d", notification.handled).And(tty.Faint, " in queue %d", notification.queued).
			And(tty.Plain, "  ").And(tty.Moving, "%s", strings.Repeat("▸", notification.working)),
		tty.Text("                                            │ fails  ▲ comes back"),
		tty.Text("   wait on the broker                       ▼        │"),
	}
	for i, n := range notification.waiting {
		lines = append(lines, tty.Text("   %d.  %-6s ", i+1, names[i]).And(tty.Faint, "%-16s", fmt.Sprintf("(here %v)", p.steps[i])).
			And(tty.Waiting, "%s", tty.Bar("●", n, bars)).And(tty.Plain, " %3d", n))
	}
	inFailed := tty.Text("   in the failed queue        ").And(tty.Bad, "%s", tty.Bar("■", notification.failed, bars)).And(tty.Plain, " %3d", notification.failed)
	if p.byHand && notification.failed > 0 {
		inFailed = inFailed.And(tty.Bold, "   press r to replay")
	}
	lines = append(lines, tty.Text("                                            ▼ gives up"), inFailed, tty.Line{})
	for _, e := range v.events {
		lines = append(lines, tty.Text(" ").And(tty.Faint, "%6.1fs ", e.at.Seconds()).And(colourOf(e.kind), "%s", e.text))
	}
	for range events - len(v.events) {
		lines = append(lines, tty.Line{})
	}
	return append(lines, tty.Line{}, p.balance(v), p.foot(note))
}

// balance shows the states of the copies of both queues.
func (p *picture) balance(v view) tty.Line {
	var all count
	for _, c := range v.queues {
		all.copies += c.copies
		all.handled += c.handled
		all.failed += c.failed
		all.removed += c.removed
		all.queued += c.queued + c.working
		all.waiting = append(all.waiting, c.waiting...)
	}
	line := tty.Text(" copies %d = handled ", all.copies).And(tty.Good, "%d", all.handled).And(tty.Plain, " + waiting ").And(tty.Waiting, "%d", all.waits()).
		And(tty.Plain, " + failed ").And(tty.Bad, "%d", all.failed).And(tty.Plain, " + in queues %d", all.queued)
	if all.removed > 0 {
		line = line.And(tty.Plain, " + removed %d", all.removed)
	}
	return line
}

func (p *picture) foot(note string) tty.Line {
	switch {
	case note != "":
		return tty.Line{}.And(tty.Bold, " %s", note)
	case p.byHand:
		return tty.Line{}.And(tty.Bold, " r").And(tty.Plain, " replay failed  ").And(tty.Bold, "o").And(tty.Plain, " gateway off or on  ").And(tty.Bold, "q").And(tty.Plain, " end and see the sums")
	}
	return tty.Line{}.And(tty.Faint, " failed messages are replayed automatically")
}

func colourOf(kind place) tty.Colour {
	switch kind {
	case waiting:
		return tty.Waiting
	case failed:
		return tty.Bad
	case handled:
		return tty.Good
	}
	return tty.Bold
}
