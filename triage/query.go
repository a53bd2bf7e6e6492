package triage

import (
	"strings"
	"time"
)

// Query chooses messages: those that match all of its conditions. The zero Query matches all messages. [ParseQuery] reads the language.
type Query struct {
	text       string
	conditions []condition
}

// String is the text that was parsed.
func (q Query) String() string { return q.text }

// field is what a condition is about.
type field string

const (
	anyText     field = "" // a word or a phrase in any text of the message
	inQueue     field = "queue"
	ofKind      field = "kind"
	inError     field = "error"
	inHeader    field = "header"
	inBody      field = "body"
	since       field = "since"
	until       field = "until"
	inGroup     field = "group"
	inState     field = "state"
	withID      field = "id"
	withKey     field = "key"
	toExchange  field = "exchange"
	onHost      field = "host"
	ofVersion   field = "version"
	changedByID field = "run"
)

// condition is one item of a query.
type condition struct {
	field   field
	negated bool
	path    string    // of a header or a value in the body, folded
	value   string    // what the field must have
	prefix  bool      // the field begins with the value
	words   []word    // of anyText and inError
	moment  int64     // of since and until
	at      time.Time // the same
}

// nameField is a field that is compared with one name of the message, byte by byte.
type nameField struct {
	kind   kindOfTerm
	column string
	of     func(*Message) string
}

// names are the fields with a name.
var names = map[field]nameField{
	inQueue:    {termQueue, "queue", func(m *Message) string { return m.Queue }},
	ofKind:     {termKind, "kind", func(m *Message) string { return m.Kind }},
	withKey:    {termKey, "routing_key", func(m *Message) string { return m.Key }},
	toExchange: {termExchange, "exchange", func(m *Message) string { return m.Exchange }},
	onHost:     {termHost, "host", func(m *Message) string { return m.Host }},
	ofVersion:  {termVersion, "version", func(m *Message) string { return m.Version }},
	withID:     {termID, "message_id", func(m *Message) string { return m.ID }},
}

// anyOf is a list of terms of which a message must have one.
type anyOf []term

// terms are what the index must have of a message that matches, as far as terms can express the condition. All of the lists must be there.
func (c *condition) terms() (all []anyOf) {
	switch c.field {
	case anyText:
		return wordTerms(termWord, c.words)
	case inError:
		return wordTerms(termErrorWord, c.words)
	case inHeader:
		return []anyOf{searchedValue(termHeader, c.path, c.value)}
	case inBody:
		return []anyOf{searchedValue(termBody, c.path, c.value)}
	}
	name, isName := names[c.field]
	switch {
	case !isName:
		return nil
	case !c.prefix:
		return []anyOf{{newTerm(name.kind, c.value)}}
	case c.field == withKey && strings.HasSuffix(c.value, "."):
		return []anyOf{{newTerm(termKeyPrefix, c.value)}}
	}
	return nil
}

// wordTerms are the terms of words that follow each other. Characters of scripts without spaces are found by pairs.
func wordTerms(kind kindOfTerm, words []word) (all []anyOf) {
	for i, w := range words {
		pairedBefore := w.single && w.joined && i > 0
		pairedAfter := w.single && i+1 < len(words) && words[i+1].joined
		if pairedBefore {
			all = append(all, anyOf{newTerm(kind, words[i-1].text+w.text)})
		}
		if !pairedBefore && !pairedAfter {
			all = append(all, anyOf{newTerm(kind, w.text)})
		}
	}
	return all
}

// searchedValue are the terms of a value that a query has: as a text, and as a number if it can be one.
func searchedValue(kind kindOfTerm, path, value string) anyOf {
	terms := anyOf{knownTerms(nil).value(kind, path, value, "")}
	if number, ok := canonicalNumber(value); ok {
		terms = append(terms, knownTerms(nil).value(kind, path, "", number))
	}
	return terms
}

// needsText reports whether terms are not enough: the words must also follow each other in the text of the message.
func (c *condition) needsText() bool {
	if c.field != anyText && c.field != inError {
		return false
	}
	return len(c.words) > 2 || len(c.words) == 2 && !c.words[1].joined
}

// needsText reports whether the texts of messages must be read to answer the query.
func (q Query) needsText() bool {
	for i := range q.conditions {
		if q.conditions[i].needsText() {
			return true
		}
	}
	return false
}

// usesTerms reports whether the query finds messages by what was indexed of their texts, so that a message that was not indexed whole may
// be missing.
func (q Query) usesTerms() bool {
	for _, c := range q.conditions {
		switch c.field {
		case anyText, inError, inHeader, inBody:
			return true
		}
	}
	return false
}
