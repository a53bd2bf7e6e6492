package session

import (
	"github.com/rehop/rehop/broker/internal/node"
	"github.com/rehop/rehop/internal/wire"
)

// expectation is what the next frame of a channel must be.
type expectation int

const (
	nothing expectation = iota
	aHeader
	aBody
)

// incoming is a message that is being received.
type incoming struct {
	expects   expectation
	route     *route
	mandatory bool
	brief     wire.Brief
	buf       []byte // properties, then body
	split     int    // where the body begins
	size      uint64 // of the body, according to the header
	twice     bool   // a header occurs more than once, and consumers must get it once
	charge    reservation
}

// errNotAMethod: a header or a body arrives without a method before it.
var errNotAMethod = &wire.FrameError{Code: wire.UnexpectedFrame, Text: "expected method frame, got non method frame instead"}

// firstBody is how much is allocated for a body in advance. It is enough for most bodies. The buffer of a larger one
// grows with what the client really sends.
const firstBody = 4 << 10

func (in *incoming) begin(r *route, mandatory bool) {
	*in = incoming{expects: aHeader, route: r, mandatory: mandatory}
}

// cost is how many bytes of memory the complete message uses.
func (in *incoming) cost() int { return node.PublicationOverhead + in.split + int(in.size) }

// come is how many bytes of the body have arrived.
func (in *incoming) come() int { return len(in.buf) - in.split }

func (in *incoming) reset() { *in = incoming{} }

// interrupted returns the exception for a frame of the wrong type.
func (in *incoming) interrupted() error {
	if in.expects == aHeader {
		return refuseWith(wire.IDBasicPublish, wire.UnexpectedFrame, "expected content header for class %d, got non content header frame instead", wire.ClassBasic)
	}
	return refuseWith(wire.IDBasicPublish, wire.UnexpectedFrame, "expected content body, got non content body frame instead")
}

// header handles the header; done: there is no body.
func (in *incoming) header(f wire.Frame, max int, compat node.Compat) (done bool, err error) {
	switch in.expects {
	case nothing:
		return false, errNotAMethod
	case aBody:
		return false, in.interrupted()
	}
	h, err := wire.ParseHeader(f.Payload)
	if err != nil {
		if x, ok := asException(err); ok {
			return false, x
		}
		return false, err
	}
	if h.BodySize > uint64(max) {
		return false, node.Refuse(wire.PreconditionFailed, "message size %d is larger than configured max size %d", h.BodySize, max)
	}
	in.size, in.split = h.BodySize, len(h.Properties)
	in.buf = make([]byte, in.split, in.split+int(min(h.BodySize, firstBody)))
	copy(in.buf, h.Properties)
	in.buf[1] &^= node.OwnFlags
	if in.brief, err = wire.ScanProperties(in.buf[:in.split]); err != nil {
		return false, err
	}
	if in.brief.HasHeaders && compat.Normalizes() {
		in.twice = !wire.OrderTable(in.brief.Headers)
	}
	in.expects = aBody
	return in.size == 0, nil
}

// body handles a part of the body; done: it was the last.
func (in *incoming) body(f wire.Frame) (done bool, err error) {
	switch in.expects {
	case nothing:
		return false, errNotAMethod
	case aHeader:
		return false, in.interrupted()
	}
	if uint64(in.come())+uint64(len(f.Payload)) > in.size {
		return false, node.Refuse(wire.FrameFault, "the body has more than the %d bytes of its header", in.size)
	}
	if need := len(in.buf) + len(f.Payload); need > cap(in.buf) { // grow with what has arrived, and never beyond the whole message
		in.buf = append(make([]byte, 0, min(max(need, 2*cap(in.buf)), in.split+int(in.size))), in.buf...)
	}
	in.buf = append(in.buf, f.Payload...)
	return uint64(in.come()) == in.size, nil
}
