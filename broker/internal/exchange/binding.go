package exchange

import (
	"fmt"

	"github.com/rehop/rehop/internal/wire"
)

// identity is what makes two bindings of an exchange the same one.
type identity[D comparable] struct {
	dst  D
	key  string
	args string // encoded, sorted by key
}

// identify also returns the arguments sorted by key, as RabbitMQ keeps, compares and lists them.
func identify[D comparable](dst D, key string, args wire.Table) (identity[D], wire.Table, error) {
	if len(args) == 0 {
		return identity[D]{dst: dst, key: key}, nil, nil
	}
	if err := args.Check(); err != nil {
		return identity[D]{}, nil, fmt.Errorf("bind with arguments that AMQP cannot encode: %w", err)
	}
	args = args.Sorted()
	return identity[D]{dst, key, string(wire.AppendTable(nil, args))}, args, nil
}

// binding routes to a destination. It has its positions in the lists that contain it, so that it can
// be removed from them in constant time.
type binding[D comparable] struct {
	id      identity[D]
	args    wire.Table
	number  uint64
	to      *destination[D]
	pattern pattern // headers exchanges only

	inDestination int
	inGroup       int
}

// bindingOverhead is about how many bytes a binding takes without its key and arguments, with its
// definition on disk.
const bindingOverhead = 768

// weight is about how many bytes the binding takes. Its arguments are stored three times: in args, in
// the identity, and in its definition.
func (b *binding[D]) weight() int64 {
	return int64(bindingOverhead + 2*len(b.id.key) + 3*b.args.Weight())
}

// group is the bindings that match the same routing keys.
type group[D comparable] []*binding[D]

func (g group[D]) with(b *binding[D]) group[D] {
	b.inGroup = len(g)
	return append(g, b)
}

func (g group[D]) without(b *binding[D]) group[D] {
	return removeAt(g, b.inGroup, func(b *binding[D]) *int { return &b.inGroup })
}

// visit skips destinations that were visited: one may be bound several times, with different arguments
// or patterns.
func (g group[D]) visit(seen *visited, visit func(D)) {
	for _, b := range g {
		if seen.first(b.to.number) {
			visit(b.id.dst)
		}
	}
}

// removeAt moves the last item of a list to the place of a removed one. Each item has its position in
// the list.
func removeAt[T any](list []T, at int, position func(T) *int) []T {
	last := len(list) - 1
	list[at] = list[last]
	*position(list[at]) = at
	clear(list[last:])
	return list[:last]
}
