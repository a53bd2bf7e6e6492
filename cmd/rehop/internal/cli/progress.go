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
	drawn time.Time
	shown bool
}

// progressOf returns the progress of something that is done to many messages, as in: replayed.
func (c *command) progressOf(verb string) *progress { return &progress{command: c, verb: verb} }

const drawEvery = 100 * time.Millisecond

// show draws the bar. A total of 0 is unknown.
func (p *progress) show(done, total int64) {
	if p.Width == 0 || p.json || time.Since(p.drawn) < drawEvery {
		return
	}
	p.drawn, p.shown = time.Now(), true
	fmt.Fprint(p.Out, "\r"+bar(p.verb, done, total, p.Width)+"\x1b[K")
}

func (p *progress) end() {
	if p.shown {
		p.shown = false
		fmt.Fprint(p.Out, "\r\x1b[K")
	}
}

// bar is a line of at most width columns.
func bar(verb string, done, total int64, width int) string {
	if total <= 0 {
		return fmt.Sprintf("%s %d", verb, done)
	}
	done = min(done, total)
	text := fmt.Sprintf(" %3d%% %s %d of %d", 100*done/total, verb, done, total)
	room := min(width-len(text)-3, 40)
	if room < 5 {
		return strings.TrimSpace(text)
	}
	full := int(int64(room) * done / total)
	return "[" + strings.Repeat("#", full) + strings.Repeat(".", room-full) + "]" + text
}
