// Package protobuf has a codec for events whose values are messages of Protocol Buffers.
package protobuf

import (
	"fmt"

	"google.golang.org/protobuf/proto"
)

// Codec encodes and decodes the values of a [rehop.Event] that are messages of Protocol Buffers. The type of the
// event is the pointer that protoc-gen-go generates the methods for: rehop.Event[*orderpb.Order].
type Codec struct{}

// ContentType is what consumers recognise the format by.
func (Codec) ContentType() string { return "application/protobuf" }

// Marshal encodes a value. A value that is no message is a mistake in the program.
func (Codec) Marshal(v any) ([]byte, error) {
	m, ok := v.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("%T is not a message of Protocol Buffers: use the pointer as the type of the event", v)
	}
	return proto.Marshal(m)
}

// Unmarshal decodes into a new value. Fields that the value does not know are kept, so that newer publishers do no harm.
func (Codec) Unmarshal(data []byte, v any) error {
	m, ok := v.(proto.Message)
	if !ok {
		return fmt.Errorf("%T is not a message of Protocol Buffers: use the pointer as the type of the event", v)
	}
	return proto.Unmarshal(data, m)
}
