package session

import (
	"fmt"

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

// incoming is a message that a client is sending.
type incoming struct {
	expects   expectation
	way       *route
	mandatory bool
	brief     wire.Brief
	buf       []byte // properties, then body
	split     int    // where the body begins
	size      uint64 // of the body, as the client says
	twice     bool   // a header is there more than once, which must not arrive
	charge    reservation
}

// errNotAMethod: content comes that no method has announced.
var errNotAMethod = &wire.FrameError{Code: wire.UnexpectedFrame, Text: "expected method frame, got non method frame instead"}

// firstBody is how much is set aside for a body before it has come: most are small, and need to be allocated once. Of larger ones
// the client must send what it wants to be kept.
const firstBody = 4 << 10

func (in *incoming) begin(w *route, mandatory bool) {
	*in = incoming{expects: aHeader, way: w, mandatory: mandatory}
}

// cost is how many bytes of memory the message takes when it is complete.
func (in *incoming) cost() int { return node.PublicationOverhead + in.split + int(in.size) }

// come is how many bytes of the body have come.
func (in *incoming) come() int { return len(in.buf) - in.split }

func (in *incoming) reset() { *in = incoming{} }

// interrupted says why a method must not come now.
func (in *incoming) interrupted(f wire.Frame) error {
	if in.expects == aHeader {
		return &node.Exception{Code: wire.UnexpectedFrame, Text: fmt.Sprintf("expected content header for class %d, got non content header frame instead", wire.ClassBasic), Method: wire.IDBasicPublish}
	}
	return &node.Exception{Code: wire.UnexpectedFrame, Text: "expected content body, got non content body frame instead", Method: wire.IDBasicPublish}
}

// header takes the header; done: there is no body.
func (in *incoming) header(f wire.Frame, max int, compat node.Compat) (done bool, err error) {
	switch in.expects {
	case nothing:
		return false, errNotAMethod
	case aBody:
		return false, in.interrupted(f)
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

// body takes a part of the body; done: it was the last.
func (in *incoming) body(f wire.Frame) (done bool, err error) {
	switch in.expects {
	case nothing:
		return false, errNotAMethod
	case aHeader:
		return false, in.interrupted(f)
	}
	if uint64(in.come())+uint64(len(f.Payload)) > in.size {
		return false, node.Refuse(wire.FrameFault, "the body has more than the %d bytes of its header", in.size)
	}
	if need := len(in.buf) + len(f.Payload); need > cap(in.buf) { // grows with what has come, and never beyond the whole message
		in.buf = append(make([]byte, 0, min(max(need, 2*cap(in.buf)), in.split+int(in.size))), in.buf...)
	}
	in.buf = append(in.buf, f.Payload...)
	return uint64(in.come()) == in.size, nil
}
