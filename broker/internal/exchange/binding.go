package exchange

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rehop/rehop/internal/wire"
)

// identity is what makes two bindings of an exchange the same one.
type identity[D comparable] struct {
	dst  D
	key  string
	args string // encoded, sorted by key
}

// identify also returns the arguments sorted by key: so RabbitMQ keeps, compares and lists them.
func identify[D comparable](dst D, key string, args wire.Table) (identity[D], wire.Table, error) {
	if len(args) == 0 {
		return identity[D]{dst: dst, key: key}, nil, nil
	}
	if err := args.Check(); err != nil {
		return identity[D]{}, nil, fmt.Errorf("bind with arguments that AMQP cannot carry: %w", err)
	}
	args = sorted(args)
	return identity[D]{dst, key, string(wire.AppendTable(nil, args))}, args, nil
}

// sorted returns a copy in which fields of the same key keep their order.
func sorted(t wire.Table) wire.Table {
	t = slices.Clone(t)
	slices.SortStableFunc(t, func(a, b wire.Field) int { return strings.Compare(a.Key, b.Key) })
	return t
}

// binding leads to a destination. It knows its places in the lists that hold it, to leave them in constant time.
type binding[D comparable] struct {
	id      identity[D]
	args    wire.Table
	number  uint64
	to      *destination[D]
	pattern pattern // headers exchanges only

	inDestination int
	inGroup       int
}

// bindingOverhead is about what a binding takes of memory beside its key and arguments, with its definition on disk.
const bindingOverhead = 768

// weight is about how many bytes the binding takes: its arguments are there as they came, as they are compared, and in its definition.
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
	last := len(g) - 1
	g[b.inGroup] = g[last]
	g[b.inGroup].inGroup = b.inGroup
	g[last] = nil
	return g[:last]
}

// visit leaves out destinations that have been seen: one may be bound several times, with other arguments or patterns.
func (g group[D]) visit(seen *once, visit func(D)) {
	for _, b := range g {
		if seen.first(b.to.number) {
			visit(b.id.dst)
		}
	}
}
