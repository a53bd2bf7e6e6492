package rehop

import "encoding/json"

// Codec encodes the values of an [Event] as bodies of messages, and decodes them. The default is JSON.
// It must be safe for concurrent use.
type Codec interface {
	// ContentType is the MIME type of the bodies, such as "application/json".
	ContentType() string
	Marshal(v any) ([]byte, error)
	// Unmarshal decodes a body into v, which is a pointer to a new value: *Order both for an Event[Order] and for an
	// Event[*Order]. It must not keep data.
	Unmarshal(data []byte, v any) error
}

// jsonCodec is the default.
type jsonCodec struct{}

func (jsonCodec) ContentType() string                { return "application/json" }
func (jsonCodec) Marshal(v any) ([]byte, error)      { return json.Marshal(v) }
func (jsonCodec) Unmarshal(data []byte, v any) error { return json.Unmarshal(data, v) }
