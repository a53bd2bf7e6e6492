package triage

import (
	"net/netip"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Bounds of a text that is normalized, in bytes: what comes later does not distinguish causes.
const (
	maxNormalized = 2 << 10
	maxQuoted     = 500
)

// Normalize removes what differs between errors of the same cause from the text of an error: numbers, ids, hexadecimal and quoted text,
// addresses and times.
func Normalize(text string) string {
	if len(text) > maxNormalized {
		text = text[:maxNormalized]
	}
	var out strings.Builder
	before := ' '
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		switch {
		case unicode.IsSpace(r):
			if before != ' ' {
				out.WriteByte(' ')
			}
			before = ' '
			text = text[size:]
			continue
		case isQuote(r, before):
			if n := quoted(text, r, size); n > 0 {
				out.WriteString(`"…"`)
				text, before = text[n:], '"'
				continue
			}
			fallthrough
		case isBracket(r):
			if n := bracketed(text); n > 0 {
				out.WriteString("<address>")
				text, before = text[n:], '>'
				continue
			}
			out.WriteRune(r)
			text = text[size:]
		default:
			n := chunkEnd(text)
			out.WriteString(normalizeChunk(text[:n]))
			r, _ = utf8.DecodeLastRuneInString(text[:n])
			text = text[n:]
		}
		before = r
	}
	return strings.TrimSpace(out.String())
}

// isQuote reports whether a character opens quoted text. An apostrophe in a word does not.
func isQuote(r, before rune) bool {
	switch r {
	case '"', '`', '“', '«':
		return true
	case '\'', '‘':
		return !unicode.IsLetter(before) && !unicode.IsDigit(before)
	}
	return false
}

// quoted is the length of the quoted text at the beginning of a text, or 0 if the quote is not closed.
func quoted(text string, open rune, size int) int {
	closing := open
	switch open {
	case '“':
		closing = '”'
	case '«':
		closing = '»'
	case '‘':
		closing = '’'
	}
	escaped := false
	for i, r := range text[size:min(len(text), maxQuoted)] {
		switch {
		case escaped:
			escaped = false
		case r == '\\':
			escaped = true
		case r == closing:
			return size + i + utf8.RuneLen(r)
		}
	}
	return 0
}

func isBracket(r rune) bool { return strings.ContainsRune("()[]{}<>,;=|", r) }

// chunkEnd is the length of the text up to the next space, bracket or quote. A URL may have brackets in it.
func chunkEnd(text string) int {
	inURL := false
	for i, r := range text {
		inURL = inURL || r == '/' && strings.HasPrefix(text[i:], "//") && i > 0 && text[i-1] == ':'
		if i > 0 && (unicode.IsSpace(r) || isBracket(r) && (!inURL || r == ')' || r == '>') || r == '"' || r == '`' || r == '“' || r == '«') {
			return i
		}
	}
	return len(text)
}

// bracketed is the length of an IPv6 address with a port, such as [::1]:5672, at the beginning of a text, or 0.
func bracketed(text string) int {
	closing := strings.IndexByte(text, ']')
	if text[0] != '[' || closing < 0 || !strings.HasPrefix(text[closing:], "]:") {
		return 0
	}
	if _, err := netip.ParseAddr(text[1:closing]); err != nil {
		return 0
	}
	end := closing + 2
	for end < len(text) && text[end] >= '0' && text[end] <= '9' {
		end++
	}
	return end
}

// normalizeChunk replaces a piece of text without spaces.
func normalizeChunk(chunk string) string {
	if !strings.ContainsAny(chunk, "0123456789:@/-") && len(chunk) < 16 {
		return chunk
	}
	trimmed := strings.TrimRight(chunk, ".:!?'…")
	end := chunk[len(trimmed):]
	if trimmed == "" {
		return chunk
	}
	if kind := kindOf(trimmed); kind != "" {
		return kind + end
	}
	return withoutNumbers(trimmed) + end
}

// kindOf is what stands for a piece of text that is one value as a whole, or nothing.
func kindOf(text string) string {
	switch {
	case strings.Contains(text, "://"), strings.IndexByte(text, '@') > 0:
		return "<address>"
	case isUUID(text):
		return "<id>"
	case isHex(text):
		return "<hex>"
	}
	if _, err := time.ParseDuration(text); err == nil && text != "0" {
		return "<time>"
	}
	if isTime(text) {
		return "<time>"
	}
	if _, err := netip.ParseAddr(text); err == nil {
		return "<address>"
	}
	if host, port, ok := cutLast(text, ':'); ok && isDigits(port) && (strings.ContainsAny(host, ".:") || host == "localhost") {
		return "<address>"
	}
	if isToken(text) {
		return "<id>"
	}
	return ""
}

func cutLast(text string, at byte) (before, after string, ok bool) {
	i := strings.LastIndexByte(text, at)
	if i < 0 {
		return text, "", false
	}
	return text[:i], text[i+1:], true
}

func isDigits(text string) bool {
	return text != "" && strings.IndexFunc(text, func(r rune) bool { return r < '0' || r > '9' }) < 0
}

func isUUID(text string) bool {
	if len(text) != 36 {
		return false
	}
	for i := range len(text) {
		switch i {
		case 8, 13, 18, 23:
			if text[i] != '-' {
				return false
			}
		default:
			if !isHexDigit(text[i]) {
				return false
			}
		}
	}
	return true
}

func isHexDigit(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

// isHex reports whether a text is a hexadecimal number, and not a word: it begins with 0x, or is long and has a digit.
func isHex(text string) bool {
	digits, prefixed := strings.CutPrefix(strings.ToLower(text), "0x")
	if digits == "" || !prefixed && (len(digits) < 8 || !strings.ContainsAny(digits, "0123456789") || isDigits(digits)) {
		return false
	}
	for i := range len(digits) {
		if !isHexDigit(digits[i]) {
			return false
		}
	}
	return true
}

// isTime reports whether a text looks like a date or a time of day: groups of digits with two hyphens, slashes or colons between them, and
// maybe a zone.
func isTime(text string) bool {
	separators := 0
	for i, r := range text {
		switch {
		case r >= '0' && r <= '9':
		case r == '-' || r == ':' || r == '/' || r == '.':
			if r != '.' {
				separators++
			}
			if i == 0 {
				return false
			}
		case r == 'T' || r == 'Z' || r == '+':
			if i == 0 || text[i-1] < '0' || text[i-1] > '9' {
				return false
			}
		default:
			return false
		}
	}
	return separators >= 2
}

// isToken reports whether a text looks like a generated id: long, with letters and several digits, and nothing else.
func isToken(text string) bool {
	if len(text) < 16 {
		return false
	}
	letters, digits := 0, 0
	for _, r := range text {
		switch {
		case r >= '0' && r <= '9':
			digits++
		case r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r == '_':
			letters++
		default:
			return false
		}
	}
	return digits >= 3 && letters > 0
}

// withoutNumbers replaces numbers, and parts that are values of their own.
func withoutNumbers(text string) string {
	var out strings.Builder
	part := func(p string) {
		switch {
		case isHex(p):
			out.WriteString("<hex>")
		case isToken(p):
			out.WriteString("<id>")
		default:
			inNumber := false
			for i := range len(p) {
				digit := p[i] >= '0' && p[i] <= '9'
				if digit && !inNumber {
					out.WriteString("<n>")
				}
				if !digit {
					out.WriteByte(p[i])
				}
				inNumber = digit
			}
		}
	}
	from := 0
	for i := range len(text) {
		if strings.IndexByte("-_./:#@+&%*'", text[i]) >= 0 {
			part(text[from:i])
			out.WriteByte(text[i])
			from = i + 1
		}
	}
	part(text[from:])
	return strings.ReplaceAll(out.String(), "<n>.<n>", "<n>") // one number, whether it has a fraction or not
}
