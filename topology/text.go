package topology

import (
	"strings"
	"unicode"
)

// printable is a name as it can be drawn: what cannot be seen, or turns the direction of writing, is replaced.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, s)
}

// short is a text of at most n characters; the middle of a longer one is left out, because names often
// differ at their end.
func short(s string, n int) string {
	r := []rune(s)
	if len(r) <= n {
		return s
	}
	tail := n / 3
	return string(r[:n-tail-1]) + "…" + string(r[len(r)-tail:])
}

// signs is how many places of a fixed-width font a text takes.
func signs(s string) int {
	const firstWide = 0x2e80 // ideographs and what comes after them are twice as wide
	n := 0
	for _, r := range s {
		n++
		if r >= firstWide {
			n++
		}
	}
	return n
}
