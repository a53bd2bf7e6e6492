package exchange

// destination is where bindings lead.
type destination[D comparable] struct {
	name     D
	number   int // its place among all
	bindings []*binding[D]
}

// destinations is every destination that has a binding, numbered without gaps.
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
	last := len(to.bindings) - 1
	to.bindings[b.inDestination] = to.bindings[last]
	to.bindings[b.inDestination].inDestination = b.inDestination
	to.bindings[last] = nil
	to.bindings = to.bindings[:last]
	if last == 0 {
		ds.drop(to)
	}
}

func (ds *destinations[D]) drop(to *destination[D]) {
	delete(ds.byName, to.name)
	last := len(ds.all) - 1
	ds.all[to.number] = ds.all[last]
	ds.all[to.number].number = to.number
	ds.all[last] = nil
	ds.all = ds.all[:last]
}
