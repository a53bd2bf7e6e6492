package demo

import (
	"fmt"
	"io"
)

type stage interface {
	open()
	// draw shows the current state.
	draw(b *books, gatewayDown bool, note string)
	close()
}

// lines prints each event on a line, for scripts and logs.
type lines struct {
	out  io.Writer
	seen int
}

func (l *lines) open()  {}
func (l *lines) close() {}

func (l *lines) draw(b *books, _ bool, _ string) {
	var fresh []event
	fresh, l.seen = b.since(l.seen)
	for _, e := range fresh {
		fmt.Fprintf(l.out, "%6.2fs  %s\n", e.at.Seconds(), e.text)
	}
}
