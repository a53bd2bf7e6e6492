package console

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"unicode/utf8"
)

// payload is the shown form of a body.
type payload struct {
	Form  string // JSON, text, hex or empty
	Text  string
	Size  int
	Shown int  // how many bytes of the body are shown, if that is not all
	Other bool // the other view, text or hex, is possible
}

const (
	// maxText is how many bytes of a text are shown, and maxHex of other bodies, of which each line shows 16.
	maxText = 64 << 10
	maxHex  = 8 << 10
	// A body that is larger or nested deeper is not indented: many short values deep inside would become a text that is many
	// times as long.
	maxIndented = 256 << 10
	maxNested   = 32
)

// payloadOf shows a body as JSON, text or hex. view is "hex" or "text" if the user has chosen.
func payloadOf(body []byte, view string) payload {
	p := payload{Size: len(body), Other: true}
	switch {
	case len(body) == 0:
		p.Form, p.Other = "empty", false
	case view == "hex", view != "text" && !isText(body):
		p.Form = "hex"
		if len(body) > maxHex {
			p.Shown, body = maxHex, body[:maxHex]
		}
		p.Text = hex.Dump(body)
	default:
		p.Form = "text"
		if len(body) <= maxIndented && nesting(body) <= maxNested && json.Valid(body) {
			var out bytes.Buffer
			if json.Indent(&out, body, "", "  ") == nil { // numbers keep all their digits
				p.Form, body = "JSON", out.Bytes()
			}
		}
		text, longer := cut(string(body[:min(len(body), maxText+utf8.UTFMax)]), maxText)
		if p.Text = text; longer {
			p.Shown = len(text)
		}
	}
	return p
}

// isText reports whether a body is text for people: UTF-8, with few characters that cannot be seen.
func isText(body []byte) bool {
	begin := body[:min(len(body), maxText)]
	if len(begin) < len(body) { // the cut can be within a character
		for i := 0; i < utf8.UTFMax && len(begin) > 0 && !utf8.Valid(begin); i++ {
			begin = begin[:len(begin)-1]
		}
	}
	if !utf8.Valid(begin) {
		return false
	}
	controls := 0
	for _, b := range begin {
		if b < ' ' && b != '\n' && b != '\r' && b != '\t' {
			controls++
		}
	}
	return controls*10 <= len(begin)
}

// nesting is how deep brackets are nested outside of strings.
func nesting(text []byte) (deepest int) {
	depth, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{', c == '[':
			depth++
			deepest = max(deepest, depth)
		case c == '}', c == ']':
			depth--
		}
	}
	return deepest
}
