package tty

import (
	"fmt"
	"io"
	"strings"
)

// Screen shows a picture in place of what the terminal showed before, which comes back when it is closed.
type Screen struct {
	Out      io.Writer
	Coloured bool
	// Size returns the columns and lines of the terminal, which can change. Nil: 80 and 24.
	Size func() (width, height int)
}

// Control sequences of a terminal.
const (
	enter  = "\x1b[?1049h\x1b[?25l"
	leave  = "\x1b[?25h\x1b[?1049l"
	home   = "\x1b[H"
	toEnd  = "\x1b[K"
	toFoot = "\x1b[J"
)

// Open begins to show pictures.
func (s *Screen) Open() { fmt.Fprint(s.Out, enter) }

// Close shows what the terminal showed before.
func (s *Screen) Close() { fmt.Fprint(s.Out, leave) }

// Room returns how many columns and lines a picture can have.
func (s *Screen) Room() (width, height int) {
	width, height = 80, 24
	if s.Size != nil {
		width, height = s.Size()
	}
	return width - 1, height - 1 // the cursor stays behind the last line
}

// Draw shows a picture. What does not fit is cut.
func (s *Screen) Draw(picture []Line) {
	width, height := s.Room()
	var frame strings.Builder
	frame.WriteString(home)
	for _, line := range picture[:min(len(picture), max(height, 0))] {
		// A terminal in raw mode needs the carriage return.
		frame.WriteString(line.render(width, s.Coloured) + toEnd + "\r\n")
	}
	frame.WriteString(toFoot)
	fmt.Fprint(s.Out, frame.String())
}

// Print writes a picture as lines of text, for output that is not a terminal.
func Print(out io.Writer, picture []Line) error {
	var text strings.Builder
	for _, line := range picture {
		text.WriteString(strings.TrimRight(line.render(maxColumns, false), " ") + "\n")
	}
	_, err := io.WriteString(out, text.String())
	return err
}

const maxColumns = 1000
