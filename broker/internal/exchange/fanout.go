package exchange

import "github.com/rehop/rehop/internal/wire"

// fanout needs no index: every binding matches.
type fanout[D comparable] struct {
	destinations *destinations[D]
}

func (fanout[D]) add(*binding[D]) error { return nil }

func (fanout[D]) remove(*binding[D]) {}

func (f fanout[D]) match(_ string, _ func() wire.Table, visit func(D)) {
	for _, to := range f.destinations.all {
		visit(to.name)
	}
}
