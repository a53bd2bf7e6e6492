package triage

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"
)

// maxDepth is how deep the values of a body may be nested.
const maxDepth = 100

// errNotJSON means that a text is not JSON from some place on, or nested too deep.
var errNotJSON = errors.New("not JSON")

// step is a part of the way to a value in JSON: a name, or a place in an array.
type step struct {
	name  string
	index int // -1: a name
}

// jsonValue is a value in a text.
type jsonValue struct {
	path       []step // valid only while it is visited
	kind       byte   // the first character of the value, with 0 for all numbers
	start, end int
}

// isContainer reports whether the value is an object or an array.
func (v jsonValue) isContainer() bool { return v.kind == '{' || v.kind == '[' }

// jsonWalk reads a text, and shows names and values in their order, an object or an array after what is in it. It reads the bytes itself:
// package json does not report where a value is, and would change the numbers and the order of names.
type jsonWalk struct {
	text  string
	at    int
	path  []step
	name  func(name string)
	value func(v jsonValue) error
}

// walkJSON shows the values of a text. If the text is not JSON it returns errNotJSON and the place from which on it is not, after the values
// before that place. It ends with an error of value. Name may be nil.
func walkJSON(text string, name func(string), value func(jsonValue) error) (at int, err error) {
	if name == nil {
		name = func(string) {}
	}
	w := jsonWalk{text: text, name: name, value: value}
	if err := w.read(); err != nil {
		return w.at, err
	}
	if w.space(); w.at < len(text) {
		return w.at, errNotJSON
	}
	return w.at, nil
}

func (w *jsonWalk) space() {
	for w.at < len(w.text) && strings.IndexByte(" \t\r\n", w.text[w.at]) >= 0 {
		w.at++
	}
}

// next is the next character that is not a space, or 0.
func (w *jsonWalk) next() byte {
	if w.space(); w.at < len(w.text) {
		return w.text[w.at]
	}
	return 0
}

func (w *jsonWalk) read() error {
	c := w.next()
	start := w.at
	kind, err := c, error(nil)
	switch {
	case len(w.path) > maxDepth:
		return errNotJSON
	case c == '{':
		err = w.object()
	case c == '[':
		err = w.array()
	case c == '"':
		err = w.quoted()
	case c == 't':
		err = w.word("true")
	case c == 'f':
		err = w.word("false")
	case c == 'n':
		err = w.word("null")
	case c == '-' || c >= '0' && c <= '9':
		kind, err = '0', w.number()
	default:
		return errNotJSON
	}
	if err != nil {
		return err
	}
	return w.value(jsonValue{w.path, kind, start, w.at})
}

func (w *jsonWalk) object() error {
	w.at++
	if w.next() == '}' {
		w.at++
		return nil
	}
	for {
		if w.next() != '"' {
			return errNotJSON
		}
		start := w.at
		if err := w.quoted(); err != nil {
			return err
		}
		name, err := unquote(w.text[start:w.at])
		if err != nil || w.next() != ':' {
			return errNotJSON
		}
		w.at++
		w.name(name)
		w.path = append(w.path, step{name, -1})
		if err := w.read(); err != nil {
			return err
		}
		w.path = w.path[:len(w.path)-1]
		if done, err := w.more('}'); done || err != nil {
			return err
		}
	}
}

func (w *jsonWalk) array() error {
	w.at++
	if w.next() == ']' {
		w.at++
		return nil
	}
	for i := 0; ; i++ {
		w.path = append(w.path, step{"", i})
		if err := w.read(); err != nil {
			return err
		}
		w.path = w.path[:len(w.path)-1]
		if done, err := w.more(']'); done || err != nil {
			return err
		}
	}
}

// more reads a comma, or the end of an object or array.
func (w *jsonWalk) more(end byte) (done bool, err error) {
	c := w.next()
	w.at++
	switch c {
	case ',':
		return false, nil
	case end:
		return true, nil
	}
	return false, errNotJSON
}

// quoted reads a string.
func (w *jsonWalk) quoted() error {
	for w.at++; w.at < len(w.text); w.at++ {
		switch c := w.text[w.at]; {
		case c == '"':
			w.at++
			return nil
		case c == '\\':
			w.at++
		case c < ' ':
			return errNotJSON
		}
	}
	w.at = len(w.text)
	return errNotJSON
}

func (w *jsonWalk) word(word string) error {
	if !strings.HasPrefix(w.text[w.at:], word) {
		return errNotJSON
	}
	w.at += len(word)
	return nil
}

func (w *jsonWalk) digits() (n int) {
	for w.at < len(w.text) && w.text[w.at] >= '0' && w.text[w.at] <= '9' {
		w.at++
		n++
	}
	return n
}

func (w *jsonWalk) number() error {
	if w.text[w.at] == '-' {
		w.at++
	}
	zero := w.at < len(w.text) && w.text[w.at] == '0'
	if n := w.digits(); n == 0 || zero && n > 1 {
		return errNotJSON
	}
	if w.at < len(w.text) && w.text[w.at] == '.' {
		w.at++
		if w.digits() == 0 {
			return errNotJSON
		}
	}
	if w.at < len(w.text) && (w.text[w.at] == 'e' || w.text[w.at] == 'E') {
		w.at++
		if w.at < len(w.text) && (w.text[w.at] == '+' || w.text[w.at] == '-') {
			w.at++
		}
		if w.digits() == 0 {
			return errNotJSON
		}
	}
	return nil
}

// unquote is the text of a JSON string.
func unquote(quoted string) (text string, err error) {
	if inner := quoted[1 : len(quoted)-1]; strings.IndexByte(inner, '\\') < 0 {
		return inner, nil
	}
	err = json.Unmarshal([]byte(quoted), &text)
	return text, err
}

// canonicalNumber writes a JSON number so that equal numbers are the same text, whatever their size: its digits without zeros at the ends,
// and the exponent. False: the text is not a number.
func canonicalNumber(text string) (string, bool) {
	w := jsonWalk{text: text}
	if text == "" || text[0] != '-' && (text[0] < '0' || text[0] > '9') || w.number() != nil || w.at != len(text) {
		return "", false
	}
	digits, negative := strings.CutPrefix(text, "-")
	exponent := ""
	if i := strings.IndexAny(digits, "eE"); i >= 0 {
		digits, exponent = digits[:i], digits[i+1:]
	}
	whole, fraction, _ := strings.Cut(digits, ".")
	digits = strings.TrimLeft(whole+fraction, "0")
	trimmed := strings.TrimRight(digits, "0")
	if trimmed == "" {
		return "0", true
	}
	shift := len(digits) - len(trimmed) - len(fraction)
	sign := ""
	if negative {
		sign = "-"
	}
	power, ok := addExponent(exponent, shift)
	if !ok {
		return sign + trimmed + "e" + exponent + "," + whole + "." + fraction, true // an exponent that no program can compute with
	}
	return sign + trimmed + "e" + power, true
}

// addExponent adds to an exponent of at most 15 digits.
func addExponent(exponent string, shift int) (string, bool) {
	digits := strings.TrimLeft(strings.TrimLeft(exponent, "+-"), "0")
	if len(digits) > 15 {
		return "", false
	}
	n := 0
	for _, d := range digits {
		n = 10*n + int(d-'0')
	}
	if strings.HasPrefix(exponent, "-") {
		n = -n
	}
	return strconv.Itoa(n + shift), true
}
