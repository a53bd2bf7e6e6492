package jsonobject

import (
	"bytes"
	"encoding/json"
	"iter"
	"slices"
)

// place is where a member of a JSON object stands in its text.
type place struct {
	name  int // the quote at which its name begins
	value int // where its value begins
	end   int // and where that has ended
}

// Is reports whether body is a JSON object.
func Is(body []byte) bool {
	at := skipBlanks(body, 0)
	return at < len(body) && body[at] == '{' && json.Valid(body)
}

// members are those of a valid object, in order. They are not collected: there may be megabytes of them.
func members(object []byte) iter.Seq[place] {
	return func(yield func(place) bool) {
		for at := skipBlanks(object, 0); object[at] != '}'; {
			m := place{name: skipBlanks(object, at+1)} // past the brace, or the comma
			if object[m.name] == '}' {
				return
			}
			colon := skipBlanks(object, skipString(object, m.name))
			m.value = skipBlanks(object, colon+1)
			m.end = skipValue(object, m.value)
			if !yield(m) {
				return
			}
			at = skipBlanks(object, m.end)
		}
	}
}

func skipBlanks(text []byte, at int) int {
	for at < len(text) && (text[at] == ' ' || text[at] == '\t' || text[at] == '\n' || text[at] == '\r') {
		at++
	}
	return at
}

func skipString(text []byte, at int) int {
	for at++; text[at] != '"'; at++ {
		if text[at] == '\\' {
			at++
		}
	}
	return at + 1
}

func skipValue(text []byte, at int) int {
	switch text[at] {
	case '"':
		return skipString(text, at)
	case '{', '[':
		return skipNested(text, at)
	}
	for {
		switch text[at] {
		case ',', '}', ' ', '\t', '\n', '\r':
			return at
		}
		at++
	}
}

func skipNested(text []byte, at int) int {
	for depth := 0; ; {
		switch text[at] {
		case '"':
			at = skipString(text, at)
			continue
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
		at++
		if depth == 0 {
			return at
		}
	}
}

// isNamed reports whether a member has the name, also if that is written with escapes.
func (m place) isNamed(object []byte, name string) bool {
	written := object[m.name:skipString(object, m.name)]
	if bytes.IndexByte(written, '\\') < 0 {
		return string(written[1:len(written)-1]) == name
	}
	var read string
	return json.Unmarshal(written, &read) == nil && read == name
}

// mayName reports, without parsing, whether body can have a member of the name. A letter can also be
// written as \u00 and two digits.
func mayName(body []byte, name string) bool {
	return bytes.Contains(body, []byte(name)) || bytes.Contains(body, []byte(`\u00`))
}

// Member is the value of a member of the object in body. Of several with the name the last counts.
func Member(body []byte, name string) (value []byte, ok bool) {
	if !mayName(body, name) || !Is(body) {
		return nil, false
	}
	for m := range members(body) {
		if m.isNamed(body, name) {
			value, ok = body[m.value:m.end], true
		}
	}
	return value, ok
}

// With is the object in body with a member set, whose name needs no escapes; nil if body is not an object.
func With(body []byte, name string, value []byte) []byte {
	if !Is(body) {
		return nil
	}
	if _, has := Member(body, name); !has {
		added := append(append([]byte{'"'}, name...), `":`...)
		return edited(body, func(m place) ([]byte, bool) { return body[m.value:m.end], true }, append(added, value...))
	}
	set := false
	return edited(body, func(m place) ([]byte, bool) {
		if !m.isNamed(body, name) {
			return body[m.value:m.end], true
		}
		again := set
		set = true
		return value, !again
	}, nil)
}

// Without is the object in body without the members of these names; body itself if there are none.
func Without(body []byte, names ...string) []byte {
	if !slices.ContainsFunc(names, func(name string) bool {
		_, has := Member(body, name)
		return has
	}) {
		return body
	}
	return edited(body, func(m place) ([]byte, bool) {
		drop := slices.ContainsFunc(names, func(name string) bool { return m.isNamed(body, name) })
		return body[m.value:m.end], !drop
	}, nil)
}

// edited is an object with the values that decide returns for its members, without those that it drops,
// and with added at the end. All other bytes stay unchanged, blanks too: dropping what was added
// restores the object, byte for byte.
func edited(object []byte, decide func(place) (value []byte, keep bool), added []byte) []byte {
	out := make([]byte, 0, len(object)+len(added)+1)
	inner := bytes.IndexByte(object, '{') + 1
	behind := inner // the end of the member before
	kept := false
	for m := range members(object) {
		if behind == inner {
			out = append(out, object[:m.name]...)
		}
		if value, keep := decide(m); keep {
			if kept {
				out = append(out, object[behind:m.name]...)
			}
			out = append(append(out, object[m.name:m.value]...), value...)
			kept = true
		}
		behind = m.end
	}
	if behind == inner {
		out = append(out, object[:inner]...)
	}
	if kept && added != nil {
		out = append(out, ',')
	}
	return append(append(out, added...), object[behind:]...)
}
