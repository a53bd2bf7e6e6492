package cli

import (
	"fmt"
	"strings"
	"time"
)

// progress shows the progress of a command on a terminal.
type progress struct {
	*command
	verb  string
	begun time.Time // when it was first shown, which can be long after the start: the user may be asked first
	first int64     // what was done then
	drawn time.Time
	shown bool
}

// progressOf returns the progress of something that is done to many messages, as in: replayed.
func (c *command) progressOf(verb string) *progress { return &progress{command: c, verb: verb} }

const (
	drawEvery = 100 * time.Millisecond
	// rateAfter is when there is enough to compute a rate that does not jump.
	rateAfter = time.Second
)

// show draws the bar. A total of 0 is unknown.
func (p *progress) show(done, total int64) {
	if p.Width == 0 || p.json || time.Since(p.drawn) < drawEvery {
		return
	}
	p.drawn, p.shown = time.Now(), true
	if p.begun.IsZero() {
		p.begun, p.first = p.drawn, done
	}
	rate := 0.0
	if took := p.drawn.Sub(p.begun); took >= rateAfter {
		rate = float64(done-p.first) / took.Seconds()
	}
	fmt.Fprint(p.Out, "\r"+bar(p.verb, done, total, rate, p.Width)+"\x1b[K")
}

func (p *progress) end() {
	if p.shown {
		p.shown = false
		fmt.Fprint(p.Out, "\r\x1b[K")
	}
}

// bar is a line of at most width columns. A rate of 0 is unknown.
func bar(verb string, done, total int64, rate float64, width int) string {
	pace := ""
	if rate > 0 {
		pace = fmt.Sprintf(", %s/s", rounded(rate))
	}
	if total <= 0 {
		return fit(fmt.Sprintf("%s %d", verb, done), pace, width)
	}
	done = min(done, total)
	if rate > 0 && done < total {
		pace += fmt.Sprintf(", %s left", left(float64(total-done)/rate))
	}
	text := fit(fmt.Sprintf(" %3d%% %s %d of %d", 100*done/total, verb, done, total), pace, width)
	room := min(width-len(text)-3, 40)
	if room < 5 {
		return strings.TrimSpace(text)
	}
	full := int(int64(room) * done / total)
	return "[" + strings.Repeat("#", full) + strings.Repeat(".", room-full) + "]" + text
}

// fit adds the pace to a text if there is room for it.
func fit(text, pace string, width int) string {
	if len(text)+len(pace) > width {
		return text
	}
	return text + pace
}

// rounded is a rate with no more digits than it is worth.
func rounded(rate float64) string {
	switch {
	case rate < 0.1:
		return "<0.1"
	case rate < 10:
		return fmt.Sprintf("%.1f", rate)
	}
	return fmt.Sprintf("%.0f", rate)
}

// left is a number of seconds as a duration that does not change with every look.
func left(seconds float64) string {
	const most = 100 * 24 * time.Hour // a duration has no room for everything that a division can give
	if seconds > most.Seconds() {
		return "more than 100 days"
	}
	d := time.Duration(seconds * float64(time.Second))
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", max(1, int(d.Round(time.Second).Seconds())))
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	}
	return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
}
