package topologies

import (
	"slices"
	"strings"

	"github.com/rehop/rehop/topology"
)

// Keys are routing keys: a single one, or all that a pattern of a topic exchange matches.
type Keys struct {
	text    string
	pattern bool
}

// Key is a single routing key.
func Key(key string) Keys { return Keys{text: key} }

// AnyKey is every routing key.
func AnyKey() Keys { return Keys{"#", true} }

// keysLike are the keys that a binding of a topic exchange matches.
func keysLike(pattern string) Keys {
	wild := slices.ContainsFunc(strings.Split(pattern, "."), func(word string) bool { return word == "*" || word == "#" })
	return Keys{pattern, wild}
}

// One is the key, if there is only one.
func (k Keys) One() (string, bool) { return k.text, !k.pattern }

// String is the key, or the pattern.
func (k Keys) String() string { return k.text }

// meet reports whether some key is among both.
func (k Keys) meet(other Keys) bool {
	switch {
	case !k.pattern && !other.pattern:
		return k.text == other.text
	case !k.pattern:
		return overlap(literal(k.text), strings.Split(other.text, "."))
	case !other.pattern:
		return overlap(strings.Split(k.text, "."), literal(other.text))
	}
	return overlap(strings.Split(k.text, "."), strings.Split(other.text, "."))
}

// literal are the words of a key, in which * and # are words like others.
func literal(key string) []string {
	words := strings.Split(key, ".")
	for i, w := range words {
		if w == "*" || w == "#" {
			words[i] = "\x00" + w
		}
	}
	return words
}

// overlap reports whether two patterns match the same key. * is one word, # any number of them.
func overlap(a, b []string) bool {
	// reach[j]: what was read of a matches the same words as the first j words of b.
	reach := make([]bool, len(b)+1)
	reach[0] = true
	skip := func() {
		for j, w := range b {
			if w == "#" && reach[j] {
				reach[j+1] = true
			}
		}
	}
	skip()
	for _, w := range a {
		next := make([]bool, len(b)+1)
		for j := range reach {
			switch {
			case !reach[j]:
				continue
			case w == "#":
				for k := j; k <= len(b); k++ { // as many words as b has there
					next[k] = true
				}
				continue
			case j < len(b) && b[j] == "#":
				next[j] = true
			case j < len(b) && (w == "*" || b[j] == "*" || w == b[j]):
				next[j+1] = true
			}
		}
		reach = next
		skip()
	}
	return reach[len(b)]
}

// Router knows how a broker routes messages.
type Router struct {
	exchanges map[string]topology.LiveExchange
	queues    map[string]topology.LiveQueue
	names     []string                      // of queues
	from      map[string][]topology.Binding // by source
	to        map[string][]topology.Binding // to queues, by destination
}

// RouterOf prepares a Router for many lookups.
func RouterOf(l topology.Live) *Router {
	r := &Router{make(map[string]topology.LiveExchange), make(map[string]topology.LiveQueue), nil, make(map[string][]topology.Binding), make(map[string][]topology.Binding)}
	for _, x := range l.Exchanges {
		r.exchanges[x.Name] = x
	}
	for _, q := range l.Queues {
		r.queues[q.Name] = q
		r.names = append(r.names, q.Name)
	}
	for _, b := range l.Bindings {
		r.from[b.Source] = append(r.from[b.Source], b)
		if !b.ToExchange {
			r.to[b.Destination] = append(r.to[b.Destination], b)
		}
	}
	return r
}

// Incoming are the keys with which messages come to a queue: those of its bindings, or its name if it has none.
func (r *Router) Incoming(queue string) []Keys {
	var all []Keys
	for _, b := range r.to[queue] {
		k := AnyKey()
		switch r.exchanges[b.Source].Type {
		case "direct":
			k = Key(b.Key)
		case "topic":
			k = keysLike(b.Key)
		}
		if !slices.Contains(all, k) {
			all = append(all, k)
		}
	}
	if len(all) == 0 {
		all = []Keys{Key(queue)}
	}
	return all
}

// Route finds the queues to which an exchange may route messages with these keys. How a headers exchange, or
// one of another type, routes is unknown: it may route to all that is bound to it.
func (r *Router) Route(exchange string, keys Keys) []string {
	queues, byName := r.walk(exchange, keys)
	if byName {
		queues = append(queues, r.called(keys)...)
	}
	slices.Sort(queues)
	return slices.Compact(queues)
}

// walk finds the queues to which bindings may route messages, and whether they may come to the default
// exchange, which routes to queues by their names.
func (r *Router) walk(exchange string, keys Keys) (queues []string, byName bool) {
	seen := make(map[string]bool)
	var follow func(exchange string)
	follow = func(exchange string) {
		if seen[exchange] {
			return
		}
		seen[exchange] = true
		if exchange == "" {
			byName = true
			return
		}
		x, there := r.exchanges[exchange]
		if !there {
			return
		}
		found, sure := false, false
		for _, b := range r.from[exchange] {
			switch x.Type {
			case "fanout":
				sure = true
			case "direct":
				if !keys.meet(Key(b.Key)) {
					continue
				}
				sure = sure || !keys.pattern
			case "topic":
				if !keys.meet(keysLike(b.Key)) {
					continue
				}
				sure = sure || !keys.pattern
			}
			found = true
			if b.ToExchange {
				follow(b.Destination)
			} else {
				queues = append(queues, b.Destination)
			}
		}
		alternate, _ := x.Effective("alternate-exchange")
		if name, ok := alternate.(string); ok && !(found && sure) {
			follow(name)
		}
	}
	follow(exchange)
	return queues, byName
}

// called are the queues whose names are among the keys.
func (r *Router) called(keys Keys) (queues []string) {
	if name, one := keys.One(); one {
		if _, there := r.queues[name]; there {
			return []string{name}
		}
		return nil
	}
	for _, name := range r.names {
		if keys.meet(Key(name)) {
			queues = append(queues, name)
		}
	}
	return queues
}

// deadLetterKeys are the keys of dead letters that came to a queue with the given ones.
func deadLetterKeys(q topology.LiveQueue, came Keys) Keys {
	key, _ := q.Effective("dead-letter-routing-key")
	if text, ok := key.(string); ok {
		return Key(text)
	}
	return came
}

// dropsToDeadLetter reports whether a queue takes messages out by itself, because they expire or because it is full, and dead-letters them.
func dropsToDeadLetter(q topology.LiveQueue) bool {
	if _, dies := q.Effective("dead-letter-exchange"); !dies {
		return false
	}
	if _, expires := q.Effective("message-ttl"); expires {
		return true
	}
	_, length := q.Effective("max-length")
	_, bytes := q.Effective("max-length-bytes")
	overflow, _ := q.Effective("overflow")
	return (length || bytes) && overflow != "reject-publish"
}

// Cycles finds the cycles in which a message can return to a queue without being rejected: it expires, or is
// dropped from a full queue, in each queue of the cycle. Each cycle is a list of queues that ends where it
// begins. Of several through the same queue it is the shortest one.
func (r *Router) Cycles() [][]string {
	var all [][]string
	known := make(map[string]bool)
	for _, name := range r.names {
		q := r.queues[name]
		if known[name] || !dropsToDeadLetter(q) {
			continue
		}
		if way := r.cycle(q); way != nil {
			all = append(all, way)
			for _, name := range way {
				known[name] = true
			}
		}
	}
	return all
}

// cycle finds the shortest cycle through a queue, nil if there is none.
func (r *Router) cycle(start topology.LiveQueue) []string {
	type step struct {
		queue topology.LiveQueue
		keys  Keys
		way   []string // to here
	}
	seen := make(map[arrival]bool)
	var next []step
	for _, keys := range r.Incoming(start.Name) {
		next = append(next, step{start, keys, []string{start.Name}})
	}
	for len(next) > 0 {
		at := next[0]
		next = next[1:]
		exchange, _ := deadLetterExchange(at.queue)
		keys := deadLetterKeys(at.queue, at.keys)
		for _, to := range r.Route(exchange, keys) {
			way := append(slices.Clip(at.way), to)
			if to == start.Name {
				return way
			}
			q := r.queues[to]
			if v := (arrival{to, keys}); dropsToDeadLetter(q) && !seen[v] {
				seen[v] = true
				next = append(next, step{q, keys, way})
			}
		}
	}
	return nil
}
