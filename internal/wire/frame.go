// Package wire reads and writes AMQP 0-9-1: frames, methods, content headers, properties and tables.
package wire

import (
	"encoding/binary"
	"math"
	"slices"
)

// ProtocolHeader is what a client sends first.
const ProtocolHeader = "AMQP\x00\x00\x09\x01"

// Types of frames.
const (
	FrameMethod    = 1
	FrameHeader    = 2
	FrameBody      = 3
	FrameHeartbeat = 8
)

const (
	// FrameEnd is the last byte of every frame.
	FrameEnd = 0xCE
	// FrameMinSize is the frame-max that every peer accepts, and the limit until another is negotiated.
	FrameMinSize = 4096
	// FrameOverhead is the size of a frame without its payload.
	FrameOverhead = prefixSize + 1

	prefixSize = 7 // type, channel, size of the payload
)

// Frame is one frame. Its Payload is valid until the next call of the Reader that returned it.
type Frame struct {
	Type    uint8
	Channel uint16
	Payload []byte
}

// wellFormed reports whether the type is known and the payload has what the type needs.
func (f Frame) wellFormed() bool {
	switch f.Type {
	case FrameMethod:
		return len(f.Payload) >= methodIDSize
	case FrameHeader:
		return len(f.Payload) >= headerSize
	case FrameBody:
		return true
	case FrameHeartbeat:
		return len(f.Payload) == 0
	}
	return false
}

// AppendFrame appends a whole frame. Like every Append function of this package, it adds nothing when
// the protocol has no room for the value: here, a payload of 4 GiB or more.
func AppendFrame(dst []byte, typ uint8, channel uint16, payload []byte) []byte {
	start := len(dst)
	dst = openFrame(dst, typ, channel)
	dst = append(dst, payload...)
	return closeFrame(dst, start)
}

// AppendHeartbeat appends a heartbeat frame.
func AppendHeartbeat(dst []byte) []byte {
	return AppendFrame(dst, FrameHeartbeat, 0, nil)
}

// AppendContent appends a content header, and the body in frames of at most frameMax. A frameMax that
// leaves no room for a body, such as 0, means no limit. An empty body has no frame.
func AppendContent(dst []byte, channel, class uint16, props, body []byte, frameMax int) []byte {
	start := len(dst)
	dst = openFrame(dst, FrameHeader, channel)
	dst = binary.BigEndian.AppendUint16(dst, class)
	dst = binary.BigEndian.AppendUint16(dst, 0) // weight
	dst = binary.BigEndian.AppendUint64(dst, uint64(len(body)))
	dst = append(dst, props...)
	dst = closeFrame(dst, start)
	most := frameMax - FrameOverhead
	if most <= 0 {
		most = math.MaxInt32
	}
	for part := range slices.Chunk(body, most) {
		dst = AppendFrame(dst, FrameBody, channel, part)
	}
	return dst
}

// openFrame begins a frame whose size closeFrame fills in.
func openFrame(dst []byte, typ uint8, channel uint16) []byte {
	return append(dst, typ, byte(channel>>8), byte(channel), 0, 0, 0, 0)
}

// closeFrame ends the frame that begins at start, or removes it if it is too long.
func closeFrame(dst []byte, start int) []byte {
	size := uint64(len(dst) - start - prefixSize)
	if size > math.MaxUint32 {
		return dst[:start]
	}
	binary.BigEndian.PutUint32(dst[start+3:], uint32(size))
	return append(dst, FrameEnd)
}
