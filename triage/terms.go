package triage

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// term is what messages are found by: a hash of a word, or of a field and its value. Terms are the same in all databases, which compare them
// and know nothing of text. They have 56 bits, so that two that are different are the same by chance about once in 10¹⁷ comparisons.
type term uint64

// kindOfTerm separates terms of different fields.
type kindOfTerm byte

const (
	termWord      kindOfTerm = 'w' // in any text of the message
	termErrorWord kindOfTerm = 'e'
	termHeader    kindOfTerm = 'h' // path and value
	termBody      kindOfTerm = 'b' // path and value
	termQueue     kindOfTerm = 'q'
	termKind      kindOfTerm = 'k'
	termKey       kindOfTerm = 'r'
	termKeyPrefix kindOfTerm = 'p' // up to a dot
	termExchange  kindOfTerm = 'x'
	termHost      kindOfTerm = 'o'
	termVersion   kindOfTerm = 'v'
	termID        kindOfTerm = 'i'
	termGroup     kindOfTerm = 'g' // the store adds it, because it depends on the grouping
)

func newTerm(kind kindOfTerm, parts ...string) term { return knownTerms(nil).term(kind, parts...) }

// knownTerms are terms that were computed before: most words are in many messages, and to find their terms here takes a fraction of
// the time. Nil: none are kept.
type knownTerms map[string]term

// Bounds of knownTerms.
const (
	maxKnown     = 4096
	maxKnownSize = 64 // bytes
)

func (k knownTerms) term(kind kindOfTerm, parts ...string) term {
	var space [128]byte
	buffer := append(space[:0], byte(kind))
	for _, part := range parts {
		buffer = binary.AppendUvarint(buffer, uint64(len(part)))
		buffer = append(buffer, part...)
	}
	if t, ok := k[string(buffer)]; ok {
		return t
	}
	sum := sha256.Sum256(buffer)
	t := term(binary.BigEndian.Uint64(sum[:8]) >> 8)
	if k != nil && len(buffer) <= maxKnownSize {
		if len(k) >= maxKnown {
			clear(k)
		}
		k[string(buffer)] = t
	}
	return t
}

// appendCompact writes a term as a word of 8 bytes beyond ASCII, all of which SQLite takes for letters. Most terms are in few messages, so the
// size of the words is most of the size of the index.
func (t term) appendCompact(out []byte) []byte {
	for shift := 49; shift >= 0; shift -= 7 {
		out = append(out, 0x80|byte(t>>shift&0x7f))
	}
	return out
}

// Bounds of what is indexed of a message, so that one message cannot fill the index.
const (
	maxText  = 256 << 10 // bytes of the body, and of each other text
	maxTerms = 4096
)

// termSet collects the terms of a message.
type termSet struct {
	terms map[term]struct{}
	full  bool // some are missing
}

func (s *termSet) add(t term) bool {
	if _, known := s.terms[t]; known {
		return true
	}
	if len(s.terms) >= maxTerms {
		s.full = true
		return false
	}
	s.terms[t] = struct{}{}
	return true
}

func (s *termSet) has(t term) bool {
	_, ok := s.terms[t]
	return ok
}

// sortedWith are the terms, and one more, in a fixed order.
func (s *termSet) sortedWith(one term) []term {
	all := make([]term, 0, len(s.terms)+1)
	for t := range s.terms {
		all = append(all, t)
	}
	if !s.has(one) {
		all = append(all, one)
	}
	slices.Sort(all)
	return all
}

// termsOf are the terms of a message. If it has too many, the fields and headers come first, then the body from its beginning.
func termsOf(m *Message, known knownTerms) *termSet {
	s := &termSet{terms: make(map[term]struct{}, 128)}
	for _, field := range [...]struct {
		kind kindOfTerm
		text string
	}{{termQueue, m.Queue}, {termKind, m.Kind}, {termKey, m.Key}, {termExchange, m.Exchange}, {termHost, m.Host}, {termVersion, m.Version}, {termID, m.ID}} {
		s.add(known.term(field.kind, field.text))
	}
	for i := range len(m.Key) {
		if m.Key[i] == '.' {
			s.add(known.term(termKeyPrefix, m.Key[:i+1]))
		}
	}
	addWords := func(kind kindOfTerm) func(word) bool {
		var before word
		return func(w word) bool {
			ok := s.add(known.term(kind, w.text))
			if ok && w.joined && before.single {
				ok = s.add(known.term(kind, before.text+w.text))
			}
			before = w
			return ok
		}
	}
	eachWord(bounded(m.Error, s), addWords(termErrorWord))
	eachHeader(m.Headers, func(path, text, number string) {
		s.add(known.value(termHeader, path, text, number))
	})
	eachText(m, func(text string) { eachWord(bounded(text, s), addWords(termWord)) })
	whole := eachBodyWord(m.Body, addWords(termWord), func(path, text, number string) {
		s.add(known.value(termBody, path, text, number))
	})
	s.full = s.full || !whole
	return s
}

// bounded is the beginning of a text, which makes the terms partial if there is more.
func bounded(text string, s *termSet) string {
	if len(text) <= maxText {
		return text
	}
	if s != nil {
		s.full = true
	}
	end := maxText
	for end > maxText-utf8.UTFMax && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end]
}

// value is the term of a field's value: of a number, if it is one, or of a text.
func (k knownTerms) value(kind kindOfTerm, path, text, number string) term {
	if number != "" {
		return k.term(kind, path, "number", number)
	}
	return k.term(kind, path, "text", fold(text))
}

// eachText shows the texts of a message other than its body.
func eachText(m *Message, show func(text string)) {
	for _, text := range []string{m.ID, m.Queue, m.Exchange, m.Key, m.Error, m.Kind, m.Host, m.Version, m.CorrelationID, m.Type, m.AppID} {
		show(text)
	}
	eachHeader(m.Headers, func(path, text, number string) {
		show(path)
		show(text)
	})
}

// eachHeader shows the values of headers in the order of their names. The names of nested tables are joined by dots; the values of a list have the
// name of the list. Number is set if the value is one, and text is how it is written.
func eachHeader(headers map[string]any, show func(path, text, number string)) {
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		eachHeaderValue(fold(name), headers[name], 0, show)
	}
}

// maxHeaderDepth is deeper than any table that can be sent.
const maxHeaderDepth = 32

func eachHeaderValue(path string, value any, depth int, show func(path, text, number string)) {
	if depth > maxHeaderDepth {
		return
	}
	switch v := value.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			eachHeaderValue(path+"."+fold(name), v[name], depth+1, show)
		}
		return
	case []any:
		for _, inner := range v {
			eachHeaderValue(path, inner, depth+1, show)
		}
		return
	case []string:
		for _, inner := range v {
			show(path, inner, "")
		}
		return
	}
	text := headerText(value)
	number := ""
	switch value.(type) {
	case string, []byte, bool, nil, time.Time:
	default:
		number, _ = canonicalNumber(text)
	}
	show(path, text, number)
}

// headerText is a value of a header as text.
func headerText(value any) string {
	switch v := value.(type) {
	case nil:
		return "null"
	case string:
		return v
	case []byte:
		return string(v)
	case time.Time:
		return v.UTC().Format(time.RFC3339)
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64)
	case float32:
		return strconv.FormatFloat(float64(v), 'g', -1, 32)
	}
	return fmt.Sprint(value)
}

// maybeJSON reports whether a body begins like an object or an array.
func maybeJSON(body []byte) bool {
	body = bytes.TrimLeft(body, " \t\r\n")
	return len(body) > 0 && (body[0] == '{' || body[0] == '[')
}

func jsonPath(path []step) string {
	if len(path) == 1 && path[0].index < 0 {
		return fold(path[0].name)
	}
	var out strings.Builder
	for _, s := range path {
		if s.index >= 0 {
			continue
		}
		if out.Len() > 0 {
			out.WriteByte('.')
		}
		out.WriteString(fold(s.name))
	}
	return out.String()
}

// eachBodyWord shows the words of a body, up to maxText bytes. Those of JSON are the words of its names and values, in their order. Before
// the words, value shows the values of JSON by their path, if it is not nil: names joined by dots, without places in arrays. A name with a
// dot in it is shown like two.
func eachBodyWord(body []byte, more func(word) bool, value func(path, text, number string)) (whole bool) {
	text := bounded(string(body[:min(len(body), maxText+1)]), nil)
	whole = len(text) == len(body)
	if maybeJSON(body) {
		words := make([]word, 0, 64)
		collect := func(text string) {
			eachWord(text, func(w word) bool { words = append(words, w); return true })
		}
		end, err := walkJSON(text, collect, func(v jsonValue) error {
			if v.isContainer() {
				return nil
			}
			inner, number := text[v.start:v.end], ""
			switch v.kind {
			case '"':
				inner, _ = unquote(inner)
			case '0':
				number, _ = canonicalNumber(inner)
			}
			if collect(inner); value != nil {
				value(jsonPath(v.path), inner, number)
			}
			return nil
		})
		if err == nil || !whole && end == len(text) { // it is JSON, or the beginning of it
			for _, w := range words {
				if !more(w) {
					break
				}
			}
			return whole
		}
	}
	eachWord(text, more)
	return whole
}
