package triage

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strconv"
)

// ErrMaskMoved means that an edited message has a mask in a place where the original value cannot be put.
var ErrMaskMoved = errors.New("a mask is not where it was")

// maskedBody is a body with the parts of it that are masked.
type maskedBody struct {
	mark  string // with which the text for a masked part begins
	spans []span
}

// markFor is the beginning of the texts that stand for masked parts. The body does not have it elsewhere.
func markFor(body []byte) string {
	mark := "[masked"
	for bytes.Contains(body, []byte(mark)) {
		mark += "*"
	}
	return mark
}

// text stands for a masked part.
func (b *maskedBody) text(n int) string {
	text := b.mark + " " + strconv.Itoa(n+1) + "]"
	if b.spans[n].value {
		return `"` + text + `"`
	}
	return text
}

// hide returns the body with texts for the masked parts.
func (b *maskedBody) hide(body []byte) []byte {
	if len(b.spans) == 0 {
		return body
	}
	var out []byte
	at := 0
	for n, s := range b.spans {
		out = append(out, body[at:s.start]...)
		out = append(out, b.text(n)...)
		at = s.end
	}
	return append(out, body[at:]...)
}

// Unmask returns an edited message with the original values where the masks of [Mask.Apply] were left in place. The headers and the body can be
// edited; a mask can also be removed, or replaced by another value. If a mask was moved to where its value would be shown, Unmask returns
// ErrMaskMoved.
func (m *Mask) Unmask(original, edited Message) (Message, error) {
	headers, err := m.unmaskHeaders(original.Headers, edited.Headers)
	if err != nil {
		return Message{}, fmt.Errorf("triage: unmask: %w", err)
	}
	edited.Headers = headers
	for i, text := range edited.texts() {
		if as := *original.texts()[i]; *text == m.Text(as) {
			*text = as
		}
	}
	body := &maskedBody{mark: markFor(original.Body), spans: m.spans(&original)}
	restored, places, err := body.restore(original.Body, edited.Body)
	if err != nil {
		return Message{}, fmt.Errorf("triage: unmask: %w", err)
	}
	edited.Body = restored
	// Who may not see a value must not see it by putting it elsewhere.
	hidden := m.spans(&edited)
	for _, p := range places {
		if !covered(p, hidden) {
			return Message{}, fmt.Errorf("triage: unmask: %w: %s would show its value there; leave it in its place, or write a value", ErrMaskMoved, body.mark+" …]")
		}
	}
	edited.Error, edited.Stack = original.Error, original.Stack
	return edited, nil
}

func covered(s span, by []span) bool {
	for _, b := range by {
		if b.start <= s.start && s.end <= b.end {
			return true
		}
	}
	return s.start == s.end
}

// restore puts the original values back, and returns where they are.
func (b *maskedBody) restore(original, edited []byte) (restored []byte, places []span, err error) {
	if len(b.spans) == 0 {
		return edited, nil, nil
	}
	restored = []byte{}
	for len(edited) > 0 {
		at := bytes.Index(edited, []byte(b.mark+" "))
		if at < 0 {
			break
		}
		digits := edited[at+len(b.mark)+1:]
		end := bytes.IndexByte(digits, ']')
		n, parseErr := strconv.Atoi(string(digits[:max(end, 0)]))
		if parseErr != nil || n < 1 || n > len(b.spans) {
			return nil, nil, fmt.Errorf("%w: there is no %s %s]", ErrMaskMoved, b.mark, shorten(string(digits[:max(end, 0)]), 20))
		}
		text := b.text(n - 1)
		if b.spans[n-1].value {
			at--
		}
		if at < 0 || !bytes.HasPrefix(edited[at:], []byte(text)) {
			return nil, nil, fmt.Errorf("%w: %s must be a value of its own", ErrMaskMoved, text)
		}
		restored = append(restored, edited[:at]...)
		value := original[b.spans[n-1].start:b.spans[n-1].end]
		places = append(places, span{start: len(restored), end: len(restored) + len(value)})
		restored = append(restored, value...)
		edited = edited[at+len(text):]
	}
	return append(restored, edited...), places, nil
}

// unmaskHeaders puts the original values of headers back.
func (m *Mask) unmaskHeaders(original, edited map[string]any) (map[string]any, error) {
	if edited == nil {
		return nil, nil
	}
	out := make(map[string]any, len(edited))
	names := make(map[string]string) // by what stands for them
	for name, as := range m.hiddenNames(original) {
		names[as] = name
	}
	for name, value := range edited {
		if hidden, ok := names[name]; ok {
			if value != any(Masked) {
				return nil, fmt.Errorf("%w: header %q stands for another name; leave its value, or remove it", ErrMaskMoved, name)
			}
			out[hidden] = original[hidden]
			continue
		}
		before, there := original[name]
		value, err := m.unmaskHeader(name, before, there, value)
		if err != nil {
			return nil, err
		}
		out[name] = value
	}
	return out, nil
}

func (m *Mask) unmaskHeader(name string, original any, there bool, edited any) (any, error) {
	if there {
		shown, masked := m.header(name, original)
		if !masked && reflect.DeepEqual(edited, original) {
			return original, nil
		}
		if masked && reflect.DeepEqual(edited, shown) {
			return original, nil // as it was, with the types that it had
		}
	}
	switch e := edited.(type) {
	case string:
		if e == Masked {
			return nil, fmt.Errorf("%w: header %q was not masked before", ErrMaskMoved, name)
		}
	case map[string]any:
		before, _ := original.(map[string]any)
		return m.unmaskHeaders(before, e)
	case []any:
		before, _ := original.([]any)
		out := make([]any, len(e))
		for i, one := range e {
			var was any
			if i < len(before) {
				was = before[i]
			}
			value, err := m.unmaskHeader("", was, i < len(before), one)
			if err != nil {
				return nil, err
			}
			out[i] = value
		}
		return out, nil
	}
	return edited, nil
}
