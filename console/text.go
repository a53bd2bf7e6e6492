package console

import (
	"fmt"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"
)

// span is a part of a shown text: characters that can be seen, or marks for those that cannot.
type span struct {
	Plain string
	Marks string // as in U+202E for a character, or \xff for a byte that is not UTF-8
}

// marked splits a text of one line for display. A character that is invisible, changes the direction of writing or controls a
// terminal, and a byte that is not UTF-8, becomes a mark, so that a text cannot look like another one.
func marked(text string) []span { return split(text, false) }

// markedLines is marked for a text of several lines: line feeds and tabs are not marked.
func markedLines(text string) []span { return split(text, true) }

func split(text string, lines bool) (spans []span) {
	begin := 0
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		mark := ""
		switch {
		case r == utf8.RuneError && size == 1:
			mark = fmt.Sprintf("\\x%02x", text[i])
		case lines && (r == '\n' || r == '\t'):
		case lines && strings.HasPrefix(text[i:], "\r\n"):
		case !visible(r):
			mark = fmt.Sprintf("U+%04X", r)
		}
		if mark != "" {
			if begin < i {
				spans = append(spans, span{Plain: text[begin:i]})
			}
			if n := len(spans); n > 0 && spans[n-1].Marks != "" {
				spans[n-1].Marks += " " + mark
			} else {
				spans = append(spans, span{Marks: mark})
			}
			begin = i + size
		}
		i += size
	}
	if begin < len(text) {
		spans = append(spans, span{Plain: text[begin:]})
	}
	return spans
}

// visible reports whether a character can be seen where it is. Some letters and symbols are always blank.
func visible(r rune) bool {
	switch r {
	case '\u115f', '\u1160', '\u3164', '\uffa0', '\u2800', '\ufffc':
		return false
	}
	return unicode.IsPrint(r)
}

// cut returns the first bytes of a text, at most n of them and no part of a character, and whether it is longer.
func cut(text string, n int) (string, bool) {
	if len(text) <= n {
		return text, false
	}
	for back := 0; back < utf8.UTFMax && n > 0 && !utf8.RuneStart(text[n]); back++ {
		n--
	}
	return text[:n], true
}

// exactText is a text for the audit, which is JSON and so has only UTF-8. A byte that is not becomes a mark such as \xff.
func exactText(text string) string {
	if utf8.ValidString(text) {
		return text
	}
	var exact strings.Builder
	for _, s := range split(text, true) {
		exact.WriteString(s.Plain)
		exact.WriteString(s.Marks)
	}
	return exact.String()
}

// exactTexts is exactText for all values.
func exactTexts(values url.Values) url.Values {
	for _, texts := range values {
		for i := range texts {
			texts[i] = exactText(texts[i])
		}
	}
	return values
}
