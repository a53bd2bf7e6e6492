package node

import (
	"slices"

	"github.com/rehop/rehop/broker/internal/exchange"
	"github.com/rehop/rehop/internal/wire"
)

// Route returns the queues that a message with these keys reaches through an exchange. If plain, every message with the
// same keys reaches the same queues.
func (v *Vhost) Route(x *Exchange, keys []string, headers func() wire.Table) (queues []*Queue, plain bool) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	plain = true
	var reached set[*Queue]
	var visited set[*Exchange]
	visited.add(x)
	for i := 0; i < len(visited.all); i++ {
		x := visited.all[i]
		if x.Name == "" {
			for _, key := range keys {
				if q := v.queues[key]; q != nil {
					reached.add(q)
				}
			}
			continue
		}
		plain = plain && x.Kind != exchange.Headers
		matched := false
		for _, key := range keys {
			x.bindings.Match(key, headers, func(d Destination) {
				matched = true
				if d.Queue != nil {
					reached.add(d.Queue)
				} else {
					visited.add(d.Exchange)
				}
			})
		}
		if !matched && x.alternate != "" {
			if other := v.exchanges[x.alternate]; other != nil {
				visited.add(other)
			}
		}
	}
	return reached.all, plain
}

// set keeps each value once, in the order in which they were added.
type set[T comparable] struct {
	all   []T
	known map[T]struct{} // when there are many
}

// few is up to how many values a search is faster than a map.
const few = 16

func (s *set[T]) add(value T) {
	if s.known == nil {
		if slices.Contains(s.all, value) {
			return
		}
	} else if _, there := s.known[value]; there {
		return
	}
	s.all = append(s.all, value)
	switch {
	case s.known != nil:
		s.known[value] = struct{}{}
	case len(s.all) > few:
		s.known = make(map[T]struct{}, 2*few)
		for _, other := range s.all {
			s.known[other] = struct{}{}
		}
	}
}
