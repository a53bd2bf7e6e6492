package demo

import (
	"fmt"
	"io"
)

// stage is where the demo is shown.
type stage interface {
	open()
	// draw shows how things stand.
	draw(b *books, gatewayDown bool, note string)
	close()
}

// silence shows nothing.
type silence struct{}

func (silence) open()                     {}
func (silence) draw(*books, bool, string) {}
func (silence) close()                    {}

// lines shows each event on a line of its own, for scripts and logs.
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
