package exchange

// walk follows a key through all patterns at once, a word at a time. After each word it knows every node that
// the words so far lead to, each once, so its cost is at most words times nodes, however many "#" there are.
type walk[D comparable] struct {
	here []*node[D] // reached with the last word; none ends in "#"
	next []*node[D] // reached with the word of this step
	held []*node[D] // end in "#": they swallow any word, so once reached they are never left

	hashes       once // which nodes are held
	destinations once
}

func (w *walk[D]) begin(t *topic[D]) {
	w.hashes.begin(len(t.hashes))
	w.destinations.begin(len(t.destinations.all))
	w.reach(&t.root)
	w.arrive()
}

func (w *walk[D]) step(word string) {
	held := w.held // those that this step adds begin with the next word
	for _, n := range w.here {
		w.follow(n, word)
	}
	for _, n := range held {
		w.follow(n, word)
	}
	w.arrive()
}

func (w *walk[D]) follow(n *node[D], word string) {
	if child := n.words[word]; child != nil {
		w.reach(child)
	}
	if n.star != nil {
		w.reach(n.star)
	}
}

func (w *walk[D]) reach(n *node[D]) {
	w.next = append(w.next, n)
	for hash := n.hash; hash != nil && w.hashes.first(hash.number); hash = hash.hash {
		w.held = append(w.held, hash)
	}
}

// arrive makes next here. What was here is cleared, lest a walk in the pool keep removed nodes alive.
func (w *walk[D]) arrive() {
	clear(w.here)
	w.here, w.next = w.next, w.here[:0]
}

func (w *walk[D]) end(visit func(D)) {
	for _, n := range w.here {
		n.bound.visit(&w.destinations, visit)
	}
	for _, n := range w.held {
		n.bound.visit(&w.destinations, visit)
	}
	w.arrive()
	clear(w.held)
	w.held = w.held[:0]
}
