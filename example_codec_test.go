package rehop_test

import (
	"context"
	"encoding"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/rehop/rehop"
)

// Binary is a codec for values that encode themselves. A codec for Protocol Buffers looks the same, with
// proto.Message instead of Wire.
type Binary struct{ MIME string }

// Wire is what the pointer to such a value implements.
type Wire interface {
	encoding.BinaryMarshaler
	encoding.BinaryUnmarshaler
}

func (b Binary) ContentType() string { return b.MIME }

func (Binary) Marshal(v any) ([]byte, error) {
	w, ok := v.(Wire)
	if !ok {
		return nil, fmt.Errorf("%T cannot encode itself", v)
	}
	return w.MarshalBinary()
}

func (Binary) Unmarshal(data []byte, v any) error {
	w, ok := v.(Wire)
	if !ok {
		return fmt.Errorf("%T cannot decode itself", v)
	}
	return w.UnmarshalBinary(data)
}

// Reading is what a thermometer sends, in thousandths of a degree.
type Reading struct{ Thermometer, Millidegrees int64 }

// MarshalBinary writes both numbers as variable-length integers, as Protocol Buffers do.
func (r *Reading) MarshalBinary() ([]byte, error) {
	return binary.AppendVarint(binary.AppendVarint(nil, r.Thermometer), r.Millidegrees), nil
}

// UnmarshalBinary reads them.
func (r *Reading) UnmarshalBinary(data []byte) error {
	var n int
	for _, field := range []*int64{&r.Thermometer, &r.Millidegrees} {
		if *field, n = binary.Varint(data); n <= 0 {
			return errors.New("not a reading")
		}
		data = data[n:]
	}
	return nil
}

// An event can have another codec than JSON. Its type is the pointer, because only that has the methods.
func ExampleCodec() {
	measured := rehop.Event[*Reading]{
		Exchange: "weather", Key: "reading", Type: "reading.v1",
		Codec: Binary{MIME: "application/x-reading"},
	}
	m, err := measured.Message(&Reading{Thermometer: 4, Millidegrees: -1500})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s %s %x\n", m.Type, m.ContentType, m.Body)

	handler := measured.Handler(func(_ context.Context, r *Reading) error {
		fmt.Printf("%+v\n", *r)
		return nil
	})
	fmt.Println(handler.Handle(context.Background(), &rehop.Delivery{Message: m}))
	m.Body = nil
	fmt.Println(handler.Handle(context.Background(), &rehop.Delivery{Message: m}))
	// Output:
	// reading.v1 application/x-reading 08b717
	// {Thermometer:4 Millidegrees:-1500}
	// <nil>
	// decode body as *rehop_test.Reading: not a reading
}
