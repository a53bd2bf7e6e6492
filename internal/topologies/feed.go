package topologies

import (
	"slices"

	"github.com/rehop/rehop/topology"
)

// Feeder is a queue whose dead letters may come to another queue by its name, through the default exchange.
type Feeder struct {
	topology.LiveQueue
	// Through are the queues in between, which dead-letter the message, too.
	Through []string
}

// arrival is messages that come to a queue with these keys.
type arrival struct {
	queue string
	keys  Keys
}

// Feeders finds the queues whose dead letters may come to a queue by its name, directly or from queue to
// queue. last must be true for the last queue, which dead-letters to that name. What is unknown counts as
// possible: a message that came through a fanout exchange may have any key. The queue itself need not exist.
func (r *Router) Feeders(queue string, last func(topology.LiveQueue) bool) []Feeder {
	var possible []arrival
	seen := make(map[arrival]bool)
	note := func(l arrival) {
		if _, dies := deadLetterExchange(r.queues[l.queue]); dies && l.queue != queue && !seen[l] {
			seen[l] = true
			possible = append(possible, l)
		}
	}
	for _, name := range r.names {
		for _, keys := range r.arrivals(name) {
			note(arrival{name, keys})
		}
	}
	before := make(map[arrival][]arrival)
	ways := make(map[arrival][]string)
	var found []arrival
	for i := 0; i < len(possible); i++ {
		l := possible[i]
		q := r.queues[l.queue]
		exchange, _ := deadLetterExchange(q)
		dead := deadLetterKeys(q, l.keys)
		bound, byName := r.walk(exchange, dead)
		if byName && dead.meet(Key(queue)) && last(q) {
			ways[l] = nil
			found = append(found, l)
			continue
		}
		if byName {
			bound = append(bound, r.called(dead)...)
		}
		for _, to := range bound {
			for _, next := range r.arriving(to, dead) {
				note(next)
				before[next] = append(before[next], l)
			}
		}
	}
	for i := 0; i < len(found); i++ { // the shortest way first
		for _, l := range before[found[i]] {
			if _, known := ways[l]; !known {
				ways[l] = append([]string{found[i].queue}, ways[found[i]]...)
				found = append(found, l)
			}
		}
	}
	var all []Feeder
	for _, name := range r.names {
		var shortest *Feeder
		for _, keys := range r.arrivals(name) {
			if way, feeds := ways[arrival{name, keys}]; feeds && (shortest == nil || len(way) < len(shortest.Through)) {
				shortest = &Feeder{r.queues[name], way}
			}
		}
		if shortest != nil {
			all = append(all, *shortest)
		}
	}
	return all
}

// deadLetterExchange is where dead letters of a queue go, and whether they go anywhere.
func deadLetterExchange(q topology.LiveQueue) (string, bool) {
	v, _ := q.Effective("dead-letter-exchange")
	name, ok := v.(string)
	return name, ok
}

// arrivals are all keys with which messages can come to a queue: those of its bindings, and its name.
func (r *Router) arrivals(queue string) []Keys {
	all := r.Incoming(queue)
	if name := Key(queue); !slices.Contains(all, name) {
		all = append(all, name)
	}
	return all
}

// arriving are the messages with the given keys that can come to a queue. Its bindings may limit their keys.
func (r *Router) arriving(queue string, keys Keys) []arrival {
	if _, one := keys.One(); one {
		return []arrival{{queue, keys}}
	}
	var all []arrival
	for _, k := range r.arrivals(queue) {
		switch {
		case k == AnyKey():
			all = append(all, arrival{queue, keys})
		case keys.meet(k):
			all = append(all, arrival{queue, k})
		}
	}
	return all
}
