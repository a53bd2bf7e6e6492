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
)

// MaskRules are what must not be shown of messages.
type MaskRules struct {
	// Headers are names of headers, in upper or lower case, also in nested tables. A * at the end matches any rest.
	Headers []string
	// Paths are values in bodies that are JSON: names with dots between them, in upper or lower case, such as "customer.email". A * is any
	// name or any place in an array, and ** is any number of them: "**.password". Arrays need no part of their own.
	Paths []string
	// Texts are regular expressions. What they match in bodies, errors and stacks is masked; a header in which they match is masked whole.
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

// Apply returns a message without what must not be shown. It does not change the one that it gets. What it cannot look into, such as a
// compressed body, or one that should be JSON and is not, it masks whole if a rule could apply to it.
func (m *Mask) Apply(message Message) Message {
	message.Headers, _ = m.headersOf(message.Headers)
	body := &maskedBody{mark: markFor(message.Body), spans: m.spans(&message)}
	message.Body = body.hide(message.Body)
	message.Error, message.Stack = m.Text(message.Error), m.Text(message.Stack)
	return message
}

// Text returns a text, such as the title or the sample of a group, without what must not be shown.
func (m *Mask) Text(text string) string {
	for _, expression := range m.texts {
		text = expression.ReplaceAllLiteralString(text, Masked)
	}
	return text
}

// headersOf masks headers, and reports whether anything was masked.
func (m *Mask) headersOf(headers map[string]any) (shown map[string]any, masked bool) {
	if headers == nil {
		return nil, false
	}
	shown = make(map[string]any, len(headers))
	for name, value := range headers {
		var hidden bool
		shown[name], hidden = m.header(name, value)
		masked = masked || hidden
	}
	return shown, masked
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
	text := headerText(value)
	if slices.ContainsFunc(m.texts, func(expression *regexp.Regexp) bool { return expression.MatchString(text) }) {
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
	var all []span
	isJSON := looksLikeJSON(body)
	if !isJSON && len(m.paths) > 0 && (strings.Contains(strings.ToLower(message.ContentType), "json") && !isScalar(body) || bytes.HasPrefix(body, []byte("\xef\xbb\xbf"))) {
		return whole
	}
	if isJSON {
		_, err := walkJSON(body, nil, func(v jsonValue) error {
			if m.hidesPath(v.path) || v.kind == '"' && m.hidesEscaped(body[v.start:v.end]) {
				all = append(all, span{v.start, v.end, true})
			}
			return nil
		})
		if err != nil && len(m.paths) > 0 {
			return whole
		}
	}
	for _, expression := range m.texts {
		for _, found := range expression.FindAllIndex(body, -1) {
			if found[0] < found[1] {
				all = append(all, span{found[0], found[1], false})
			}
		}
	}
	return merge(all)
}

// isScalar reports whether a body is one JSON value without names.
func isScalar(body []byte) bool {
	_, err := walkJSON(body, nil, func(jsonValue) error { return nil })
	return err == nil
}

// hidesEscaped reports whether a regular expression matches a string that is written with escapes, in which it may not match.
func (m *Mask) hidesEscaped(quoted []byte) bool {
	if len(m.texts) == 0 || bytes.IndexByte(quoted, '\\') < 0 {
		return false
	}
	text, err := unquote(quoted)
	return err != nil || slices.ContainsFunc(m.texts, func(expression *regexp.Regexp) bool { return expression.MatchString(text) })
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
