package layouts

import (
	"errors"
	"fmt"

	"github.com/rehop/rehop/layout"
)

// Must is Of for the layouts that rehop itself names. It panics where Of returns an error.
func Must(l layout.Layout) Layout {
	made, err := Of(l)
	if err != nil {
		panic("layouts: " + err.Error())
	}
	return made
}

// Of is the mechanics of a layout. It is an error if the layout is nil or not of package layout: types
// that embed one of those, and pointers to one, satisfy the interface, too.
func Of(l layout.Layout) (Layout, error) {
	switch l := l.(type) {
	case layout.Native:
		return Native{Type: l.Type}, nil
	case layout.PubSub:
		return pubSub{PubSub: l}, nil
	case layout.DLX:
		return dlx{DLX: l}, nil
	case layout.Tiers:
		return tiers{Tiers: l}, nil
	case layout.Sneakers:
		return sneakers{Sneakers: l}, nil
	case layout.Envelope:
		return enveloped{Envelope: l}, nil
	case nil:
		return nil, errors.New("is nil")
	}
	return nil, fmt.Errorf("%T is not a layout of package layout: use layout.Native, PubSub, DLX, Tiers, Sneakers or Envelope itself, "+
		"as a value, not a pointer to it or a type that embeds it", l)
}
