package triage

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// MaskRules are what must not be shown of messages.
type MaskRules struct {
	// Headers are names of headers, in upper or lower case, also in nested tables. A * at the end matches any rest.
	Headers []string
	// Paths are values in bodies that are JSON: names with dots between them, in upper or lower case, such as "customer.email". A * is any
	// name or any place in an array, and ** is any number of them: "**.password". Arrays need no part of their own. With a path, a body
	// that is not one JSON value is masked whole, and so is a string in it that may have JSON in it: one that has a {, or begins with a [.
	Paths []string
	// Texts are regular expressions. What they match is masked in bodies, errors, stacks, the id, the routing key and the other properties
	// of a message; a header is masked whole if they match in its name or its value. With a text, a body that is not UTF-8 is masked whole.
	// They also match what is written with escapes of JSON, such as \u0040: then the string of JSON, or a text that is not JSON, is masked
	// whole. Names of queues are not masked.
	Texts []string
}

// Mask hides values of messages. It is safe for concurrent use.
type Mask struct {
	headers []string
	paths   [][]string
	texts   []*regexp.Regexp
}

// Masked stands for a header that is masked. In bodies a number follows: "[masked 1]".
const Masked = "[masked]"

// maxPathParts is how many parts a path may have.
const maxPathParts = 60

// NewMask checks rules, and returns the mask. All that is wrong is in the error.
func NewMask(rules MaskRules) (*Mask, error) {
	m := &Mask{}
	var faults []error
	for _, name := range rules.Headers {
		if name == "" || strings.Contains(strings.TrimSuffix(name, "*"), "*") {
			faults = append(faults, fmt.Errorf("header %q: write a name, with a * at the end at most", name))
		}
		m.headers = append(m.headers, fold(name))
	}
	for _, path := range rules.Paths {
		parts := strings.Split(fold(path), ".")
		if slices.Contains(parts, "") || len(parts) > maxPathParts {
			faults = append(faults, fmt.Errorf("path %q: write up to %d names with dots between them", path, maxPathParts))
		}
		m.paths = append(m.paths, parts)
	}
	for _, text := range rules.Texts {
		expression, err := regexp.Compile(text)
		if err != nil {
			faults = append(faults, fmt.Errorf("text %q: %w", text, err))
			continue
		}
		m.texts = append(m.texts, expression)
	}
	if len(faults) > 0 {
		return nil, fmt.Errorf("triage: mask: %w", errors.Join(faults...))
	}
	return m, nil
}

// Apply returns a message without what must not be shown. It does not change the one that it gets. A body that it cannot look into, such as a
// compressed one, it masks whole if a rule could apply to it.
func (m *Mask) Apply(message Message) Message {
	message.Headers, _ = m.headersOf(message.Headers)
	body := &maskedBody{mark: markFor(message.Body), spans: m.spans(&message)}
	message.Body = body.hide(message.Body)
	for _, text := range message.texts() {
		*text = m.Text(*text)
	}
	return message
}

// texts are the texts of a message that are shown and do not name anything in the index or on the broker.
func (m *Message) texts() []*string {
	return []*string{&m.ID, &m.Exchange, &m.Key, &m.ContentType, &m.ContentEncoding, &m.CorrelationID, &m.ReplyTo, &m.Type, &m.AppID, &m.Kind, &m.Error, &m.Stack, &m.Host, &m.Version}
}

// Text returns a text, such as the title or the sample of a group, without what must not be shown. Of an error that its subscriber has cut, the last 256
// bytes are masked, too: they may be the beginning of what a rule would match.
func (m *Mask) Text(text string) string {
	if len(m.texts) == 0 {
		return text
	}
	var all []span
	for _, expression := range m.texts {
		for _, found := range expression.FindAllStringIndex(text, -1) {
			all = append(all, span{start: found[0], end: found[1]})
		}
	}
	if kept, isCut := strings.CutSuffix(text, cutMark); isCut {
		start := max(0, len(kept)-cutTail)
		for start > 0 && !utf8.RuneStart(text[start]) {
			start--
		}
		all = append(all, span{start: start, end: len(kept)})
	}
	var shown strings.Builder
	at := 0
	for _, s := range merge(all) {
		if s.start < s.end {
			shown.WriteString(text[at:s.start])
			shown.WriteString(Masked)
			at = s.end
		}
	}
	shown.WriteString(text[at:])
	if m.matchesEscaped(shown.String()) {
		return Masked
	}
	return shown.String()
}

const (
	cutMark = "… (cut)" // with which a subscriber ends the text of an error that is too long
	cutTail = 256
)

// headersOf masks headers, and reports whether anything was masked.
func (m *Mask) headersOf(headers map[string]any) (shown map[string]any, masked bool) {
	if headers == nil {
		return nil, false
	}
	shown = make(map[string]any, len(headers))
	names := m.hiddenNames(headers)
	for name, value := range headers {
		if as, hidden := names[name]; hidden {
			shown[as], masked = Masked, true
			continue
		}
		var hidden bool
		shown[name], hidden = m.header(name, value)
		masked = masked || hidden
	}
	return shown, masked
}

// hiddenNames are the names of headers that are masked, and what stands for each.
func (m *Mask) hiddenNames(headers map[string]any) map[string]string {
	var hidden []string
	mark := "[masked"
	for name := range headers {
		if m.matchesText(name) {
			hidden = append(hidden, name)
		}
		for strings.Contains(name, mark) {
			mark += "*"
		}
	}
	slices.Sort(hidden)
	shown := make(map[string]string, len(hidden))
	for i, name := range hidden {
		shown[name] = mark + " " + strconv.Itoa(i+1) + "]"
	}
	return shown
}

// matchesText reports whether a regular expression matches in a text, also if that is written with escapes.
func (m *Mask) matchesText(text string) bool { return m.matchesPlain(text) || m.matchesEscaped(text) }

func (m *Mask) matchesPlain(text string) bool {
	return slices.ContainsFunc(m.texts, func(expression *regexp.Regexp) bool { return expression.MatchString(text) })
}

// maxEscaped is how often the escapes of a text are resolved.
const maxEscaped = 10

// matchesEscaped reports whether a regular expression matches in a text when the escapes in it are resolved, as often as there are some: JSON can be a
// string in other JSON. It reports true if that has no end.
func (m *Mask) matchesEscaped(text string) bool {
	for range maxEscaped {
		if len(m.texts) == 0 || !strings.Contains(text, `\`) {
			return false
		}
		plain := unescape(text)
		if plain == text {
			return false
		}
		if text = plain; m.matchesPlain(text) {
			return true
		}
	}
	return true
}

// escapes are those of JSON that stand for one character. Other programs write the same.
var escapes = map[byte]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// unescape resolves the escapes of JSON in a text, which need not be JSON. What is not such an escape stays.
func unescape(text string) string {
	var plain strings.Builder
	for {
		at := strings.IndexByte(text, '\\')
		if at < 0 || at+1 == len(text) {
			plain.WriteString(text)
			return plain.String()
		}
		plain.WriteString(text[:at])
		if c, known := escapes[text[at+1]]; known {
			plain.WriteByte(c)
			text = text[at+2:]
			continue
		}
		unit, rest, ok := codeUnit(text[at:])
		if !ok {
			plain.WriteByte('\\')
			text = text[at+1:]
			continue
		}
		if low, after, ok := codeUnit(rest); ok && utf16.IsSurrogate(unit) && utf16.DecodeRune(unit, low) != utf8.RuneError {
			unit, rest = utf16.DecodeRune(unit, low), after
		}
		plain.WriteRune(unit)
		text = rest
	}
}

// codeUnit reads an escape such as \u0040 at the beginning of a text, and returns what follows it.
func codeUnit(text string) (unit rune, rest string, ok bool) {
	if len(text) < 6 || text[:2] != `\u` {
		return 0, text, false
	}
	n, err := strconv.ParseUint(text[2:6], 16, 16)
	return rune(n), text[6:], err == nil
}

func (m *Mask) header(name string, value any) (shown any, masked bool) {
	if m.hidesName(name) {
		return Masked, true
	}
	switch v := value.(type) {
	case map[string]any:
		return m.headersOf(v)
	case []any:
		list := make([]any, len(v))
		for i, one := range v {
			var hidden bool
			list[i], hidden = m.header("", one)
			masked = masked || hidden
		}
		return list, masked
	case []string:
		list := make([]any, len(v))
		for i, one := range v {
			list[i] = one
		}
		if shown, masked = m.header("", list); masked {
			return shown, true
		}
		return v, false
	}
	if m.matchesText(headerText(value)) {
		return Masked, true
	}
	return value, false
}

func (m *Mask) hidesName(name string) bool {
	name = fold(name)
	return slices.ContainsFunc(m.headers, func(rule string) bool {
		begin, open := strings.CutSuffix(rule, "*")
		return name != "" && (name == rule || open && strings.HasPrefix(name, begin))
	})
}

// span is a part of a body that is masked.
type span struct {
	start, end int
	value      bool // it is a whole value of JSON
}

// spans are the parts of a body that are masked, in their order, none of which overlap.
func (m *Mask) spans(message *Message) []span {
	body := message.Body
	if len(body) == 0 || len(m.paths)+len(m.texts) == 0 {
		return nil
	}
	whole := []span{{0, len(body), false}}
	if encoding := strings.ToLower(message.ContentEncoding); encoding != "" && encoding != "identity" && encoding != "utf-8" {
		return whole
	}
	if len(m.texts) > 0 && !utf8.Valid(body) {
		return whole
	}
	var all []span
	text := string(body)
	_, err := walkJSON(text, nil, func(v jsonValue) error {
		if m.hidesPath(v.path) || v.kind == '"' && len(m.paths) > 0 && mayBeJSON(text[v.start:v.end]) {
			all = append(all, span{v.start, v.end, true})
		}
		return nil
	})
	if err != nil && len(m.paths) > 0 {
		return whole
	}
	for _, expression := range m.texts {
		for _, found := range expression.FindAllIndex(body, -1) {
			if found[0] < found[1] {
				all = append(all, span{found[0], found[1], false})
			}
		}
	}
	if err == nil {
		return merge(append(all, m.escaped(body)...))
	}
	all = merge(all)
	shown := &maskedBody{mark: markFor(body), spans: all}
	if m.matchesEscaped(string(shown.hide(body))) { // nobody knows where a string begins and ends
		return whole
	}
	return all
}

// escaped are the strings of JSON, names and values, that are written with escapes and in which a regular expression matches.
func (m *Mask) escaped(body []byte) (all []span) {
	if len(m.texts) == 0 || bytes.IndexByte(body, '\\') < 0 {
		return nil
	}
	for at := 0; at < len(body); at++ {
		if body[at] != '"' {
			continue
		}
		start := at
		for at++; body[at] != '"'; at++ {
			if body[at] == '\\' {
				at++
			}
		}
		if m.matchesEscaped(string(body[start : at+1])) {
			all = append(all, span{start, at + 1, true})
		}
	}
	return all
}

// mayBeJSON reports whether a string of JSON may have JSON in it, into which paths do not look.
func mayBeJSON(quoted string) bool {
	text, err := unquote(quoted)
	return err != nil || strings.Contains(text, "{") || strings.HasPrefix(strings.TrimSpace(text), "[")
}

// merge sorts spans and joins those that overlap.
func merge(all []span) (merged []span) {
	slices.SortFunc(all, func(a, b span) int { return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(b.end, a.end)) })
	for _, s := range all {
		last := len(merged) - 1
		switch {
		case last < 0 || s.start >= merged[last].end:
			merged = append(merged, s)
		case s.end > merged[last].end:
			merged[last].end, merged[last].value = s.end, false
		}
	}
	return merged
}

// hidesPath reports whether a rule matches the path of a value.
func (m *Mask) hidesPath(path []step) bool {
	return slices.ContainsFunc(m.paths, func(rule []string) bool { return matchesPath(rule, path) })
}

// matchesPath follows all ways to match a rule at once: a bit of reached is how many parts of the rule were used.
func matchesPath(rule []string, path []step) bool {
	reached := skipAny(rule, 1)
	for _, s := range path {
		next := uint64(0)
		name := fold(s.name)
		for i, part := range rule {
			if reached>>i&1 == 0 {
				continue
			}
			switch {
			case part == "**":
				next |= 1 << i
			case part == "*", s.index < 0 && part == name, s.index >= 0 && part == strconv.Itoa(s.index):
				next |= 1 << (i + 1)
			}
			if s.index >= 0 {
				next |= 1 << i // arrays need no part of their own
			}
		}
		if reached = skipAny(rule, next); reached == 0 {
			return false
		}
	}
	return reached>>len(rule)&1 == 1
}

// skipAny adds that a ** can be nothing.
func skipAny(rule []string, reached uint64) uint64 {
	for i, part := range rule {
		if part == "**" && reached>>i&1 == 1 {
			reached |= 1 << (i + 1)
		}
	}
	return reached
}
