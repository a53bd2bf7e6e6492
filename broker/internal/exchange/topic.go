package exchange

import (
	"strings"
	"sync"

	"github.com/rehop/rehop/internal/wire"
)

// topic has the patterns in a tree of their words.
type topic[D comparable] struct {
	destinations *destinations[D]
	root         node[D]
	hashes       []*node[D] // the nodes that end in "#", by number
	walks        sync.Pool  // of *walk[D]
}

// node stands for all patterns that begin with the same words.
type node[D comparable] struct {
	words  map[string]*node[D]
	star   *node[D]
	hash   *node[D]
	bound  group[D] // the patterns that end here
	number int      // of a node that ends in "#"
}

func newTopic[D comparable](all *destinations[D]) *topic[D] {
	return &topic[D]{
		destinations: all,
		walks:        sync.Pool{New: func() any { return new(walk[D]) }},
	}
}

func (t *topic[D]) add(b *binding[D]) error {
	n := &t.root
	for _, word := range split(b.id.key) {
		next := n.child(word)
		if next == nil {
			next = t.addChild(n, word)
		}
		n = next
	}
	n.bound = n.bound.with(b)
	return nil
}

func (t *topic[D]) remove(b *binding[D]) {
	words := split(b.id.key)
	path := make([]*node[D], 0, len(words)+1)
	path = append(path, &t.root)
	for i, word := range words {
		path = append(path, path[i].child(word))
	}
	leaf := path[len(words)]
	leaf.bound = leaf.bound.without(b)
	for i := len(words); i > 0 && path[i].empty(); i-- {
		t.removeChild(path[i-1], words[i-1])
	}
}

// split returns the words of a pattern. An empty pattern has none, so "#" matches the empty key, and "*"
// does not.
func split(pattern string) []string {
	if pattern == "" {
		return nil
	}
	return strings.Split(pattern, ".")
}

func (n *node[D]) child(word string) *node[D] {
	switch word {
	case "*":
		return n.star
	case "#":
		return n.hash
	}
	return n.words[word]
}

func (n *node[D]) empty() bool {
	return len(n.bound) == 0 && len(n.words) == 0 && n.star == nil && n.hash == nil
}

func (t *topic[D]) addChild(n *node[D], word string) *node[D] {
	child := new(node[D])
	switch word {
	case "*":
		n.star = child
	case "#":
		n.hash = child
		child.number = len(t.hashes)
		t.hashes = append(t.hashes, child)
	default:
		if n.words == nil {
			n.words = make(map[string]*node[D])
		}
		n.words[word] = child
	}
	return child
}

func (t *topic[D]) removeChild(n *node[D], word string) {
	switch word {
	case "*":
		n.star = nil
	case "#":
		t.hashes = removeAt(t.hashes, n.hash.number, func(n *node[D]) *int { return &n.number })
		n.hash = nil
	default:
		if delete(n.words, word); len(n.words) == 0 {
			n.words = nil // a map does not get smaller
		}
	}
}

func (t *topic[D]) match(key string, _ func() wire.Table, visit func(D)) {
	w := t.walks.Get().(*walk[D])
	w.begin(t)
	if key != "" {
		for word := range strings.SplitSeq(key, ".") {
			w.step(word)
		}
	}
	w.end(visit)
	t.walks.Put(w)
}
