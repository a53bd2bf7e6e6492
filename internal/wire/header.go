package wire

import (
	"encoding/binary"
	"fmt"
)

// ClassBasic is the only class whose methods carry content.
const ClassBasic = 60

// headerSize is the size of a content header without its properties.
const headerSize = 12

// Header is a content header. Its Properties are part of the payload: flags, then values.
type Header struct {
	Class      uint16
	BodySize   uint64
	Properties []byte
}

// ParseHeader reads the payload of a header frame. It checks everything that ParseProperties checks.
func ParseHeader(payload []byte) (Header, error) {
	if len(payload) < headerSize {
		return Header{}, Frame{Type: FrameHeader, Payload: payload}.malformed("unknown_frame")
	}
	h := Header{
		Class:      binary.BigEndian.Uint16(payload),
		BodySize:   binary.BigEndian.Uint64(payload[4:]),
		Properties: payload[headerSize:],
	}
	if weight := binary.BigEndian.Uint16(payload[2:]); weight != 0 {
		return Header{}, &FrameError{Code: UnexpectedFrame, Text: fmt.Sprintf(
			"expected content header for class %d, got non content header frame instead", ClassBasic)}
	}
	if h.Class != ClassBasic {
		return Header{}, &FrameError{Code: UnexpectedFrame, Text: fmt.Sprintf(
			"expected content header for class %d, got one for class %d instead", ClassBasic, h.Class)}
	}
	if _, err := scan(h.Properties, true); err != nil {
		return Header{}, err
	}
	return h, nil
}

// Brief has the properties that routing and queues need. Its slices are parts of the encoded
// properties, and nil for properties that are absent.
type Brief struct {
	DeliveryMode uint8
	Priority     uint8
	HasPriority  bool
	HasHeaders   bool
	Headers      []byte // a table, its length included
	ReplyTo      []byte
	Expiration   []byte
	UserID       []byte
}

// ScanProperties reads properties that ParseHeader has checked. It does not read the headers.
func ScanProperties(raw []byte) (Brief, error) {
	return scan(raw, false)
}

func scan(raw []byte, checkHeaders bool) (Brief, error) {
	var b Brief
	c := codec{buf: raw}
	has := PropertySet(c.readUint16())
	c.skipShort(has&HasContentType != 0)
	c.skipShort(has&HasContentEncoding != 0)
	if has&HasHeaders != 0 {
		b.HasHeaders = true
		table := c.buf
		if checkHeaders {
			c.skipTable()
		} else {
			c.readLong()
		}
		b.Headers = table[:len(table)-len(c.buf)]
	}
	if has&HasDeliveryMode != 0 {
		b.DeliveryMode = c.readUint8()
	}
	if has&HasPriority != 0 {
		b.Priority, b.HasPriority = c.readUint8(), true
	}
	c.skipShort(has&HasCorrelationID != 0)
	if has&HasReplyTo != 0 {
		b.ReplyTo = c.readShort()
	}
	if has&HasExpiration != 0 {
		b.Expiration = c.readShort()
	}
	c.skipShort(has&HasMessageID != 0)
	if has&HasTimestamp != 0 {
		c.take(8)
	}
	c.skipShort(has&HasType != 0)
	if has&HasUserID != 0 {
		b.UserID = c.readShort()
	}
	c.skipShort(has&HasAppID != 0)
	c.skipShort(has&HasClusterID != 0)
	return b, c.endOf("properties")
}

func (c *codec) skipShort(present bool) {
	if present {
		c.readShort()
	}
}
