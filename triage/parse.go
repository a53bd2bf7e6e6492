package triage

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// QueryError is what is wrong with a query, and where.
type QueryError struct {
	Query   string
	Column  int    // the place in characters, from 1 on
	Problem string // what is wrong
	Hint    string // what is allowed
}

func (e *QueryError) Error() string {
	return fmt.Sprintf("query, at character %d: %s; %s", e.Column, e.Problem, e.Hint)
}

// Bounds of a query.
const (
	maxQuery      = 4096 // bytes
	maxConditions = 50
)

// fieldsHint lists the fields for errors.
const fieldsHint = "the fields are queue, kind, error, key, exchange, host, version, id, state, group, run, since, until, header.NAME and body.PATH; put text with a colon in quotes"

// ParseQuery reads a query. Times such as since:2h are relative to now. An error is a *[QueryError].
//
// A query is a list of conditions with spaces between them, all of which a message must match. A minus sign before a condition negates it.
//
//	word               a word, in any text of the message: error, headers, body, names
//	"two words"        words that follow each other
//	queue:orders       the queue in which it failed; also kind, key, exchange, host, version, id, run; a * at the end matches any rest
//	error:refused      a word, or words in quotes, in the error
//	header.tenant:t-7  the value of a header
//	body.order.id:123  a value in a body that is JSON; arrays are searched through
//	state:failed       failed, kept, replayed, succeeded, discarded or gone
//	group:ab12         the group's ID, or its beginning
//	since:2h           failed at that time or later: a duration (30m, 2h, 7d) before now, a date, or a time
//	until:2026-01-02   failed before that time
func ParseQuery(text string, now time.Time) (Query, error) {
	p := parser{text: text, now: now}
	if len(text) > maxQuery {
		return Query{}, p.fault(0, fmt.Sprintf("it has %d bytes", len(text)), fmt.Sprintf("at most %d are allowed", maxQuery))
	}
	if !utf8.ValidString(text) {
		return Query{}, p.fault(0, "it is not in UTF-8", "send it as UTF-8")
	}
	q := Query{text: text}
	for p.skipSpace(); p.at < len(text); p.skipSpace() {
		start := p.at
		c, err := p.condition()
		if err != nil {
			return Query{}, err
		}
		if q.conditions = append(q.conditions, c); len(q.conditions) > maxConditions {
			return Query{}, p.fault(start, "it has too many conditions", fmt.Sprintf("at most %d are allowed", maxConditions))
		}
	}
	return q, nil
}

type parser struct {
	text string
	at   int
	now  time.Time
}

func (p *parser) fault(at int, problem, hint string) error {
	return &QueryError{Query: p.text, Column: utf8.RuneCountInString(p.text[:min(at, len(p.text))]) + 1, Problem: problem, Hint: hint}
}

func (p *parser) skipSpace() {
	p.at += len(p.text[p.at:]) - len(strings.TrimLeftFunc(p.text[p.at:], unicode.IsSpace))
}

// atEnd reports whether a condition ends here.
func (p *parser) atEnd() bool {
	if p.at == len(p.text) {
		return true
	}
	r, _ := utf8.DecodeRuneInString(p.text[p.at:])
	return unicode.IsSpace(r)
}

func (p *parser) condition() (c condition, err error) {
	start := p.at
	if p.text[p.at] == '-' {
		p.at++
		c.negated = true
		if p.atEnd() {
			return c, p.fault(start, "nothing follows the minus sign", "put it directly before what must not match")
		}
	}
	named, err := p.field(&c)
	if err != nil {
		return c, err
	}
	at := p.at
	value, isQuoted, err := p.value()
	if err != nil {
		return c, err
	}
	if named && value == "" && !isQuoted {
		return c, p.fault(at, fmt.Sprintf("%s: has no value", p.text[start:at-1]), `write a value after the colon, or "" for an empty one`)
	}
	c.value = value
	return c, p.finish(&c, at, isQuoted)
}

// field reads the name of a field and its colon, if there is one.
func (p *parser) field(c *condition) (named bool, err error) {
	start := p.at
	end := p.at
	for end < len(p.text) {
		r, size := utf8.DecodeRuneInString(p.text[end:])
		if r == '"' || r == ':' || r == '.' || unicode.IsSpace(r) {
			break
		}
		end += size
	}
	name := p.text[start:end]
	if end == len(p.text) || p.text[end] != ':' && p.text[end] != '.' {
		return false, nil
	}
	isPath := name == string(inHeader) || name == string(inBody)
	switch {
	case p.text[end] == '.' && isPath:
		c.field, p.at = field(name), end+1
		return true, p.path(c, start)
	case p.text[end] == '.': // "shop.example"
		if word := p.text[start : start+strings.IndexFunc(p.text[start:]+" ", endsName)]; strings.Contains(word, ":") {
			return false, p.fault(start, fmt.Sprintf("there is no field %q", word[:strings.IndexByte(word, ':')]), fieldsHint)
		}
		return false, nil
	case isPath:
		return false, p.fault(start, name+": has no name", fmt.Sprintf("write %s.NAME:VALUE", name))
	case slices.Contains(fields, field(name)):
		c.field, p.at = field(name), end+1
		return true, nil
	}
	return false, p.fault(start, fmt.Sprintf("there is no field %q", name), fieldsHint)
}

func endsName(r rune) bool { return unicode.IsSpace(r) || r == '"' }

// fields are those with a name and no path.
var fields = []field{inQueue, ofKind, inError, since, until, inGroup, inState, withID, withKey, toExchange, onHost, ofVersion, changedByID}

// path reads the path of a header or of a value in the body, and the colon after it. Parts of it may be in quotes.
func (p *parser) path(c *condition, start int) error {
	var out strings.Builder
	for !p.atEnd() && p.text[p.at] != ':' {
		if p.text[p.at] == '"' {
			part, err := p.quoted()
			if err != nil {
				return err
			}
			out.WriteString(part)
			continue
		}
		_, size := utf8.DecodeRuneInString(p.text[p.at:])
		out.WriteString(p.text[p.at : p.at+size])
		p.at += size
	}
	if p.atEnd() || out.Len() == 0 {
		return p.fault(start, fmt.Sprintf("%s is not complete", p.text[start:p.at]), fmt.Sprintf("write %s.NAME:VALUE", c.field))
	}
	c.path = fold(out.String())
	p.at++
	return nil
}

// value reads a value, in quotes or up to the next space.
func (p *parser) value() (value string, isQuoted bool, err error) {
	if p.at < len(p.text) && p.text[p.at] == '"' {
		value, err = p.quoted()
		if err == nil && !p.atEnd() {
			err = p.fault(p.at, "something follows the closing quote", "put a space after it")
		}
		return value, true, err
	}
	start := p.at
	for !p.atEnd() {
		if p.text[p.at] == '"' {
			return "", false, p.fault(p.at, "a quote in the middle of a word", `put all of it in quotes, and write \" for a quote in it`)
		}
		_, size := utf8.DecodeRuneInString(p.text[p.at:])
		p.at += size
	}
	return p.text[start:p.at], false, nil
}

func (p *parser) quoted() (string, error) {
	start := p.at
	var out strings.Builder
	for p.at++; p.at < len(p.text); p.at++ {
		switch c := p.text[p.at]; {
		case c == '"':
			p.at++
			return out.String(), nil
		case c == '\\' && p.at+1 < len(p.text) && (p.text[p.at+1] == '"' || p.text[p.at+1] == '\\'):
			p.at++
			out.WriteByte(p.text[p.at])
		default:
			out.WriteByte(c)
		}
	}
	return "", p.fault(start, "the quote is not closed", `add a closing quote, or write \" for a quote in the text`)
}

// finish checks the value of a condition, and computes what it means.
func (p *parser) finish(c *condition, at int, isQuoted bool) (err error) {
	switch c.field {
	case anyText, inError:
		eachWord(c.value, func(w word) bool { c.words = append(c.words, w); return true })
		if len(c.words) == 0 {
			return p.fault(at, fmt.Sprintf("%q has no letters or digits", c.value), "search for words")
		}
		c.words[0].joined = false
	case since, until:
		if c.negated {
			return p.fault(at, fmt.Sprintf("-%s is not possible", c.field), "use since for the beginning and until for the end")
		}
		if c.at, err = p.time(c.value, at); err != nil {
			return err
		}
		c.moment = moment(c.at)
	case inState:
		if State(c.value).number() < 0 {
			return p.fault(at, fmt.Sprintf("there is no state %q", c.value), "the states are failed, kept, replayed, succeeded, discarded and gone")
		}
	case inGroup:
		c.value = strings.ToLower(c.value)
		if c.value == "" || len(c.value) > 16 || strings.Trim(c.value, "0123456789abcdef") != "" {
			return p.fault(at, fmt.Sprintf("%q is not the ID of a group", c.value), "write up to 16 digits and letters from a to f")
		}
	case inHeader, inBody, changedByID:
	default:
		if !isQuoted {
			c.value, c.prefix = strings.CutSuffix(c.value, "*")
			if strings.Contains(c.value, "*") {
				return p.fault(at, "a * in the middle", "put it at the end, or all of it in quotes if the name has a *")
			}
		}
	}
	return nil
}

// layouts are the forms of a time. Without a zone it is UTC.
var layouts = []string{time.RFC3339Nano, "2006-01-02T15:04Z07:00", "2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02"}

func (p *parser) time(value string, at int) (time.Time, error) {
	if d, ok := duration(value); ok {
		return p.now.Add(-d).Truncate(time.Millisecond), nil
	}
	for _, layout := range layouts {
		if t, err := time.Parse(layout, strings.ToUpper(value)); err == nil {
			return t, nil
		}
	}
	return time.Time{}, p.fault(at, fmt.Sprintf("%q is not a time", value), "write a duration such as 30m, 2h or 7d, a date such as 2026-01-02, or a time such as 2026-01-02T03:04Z")
}

// duration reads a duration, also in days and weeks.
func duration(text string) (time.Duration, bool) {
	for unit, size := range map[string]time.Duration{"d": 24 * time.Hour, "w": 7 * 24 * time.Hour} {
		if digits, ok := strings.CutSuffix(text, unit); ok {
			n, err := strconv.ParseUint(digits, 10, 16)
			return time.Duration(n) * size, err == nil && n < 36500
		}
	}
	d, err := time.ParseDuration(text)
	return d, err == nil && d >= 0
}
