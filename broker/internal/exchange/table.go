package exchange

import (
	"cmp"
	"maps"
	"slices"
	"sync/atomic"

	"github.com/rehop/rehop/internal/wire"
)

// Table has the bindings of one exchange to destinations of type D.
//
// Several goroutines may call Match, Len and All at once, as long as none changes the table.
type Table[D comparable] struct {
	// Meter counts the memory that bindings take, if it is not nil.
	Meter        *atomic.Int64
	bindings     map[identity[D]]*binding[D]
	destinations *destinations[D]
	index        index[D]
	added        uint64 // number of bindings that were ever added; orders them for All
}

// index finds bindings for one kind of exchange.
type index[D comparable] interface {
	add(*binding[D]) error
	remove(*binding[D])
	match(key string, headers func() wire.Table, visit func(D))
}

// NewExact is like New, but for an exchange that compares headers as RabbitMQ does since 4.0: 1 is not
// 1.0, timestamps are in milliseconds, and of several headers with the same name the last is compared.
func NewExact[D comparable](kind Kind) *Table[D] {
	t := New[D](kind)
	if kind == Headers {
		t.index = headers[D]{t.destinations, true}
	}
	return t
}

// New returns an exchange without bindings.
func New[D comparable](kind Kind) *Table[D] {
	t := &Table[D]{
		bindings:     make(map[identity[D]]*binding[D]),
		destinations: &destinations[D]{byName: make(map[D]*destination[D])},
	}
	switch kind {
	case Direct:
		t.index = newDirect(t.destinations)
	case Fanout:
		t.index = fanout[D]{t.destinations}
	case Topic:
		t.index = newTopic(t.destinations)
	case Headers:
		t.index = headers[D]{t.destinations, false}
	default:
		panic("exchange: no such kind: " + string(kind))
	}
	return t
}

// Add binds a destination and reports whether that binding is new. The order of the arguments does not
// matter. For arguments that a client sent, the error is a Refusal.
func (t *Table[D]) Add(dst D, key string, args wire.Table) (added bool, err error) {
	id, args, err := identify(dst, key, args)
	if err != nil {
		return false, err
	}
	if t.bindings[id] != nil {
		return false, nil
	}
	b := &binding[D]{id: id, args: args, number: t.added}
	if err := t.index.add(b); err != nil {
		return false, err
	}
	t.added++
	t.bindings[id] = b
	t.destinations.add(b)
	t.weigh(b.weight())
	return true, nil
}

func (t *Table[D]) weigh(n int64) {
	if t.Meter != nil {
		t.Meter.Add(n)
	}
}

// Clear removes all bindings of an exchange that is deleted together with all its destinations.
func (t *Table[D]) Clear() {
	for _, b := range t.bindings {
		t.weigh(-b.weight())
	}
	clear(t.bindings)
}

// Remove removes a binding and reports whether it existed. The order of the arguments does not matter.
func (t *Table[D]) Remove(dst D, key string, args wire.Table) (removed bool) {
	id, _, err := identify(dst, key, args)
	b := t.bindings[id]
	if err != nil || b == nil {
		return false
	}
	t.remove(b)
	return true
}

// RemoveAll removes every binding of a destination and returns how many there were.
func (t *Table[D]) RemoveAll(dst D) int {
	n := len(t.bindings)
	if to := t.destinations.byName[dst]; to != nil {
		for len(to.bindings) > 0 {
			t.remove(to.bindings[len(to.bindings)-1])
		}
	}
	return n - len(t.bindings)
}

func (t *Table[D]) remove(b *binding[D]) {
	delete(t.bindings, b.id)
	t.weigh(-b.weight())
	t.index.remove(b)
	t.destinations.remove(b)
}

// Match visits each destination that a message matches once, in no particular order. Only headers
// exchanges call headers, and at most once.
func (t *Table[D]) Match(key string, headers func() wire.Table, visit func(dst D)) {
	t.index.match(key, headers, visit)
}

// Of visits the bindings of one destination, in no particular order.
func (t *Table[D]) Of(dst D, visit func(key string, args wire.Table)) {
	if to := t.destinations.byName[dst]; to != nil {
		for _, b := range to.bindings {
			visit(b.id.key, b.args)
		}
	}
}

// Len returns the number of bindings.
func (t *Table[D]) Len() int { return len(t.bindings) }

// All visits every binding, the oldest first, with its arguments sorted by key. The arguments must not
// be changed.
func (t *Table[D]) All(visit func(dst D, key string, args wire.Table)) {
	oldestFirst := func(a, b *binding[D]) int { return cmp.Compare(a.number, b.number) }
	for _, b := range slices.SortedFunc(maps.Values(t.bindings), oldestFirst) {
		visit(b.id.dst, b.id.key, b.args)
	}
}
