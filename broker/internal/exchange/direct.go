package exchange

import (
	"sync"

	"github.com/rehop/rehop/internal/wire"
)

// direct finds bindings by their key.
type direct[D comparable] struct {
	destinations *destinations[D]
	keys         map[string]group[D]
	visited      sync.Pool // of *visited
}

func newDirect[D comparable](all *destinations[D]) *direct[D] {
	return &direct[D]{
		destinations: all,
		keys:         make(map[string]group[D]),
		visited:      sync.Pool{New: func() any { return new(visited) }},
	}
}

func (d *direct[D]) add(b *binding[D]) error {
	d.keys[b.id.key] = d.keys[b.id.key].with(b)
	return nil
}

func (d *direct[D]) remove(b *binding[D]) {
	d.keys[b.id.key] = d.keys[b.id.key].without(b)
	if len(d.keys[b.id.key]) == 0 {
		delete(d.keys, b.id.key)
	}
}

func (d *direct[D]) match(key string, _ func() wire.Table, visit func(D)) {
	bound := d.keys[key]
	switch len(bound) {
	case 0:
	case 1:
		visit(bound[0].id.dst)
	default:
		seen := d.visited.Get().(*visited)
		seen.begin(len(d.destinations.all))
		bound.visit(seen, visit)
		d.visited.Put(seen)
	}
}
