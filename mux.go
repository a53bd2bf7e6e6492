package rehop

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// Mux is a [Handler] for a queue with messages of several types. It calls the handler that is
// registered for the type of a message; if there is none, the one whose pattern matches the routing key:
//
//	mux := new(rehop.Mux)
//	OrderPlaced.Register(mux, func(ctx context.Context, o Order) error { … })
//	OrderPlacedV2.Register(mux, func(ctx context.Context, o OrderV2) error { … })
//	mux.HandleKey("audit.#", auditLog)
//
// Where several patterns match, the one with the most words that are not wildcards is used; of those the
// one with the fewest #; and of those the one that was registered first.
//
// Messages for which no handler is registered go to NotFound. The zero value is ready for use. A Mux must
// not be copied after its first use, and is safe for concurrent use.
type Mux struct {
	// NotFound handles messages for which no handler is registered. Default: they go to the failed queue
	// at once, with kind "permanent" and an error that names the type.
	NotFound Handler

	mu    sync.RWMutex
	types map[string]Handler
	keys  []keyHandler // the first that matches is used
}

// keyHandler handles messages by their routing key.
type keyHandler struct {
	pattern string
	words   []string
	handler Handler
}

// HandleType registers the handler for messages of a type: see [Message].Type. It panics if the type is
// empty or already has a handler.
func (m *Mux) HandleType(name string, h Handler) {
	switch {
	case name == "":
		panic("rehop: mux: the type is empty; use HandleKey for messages without a type")
	case h == nil:
		panic(fmt.Sprintf("rehop: mux: the handler for type %q is nil", name))
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, taken := m.types[name]; taken {
		panic(fmt.Sprintf("rehop: mux: type %q already has a handler", name))
	}
	if m.types == nil {
		m.types = make(map[string]Handler)
	}
	m.types[name] = h
}

// HandleKey registers the handler for messages whose routing key matches a pattern, as in a binding to a
// topic exchange: words between dots, where * stands for one word and # for any number of words. It
// panics if the pattern already has a handler.
func (m *Mux) HandleKey(pattern string, h Handler) {
	if h == nil {
		panic(fmt.Sprintf("rehop: mux: the handler for key %q is nil", pattern))
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if slices.ContainsFunc(m.keys, func(k keyHandler) bool { return k.pattern == pattern }) {
		panic(fmt.Sprintf("rehop: mux: key %q already has a handler", pattern))
	}
	m.keys = append(m.keys, keyHandler{pattern, wordsOf(pattern), h})
	slices.SortStableFunc(m.keys, func(a, b keyHandler) int {
		return cmp.Or(b.literals()-a.literals(), a.count("#")-b.count("#"))
	})
}

// Handle calls the handler for a message.
func (m *Mux) Handle(ctx context.Context, d *Delivery) error {
	if h := m.find(d); h != nil {
		return h.Handle(ctx, d)
	}
	if m.NotFound != nil {
		return m.NotFound.Handle(ctx, d)
	}
	if d.Type == "" {
		return Permanent(fmt.Errorf("no handler for routing key %q, and the message has no type", d.Key))
	}
	return Permanent(fmt.Errorf("no handler for type %q (routing key %q)", d.Type, d.Key))
}

// find returns nil if there is no handler for a message.
func (m *Mux) find(d *Delivery) Handler {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if h, ok := m.types[d.Type]; ok {
		return h
	}
	if len(m.keys) == 0 {
		return nil
	}
	key := wordsOf(d.Key)
	for _, k := range m.keys {
		if matches(k.words, key) {
			return k.handler
		}
	}
	return nil
}

// wordsOf splits a routing key or a pattern. An empty one has no words.
func wordsOf(key string) []string {
	if key == "" {
		return nil
	}
	return strings.Split(key, ".")
}

func (k keyHandler) literals() int { return len(k.words) - k.count("*") - k.count("#") }

func (k keyHandler) count(wildcard string) (n int) {
	for _, word := range k.words {
		if word == wildcard {
			n++
		}
	}
	return n
}

// matches reports whether a routing key matches a pattern, both as words. At a mismatch only the last #
// takes one more word: what those before it have taken fits already.
func matches(pattern, key []string) bool {
	p, k, hash, taken := 0, 0, -1, 0
	for k < len(key) {
		switch {
		case p < len(pattern) && pattern[p] == "#":
			hash, taken = p, k
			p++
		case p < len(pattern) && (pattern[p] == "*" || pattern[p] == key[k]):
			p++
			k++
		case hash >= 0:
			taken++
			p, k = hash+1, taken
		default:
			return false
		}
	}
	for p < len(pattern) && pattern[p] == "#" {
		p++
	}
	return p == len(pattern)
}
