package tty

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Colour is the colour or weight of a text, by what it is for.
type Colour string

// The colours of a picture.
const (
	Plain   Colour = ""
	Bold    Colour = "\x1b[1m"
	Faint   Colour = "\x1b[2m"
	Good    Colour = "\x1b[32m"
	Waiting Colour = "\x1b[33m"
	Bad     Colour = "\x1b[31m"
	Moving  Colour = "\x1b[36m"
)

const plain = "\x1b[0m"

type piece struct {
	colour Colour
	text   string
}

// Line is a line of a picture, made of pieces of different colours.
type Line []piece

// Text returns a line without colour.
func Text(format string, args ...any) Line { return Line{}.And(Plain, format, args...) }

// And returns the line with a text after it.
func (l Line) And(colour Colour, format string, args ...any) Line {
	return append(l, piece{colour, fmt.Sprintf(format, args...)})
}

// render returns the line, cut to width columns.
func (l Line) render(width int, coloured bool) string {
	var out strings.Builder
	for _, p := range l {
		text := p.text
		n := utf8.RuneCountInString(text)
		if n > width {
			n, text = max(width, 0), string([]rune(text)[:max(width, 0)])
		}
		width -= n
		if coloured && p.colour != Plain && text != "" {
			text = string(p.colour) + text + plain
		}
		out.WriteString(text)
	}
	return out.String()
}

// Bar returns n marks in a field of width columns, with … at its end if there are more.
func Bar(mark string, n, width int) string {
	text := strings.Repeat(mark, max(0, min(n, width)))
	if n > width && width > 0 {
		text = strings.Repeat(mark, width-1) + "…"
	}
	return fmt.Sprintf("%-*s", width, text)
}
