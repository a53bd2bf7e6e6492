package exchange

// destination is a queue or exchange to which bindings route.
type destination[D comparable] struct {
	name     D
	number   int // position in destinations.all
	bindings []*binding[D]
}

// destinations has every destination with a binding, numbered without gaps.
type destinations[D comparable] struct {
	byName map[D]*destination[D]
	all    []*destination[D]
}

func (ds *destinations[D]) add(b *binding[D]) {
	to := ds.byName[b.id.dst]
	if to == nil {
		to = &destination[D]{name: b.id.dst, number: len(ds.all)}
		ds.byName[to.name] = to
		ds.all = append(ds.all, to)
	}
	b.to = to
	b.inDestination = len(to.bindings)
	to.bindings = append(to.bindings, b)
}

func (ds *destinations[D]) remove(b *binding[D]) {
	to := b.to
	to.bindings = removeAt(to.bindings, b.inDestination, func(b *binding[D]) *int { return &b.inDestination })
	if len(to.bindings) == 0 {
		delete(ds.byName, to.name)
		ds.all = removeAt(ds.all, to.number, func(d *destination[D]) *int { return &d.number })
	}
}
