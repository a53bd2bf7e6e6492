package cli

import (
	"fmt"

	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/cmd/rehop/internal/tty"
)

const (
	nameMost  = 40 // columns of a name
	nameLeast = 8
	figures   = 59 // columns of a row without the name
	waitName  = 30 // columns of the name of a delay queue
	waitBars  = 30 // columns of the bar behind it
	waitCount = 12 // columns of all else in its line
)

// space is the columns and lines that a picture may have; 0: without a limit.
type space struct{ width, height int }

// topPicture draws an overview, or the error that there is none. In a small space names are shortened and lists end early, so that all figures of a
// queue and the sums are seen.
func topPicture(o admin.Overview, fault error, t topView, room space) []tty.Line {
	title := tty.Line{}.And(tty.Bold, " rehop top").And(tty.Faint, "  %s  every %v, by %s", t.broker, t.every, t.sort)
	if fault != nil {
		return []tty.Line{title, {}, tty.Line{}.And(tty.Bad, " %s", plain(redacted(fault.Error()))), tty.Text(" trying again every %v; q quits", t.every)}
	}
	rows := t.rows(o)
	wide := len("QUEUE")
	for _, q := range rows {
		wide = max(wide, len([]rune(plain(q.Name))))
	}
	wide = min(wide, nameMost)
	if room.width > 0 {
		wide = min(wide, max(nameLeast, room.width-figures))
	}
	head := []tty.Line{title, {}, tty.Line{}.And(tty.Faint, " %-*s %9s %9s %9s %8s %8s %9s", wide, "QUEUE", "IN/S", "OUT/S", "READY", "UNACKED", "FAILED", "CONSUMERS")}
	queues, delays, foot := topLines(rows, wide), t.delays(o, room.width), t.foot(o, room.width)
	if room.height > 0 {
		free := max(0, room.height-len(head)-len(foot)-1)
		delays = firstLines(delays, max(free/3, free-len(queues)), "delay queue")
		queues = firstLines(queues, free-len(delays), "queue")
	}
	var picture []tty.Line
	for _, part := range [][]tty.Line{head, queues, {{}}, delays, foot} {
		picture = append(picture, part...)
	}
	if room.height > 0 {
		picture = picture[max(0, len(picture)-room.height):] // the sums come last
	}
	return picture
}

// firstLines returns up to most lines of a list. If there are more, the last line has their number.
func firstLines(lines []tty.Line, most int, what string) []tty.Line {
	if len(lines) <= most {
		return lines
	}
	if most < 1 {
		return nil
	}
	return append(lines[:most-1:most-1], tty.Line{}.And(tty.Faint, " and %s more", counted(len(lines)-most+1, what)))
}

func topLines(rows []admin.Queue, wide int) (lines []tty.Line) {
	for _, q := range rows {
		lines = append(lines, topLine(q, wide))
	}
	if len(rows) == 0 {
		lines = append(lines, tty.Line{}.And(tty.Faint, " rehop consumes no such queue"))
	}
	return lines
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

// delays are the delay queues that have messages, a line for each.
func (t topView) delays(o admin.Overview, width int) (lines []tty.Line) {
	name, bar := waitName, waitBars
	if width > 0 {
		name = max(nameLeast, min(name, width-waitCount))
		bar = max(0, min(bar, width-waitCount-name))
	}
	for _, d := range o.DelayQueues {
		if d.Messages > 0 {
			lines = append(lines, tty.Text(" %-*s ", name, shorten(plain(d.Name), name)).And(tty.Waiting, "%s", tty.Bar("●", d.Messages, bar)).And(tty.Plain, " %d", d.Messages))
		}
	}
	return lines
}

// foot is what is below the queues: sums, in as many lines as they need, and keys.
func (t topView) foot(o admin.Overview, width int) []tty.Line {
	var waiting, failed int
	for _, d := range o.DelayQueues {
		waiting += d.Messages
	}
	for _, q := range o.Queues {
		failed += q.Failed
	}
	var texts []string
	for i, sum := range []string{fmt.Sprintf("waiting %d", waiting), fmt.Sprintf("failed %d", failed), fmt.Sprintf("orphans %d", o.Orphans), fmt.Sprintf("unrouted %d", o.Unrouted)} {
		if last := len(texts) - 1; i > 0 && (width == 0 || len(texts[last])+len(", ")+len(sum) <= width) {
			texts[last] += ", " + sum
			continue
		}
		texts = append(texts, " "+sum)
	}
	var lines []tty.Line
	for _, text := range texts {
		lines = append(lines, tty.Line{}.And(tty.Bold, "%s", text))
	}
	if t.live {
		lines = append(lines, tty.Line{}.And(tty.Faint, " s order   q quit"))
	}
	return lines
}
