package console

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// editable is a text for a field of a form. Browsers change line ends and remove some characters, and others cannot be seen, so these are
// written as marks such as ⟦U+202E⟧. The text must be UTF-8. fromEditable is the reverse.
func editable(text string) string {
	var out strings.Builder
	for _, r := range text {
		if r == '\n' || r == '\t' || r != '⟦' && r != '\ufffd' && visible(r) {
			out.WriteRune(r)
			continue
		}
		fmt.Fprintf(&out, "⟦U+%04X⟧", r)
	}
	return out.String()
}

var mark = regexp.MustCompile(`⟦U\+([0-9A-Fa-f]{4,6})⟧`)

// fromEditable is the text of a field. What only looks like a mark stays.
func fromEditable(field string) string {
	return mark.ReplaceAllStringFunc(typed(field), func(m string) string {
		code, err := strconv.ParseInt(mark.FindStringSubmatch(m)[1], 16, 32)
		if err != nil || code > 0x10ffff || code >= 0xd800 && code <= 0xdfff {
			return m
		}
		return string(rune(code))
	})
}
