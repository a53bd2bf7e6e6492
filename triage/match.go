package triage

import "strings"

// Match reports whether a message matches the query. It gives the answer that [Store.Search] gives, also for a message with more words than
// the index holds. The conditions on state, group and run use the fields of the message that the store sets.
func (q Query) Match(m *Message) bool {
	var terms *termSet
	for i := range q.conditions {
		c := &q.conditions[i]
		if terms == nil && c.terms() != nil {
			terms = termsOf(m, nil)
		}
		if c.matches(m, terms) == c.negated {
			return false
		}
	}
	return true
}

func (c *condition) matches(m *Message, terms *termSet) bool {
	if name, ok := names[c.field]; ok {
		have := name.of(m)
		return have == c.value || c.prefix && strings.HasPrefix(have, c.value)
	}
	switch c.field {
	case since:
		return moment(m.failedAt()) >= c.moment
	case until:
		return moment(m.failedAt()) < c.moment
	case inState:
		return string(m.State) == c.value
	case changedByID:
		return m.Run == c.value
	case inGroup:
		return strings.HasPrefix(m.Group, c.value)
	}
	for _, list := range c.terms() {
		if !list.in(terms) {
			return false
		}
	}
	return !c.needsText() || c.inText(m)
}

func (l anyOf) in(terms *termSet) bool {
	for _, t := range l {
		if terms.has(t) {
			return true
		}
	}
	return false
}

// verify reports whether a message, which has the terms of a query, matches the conditions for which terms are not enough.
func (q Query) verify(m *Message) bool {
	for i := range q.conditions {
		c := &q.conditions[i]
		if c.needsText() && c.inAllTerms(m) == c.negated {
			return false
		}
	}
	return true
}

// inAllTerms is matches for a condition that needs text. What a message has only after the part that is indexed does not count.
func (c *condition) inAllTerms(m *Message) bool {
	if !c.negated {
		return c.inText(m)
	}
	return c.inText(m) && c.matches(m, termsOf(m, nil))
}

// inText reports whether the words of a condition follow each other in one text of the message.
func (c *condition) inText(m *Message) bool {
	if c.field == inError {
		return hasPhrase(c.words, func(more func(word) bool) { eachWord(bounded(m.Error, nil), more) })
	}
	found := false
	eachText(m, func(text string) {
		found = found || hasPhrase(c.words, func(more func(word) bool) { eachWord(bounded(text, nil), more) })
	})
	return found || hasPhrase(c.words, func(more func(word) bool) { eachBodyWord(m.Body, more, nil) })
}

// hasPhrase reports whether words follow each other among those of a text.
func hasPhrase(phrase []word, each func(more func(word) bool)) (found bool) {
	last := make([]word, 0, 2*len(phrase))
	each(func(w word) bool {
		if len(last) == cap(last) {
			last = append(last[:0], last[len(last)-len(phrase)+1:]...)
		}
		if last = append(last, w); len(last) >= len(phrase) {
			found = samePhrase(phrase, last[len(last)-len(phrase):])
		}
		return !found
	})
	return found
}

func samePhrase(phrase, words []word) bool {
	for i, want := range phrase {
		if words[i].text != want.text || i > 0 && want.joined && !words[i].joined {
			return false
		}
	}
	return true
}
