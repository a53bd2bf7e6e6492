package cli

import (
	"fmt"

	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/cmd/rehop/internal/tty"
)

const waitBars = 30 // columns

// topPicture draws an overview, or the error that there is none, with at most room lines; 0: without a limit.
func topPicture(o admin.Overview, fault error, t topView, room int) []tty.Line {
	title := tty.Line{}.And(tty.Bold, " rehop top").And(tty.Faint, "  %s  every %v, by %s", t.broker, t.every, t.sort)
	if fault != nil {
		return []tty.Line{title, {}, tty.Line{}.And(tty.Bad, " %s", plain(redacted(fault.Error()))), tty.Text(" trying again every %v; q quits", t.every)}
	}
	rows := t.rows(o)
	wide := len("QUEUE")
	for _, q := range rows {
		wide = max(wide, len([]rune(plain(q.Name))))
	}
	wide = min(wide, 40)
	lines := []tty.Line{title, {}, tty.Line{}.And(tty.Faint, " %-*s %9s %9s %9s %8s %8s %9s", wide, "QUEUE", "IN/S", "OUT/S", "READY", "UNACKED", "FAILED", "CONSUMERS")}
	foot := t.foot(o)
	shown := len(rows)
	if room > 0 {
		shown = max(1, min(shown, room-len(lines)-len(foot)-1))
	}
	for _, q := range rows[:min(shown, len(rows))] {
		lines = append(lines, topLine(q, wide))
	}
	if more := len(rows) - shown; more > 0 {
		lines = append(lines, tty.Line{}.And(tty.Faint, " and %s more", counted(more, "queue")))
	}
	if len(rows) == 0 {
		lines = append(lines, tty.Line{}.And(tty.Faint, " no such queues"))
	}
	return append(lines, foot...)
}

func topLine(q admin.Queue, wide int) tty.Line {
	line := tty.Text(" %-*s %9.1f %9.1f ", wide, shorten(plain(q.Name), wide), q.In, q.Out)
	line = line.And(colourIf(q.Ready > 0, tty.Moving), "%9d", q.Ready).And(tty.Plain, " %8d ", q.Unacked).And(colourIf(q.Failed > 0, tty.Bad), "%8d", q.Failed)
	line = line.And(tty.Plain, " ").And(colourIf(q.Consumers == 0, tty.Bad), "%9d", q.Consumers)
	if q.Migrating {
		line = line.And(tty.Waiting, " migrating, %d kept", q.Kept)
	}
	return line
}

func colourIf(is bool, colour tty.Colour) tty.Colour {
	if is {
		return colour
	}
	return tty.Plain
}

// foot is what is below the queues: the delay queues that have messages, sums and keys.
func (t topView) foot(o admin.Overview) []tty.Line {
	lines := []tty.Line{{}}
	var waiting, failed int
	for _, d := range o.DelayQueues {
		waiting += d.Messages
		if d.Messages > 0 {
			lines = append(lines, tty.Text(" %-30s ", plain(d.Name)).And(tty.Waiting, "%s", tty.Bar("●", d.Messages, waitBars)).And(tty.Plain, " %d", d.Messages))
		}
	}
	for _, q := range o.Queues {
		failed += q.Failed
	}
	sums := fmt.Sprintf(" waiting %d, failed %d, orphans %d, unrouted %d", waiting, failed, o.Orphans, o.Unrouted)
	lines = append(lines, tty.Line{}.And(tty.Bold, "%s", sums))
	if t.live {
		lines = append(lines, tty.Line{}.And(tty.Faint, " s order   q quit"))
	}
	return lines
}
