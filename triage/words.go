package triage

import (
	"unicode"
	"unicode/utf8"
)

// word is a word of a text in the form in which words are compared. Text in scripts that have no spaces between words is cut into single
// characters.
type word struct {
	text   string
	single bool // one character of a script without spaces
	joined bool // no space is between it and the one before
}

// shortest is how many letters or digits a word of a body that is not text must have: fewer are there by chance.
const shortest = 4

// eachWord shows the words of a text until more returns false.
func eachWord(text string, more func(word) bool) {
	if !utf8.ValidString(text) {
		eachPrintable(text, more)
		return
	}
	joined := false
	for at := 0; at < len(text); {
		if n := uuidAt(text, at); n > 0 {
			if !more(word{text: fold(text[at : at+n])}) {
				return
			}
			at, joined = at+n, false
			continue
		}
		r, size := utf8.DecodeRuneInString(text[at:])
		switch {
		case isSpaceless(r):
			if !more(word{text: fold(text[at : at+size]), single: true, joined: joined}) {
				return
			}
			at, joined = at+size, true
		case isWordRune(r):
			end := at + size
			for end < len(text) {
				r, size := utf8.DecodeRuneInString(text[end:])
				if !isWordRune(r) || isSpaceless(r) {
					break
				}
				end += size
			}
			if !more(word{text: fold(text[at:end])}) {
				return
			}
			at, joined = end, false
		default:
			at, joined = at+size, false
		}
	}
}

// eachPrintable shows the words in ASCII of bytes that are not text.
func eachPrintable(data string, more func(word) bool) {
	start := 0
	for at := 0; at <= len(data); at++ {
		if at < len(data) && data[at] < utf8.RuneSelf && isWordRune(rune(data[at])) {
			continue
		}
		if at-start >= shortest && !more(word{text: fold(data[start:at])}) {
			return
		}
		start = at + 1
	}
}

// uuidAt is the length of a UUID at a place of a text, or 0. It is one word: its parts would be found by nobody, and cost space.
func uuidAt(text string, at int) int {
	const size = 36
	if len(text)-at < size || !isHexDigit(text[at]) || text[at+8] != '-' || !isUUID(text[at:at+size]) {
		return 0
	}
	if after, _ := utf8.DecodeRuneInString(text[at+size:]); len(text) > at+size && isWordRune(after) {
		return 0
	}
	return size
}

func isWordRune(r rune) bool {
	if r < utf8.RuneSelf {
		return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
	}
	return unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.IsMark(r)
}

// isSpaceless reports whether a character belongs to a script that is written without spaces, or in which words have endings that nobody
// searches for.
func isSpaceless(r rune) bool {
	const prolonged = 'ー' // belongs to no script alone
	return r >= 0x0E00 && (r == prolonged || unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar))
}

// fold is a text in which letters that differ in case only are the same.
func fold(text string) string {
	for i := range len(text) {
		if c := text[i]; c >= utf8.RuneSelf || 'A' <= c && c <= 'Z' {
			return foldFrom(text, i)
		}
	}
	return text
}

func foldFrom(text string, from int) string {
	out := make([]byte, from, len(text)+8)
	copy(out, text[:from])
	for _, r := range text[from:] {
		if r < utf8.RuneSelf {
			if 'A' <= r && r <= 'Z' {
				r += 'a' - 'A'
			}
			out = append(out, byte(r))
			continue
		}
		out = utf8.AppendRune(out, unicode.ToLower(unicode.ToUpper(r)))
	}
	return string(out)
}
