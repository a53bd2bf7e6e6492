package exchange

// walk matches a key with all patterns at once, word by word. After each word it has every node that
// the words so far lead to, each once. So its cost is at most words times nodes, for any number of "#".
type walk[D comparable] struct {
	current []*node[D] // reached with the last word; none ends in "#"
	next    []*node[D] // reached with the word of this step
	hashes  []*node[D] // end in "#": they match any word, so once reached they stay

	visitedHashes       visited
	visitedDestinations visited
}

func (w *walk[D]) begin(t *topic[D]) {
	w.visitedHashes.begin(len(t.hashes))
	w.visitedDestinations.begin(len(t.destinations.all))
	w.reach(&t.root)
	w.endStep()
}

func (w *walk[D]) step(word string) {
	hashes := w.hashes // those that this step adds begin with the next word
	for _, n := range w.current {
		w.follow(n, word)
	}
	for _, n := range hashes {
		w.follow(n, word)
	}
	w.endStep()
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
	for hash := n.hash; hash != nil && w.visitedHashes.first(hash.number); hash = hash.hash {
		w.hashes = append(w.hashes, hash)
	}
}

// endStep makes next current. It clears the old slice, so that a walk in the pool does not keep removed
// nodes in memory.
func (w *walk[D]) endStep() {
	clear(w.current)
	w.current, w.next = w.next, w.current[:0]
}

func (w *walk[D]) end(visit func(D)) {
	for _, n := range w.current {
		n.bound.visit(&w.visitedDestinations, visit)
	}
	for _, n := range w.hashes {
		n.bound.visit(&w.visitedDestinations, visit)
	}
	w.endStep()
	clear(w.hashes)
	w.hashes = w.hashes[:0]
}
