package layouts

import (
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// readRuby reads a value as Ruby's inspect shows it, as in {:content_type=>"text/plain", :headers=>{"n"=>1}}, which
// Ruby 3.4 shows as {content_type: "text/plain", headers: {"n" => 1}}. Symbols become text. Values of other
// classes are not read, and with them nothing is.
func readRuby(text string) (any, bool) {
	r := rubyReader{rest: text}
	v, ok := r.value(0)
	return v, ok && strings.TrimSpace(r.rest) == ""
}

// rubyReader reads a text from its beginning; rest is what follows.
type rubyReader struct{ rest string }

// maxRubyDepth is how deep values may be nested.
const maxRubyDepth = 100

// take skips a token, and blanks before it, if it comes next.
func (r *rubyReader) take(token string) bool {
	rest, ok := strings.CutPrefix(strings.TrimLeft(r.rest, " "), token)
	if ok {
		r.rest = rest
	}
	return ok
}

func (r *rubyReader) value(depth int) (any, bool) {
	if depth > maxRubyDepth {
		return nil, false
	}
	switch {
	case r.take("{"):
		return r.hash(depth)
	case r.take("["):
		return r.array(depth)
	case r.take(`:"`), r.take(`"`):
		return r.text()
	case r.take(":"):
		return r.word(), true
	}
	switch word := r.word(); word {
	case "nil":
		return nil, true
	case "true", "false":
		return word == "true", true
	default:
		return r.number(word)
	}
}

func (r *rubyReader) hash(depth int) (any, bool) {
	hash := make(map[string]any)
	if r.take("}") {
		return hash, true
	}
	for {
		name, ok := r.name()
		if !ok {
			return nil, false
		}
		value, ok := r.value(depth + 1)
		if !ok {
			return nil, false
		}
		hash[name] = value
		if r.take("}") {
			return hash, true
		}
		if !r.take(",") {
			return nil, false
		}
	}
}

// name is what precedes a value in a hash: a symbol or text with an arrow, or a symbol with a colon.
func (r *rubyReader) name() (string, bool) {
	var name string
	switch {
	case r.take(`:"`), r.take(`"`):
		text, ok := r.text()
		if !ok {
			return "", false
		}
		name, _ = text.(string)
	default:
		r.take(":")
		name = r.word()
	}
	return name, r.take("=>") || r.take(":")
}

func (r *rubyReader) array(depth int) (any, bool) {
	array := []any{}
	if r.take("]") {
		return array, true
	}
	for {
		value, ok := r.value(depth + 1)
		if !ok {
			return nil, false
		}
		array = append(array, value)
		if r.take("]") {
			return array, true
		}
		if !r.take(",") {
			return nil, false
		}
	}
}

// word is a symbol, a number or a constant.
func (r *rubyReader) word() string {
	r.rest = strings.TrimLeft(r.rest, " ")
	end := strings.IndexFunc(r.rest, func(c rune) bool { return strings.ContainsRune(" ,:=>{}[]\"", c) })
	if end < 0 {
		end = len(r.rest)
	}
	word := r.rest[:end]
	r.rest = r.rest[end:]
	return word
}

// number is a number, or a time, which begins like one and has blanks and colons.
func (r *rubyReader) number(word string) (any, bool) {
	if n, err := strconv.ParseInt(word, 10, 64); err == nil {
		return n, true
	}
	if f, err := strconv.ParseFloat(word, 64); err == nil {
		return f, true
	}
	end := strings.IndexAny(r.rest, ",}]")
	if end < 0 {
		end = len(r.rest)
	}
	shown := word + r.rest[:end]
	for _, form := range []string{"2006-01-02 15:04:05 MST", "2006-01-02 15:04:05 -0700"} {
		if t, err := time.Parse(form, shown); err == nil {
			r.rest = r.rest[end:]
			return t, true
		}
	}
	return nil, false
}

// text is what comes up to the closing quote.
func (r *rubyReader) text() (any, bool) {
	var out strings.Builder
	for {
		end := strings.IndexAny(r.rest, `"\`)
		if end < 0 {
			return nil, false
		}
		out.WriteString(r.rest[:end])
		closed := r.rest[end] == '"'
		r.rest = r.rest[end+1:]
		if closed {
			return out.String(), true
		}
		if r.rest == "" || !r.escape(&out) {
			return nil, false
		}
	}
}

// escape reads what comes behind a backslash.
func (r *rubyReader) escape(out *strings.Builder) bool {
	c := r.rest[0]
	r.rest = r.rest[1:]
	switch c {
	case 'x':
		n, ok := r.hex(2)
		out.WriteByte(byte(n))
		return ok
	case 'u':
		return r.unicode(out)
	}
	if i := strings.IndexByte("ntreabfv", c); i >= 0 {
		c = "\n\t\r\x1b\a\b\f\v"[i]
	}
	out.WriteByte(c)
	return true
}

// unicode reads \u with four digits, or with more in braces.
func (r *rubyReader) unicode(out *strings.Builder) bool {
	digits, braced := 4, strings.HasPrefix(r.rest, "{")
	if braced {
		r.rest = r.rest[1:]
		digits = strings.IndexByte(r.rest, '}')
	}
	n, ok := r.hex(digits)
	if !ok || !utf8.ValidRune(rune(n)) {
		return false
	}
	if braced {
		r.rest = r.rest[1:]
	}
	out.WriteRune(rune(n))
	return true
}

func (r *rubyReader) hex(digits int) (uint64, bool) {
	if digits < 1 || digits > len(r.rest) {
		return 0, false
	}
	n, err := strconv.ParseUint(r.rest[:digits], 16, 32)
	r.rest = r.rest[digits:]
	return n, err == nil
}
