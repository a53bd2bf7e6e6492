package wire

import (
	"bytes"
	"encoding/binary"
	"reflect"
	"testing"
)

func headerPayload(properties []byte, bodySize uint64) []byte {
	payload := []byte{0, ClassBasic, 0, 0}
	payload = binary.BigEndian.AppendUint64(payload, bodySize)
	return append(payload, properties...)
}

func TestParseHeader(t *testing.T) {
	raw := everyProperty.Append(nil)
	got, err := ParseHeader(headerPayload(raw, 1<<63))
	want := Header{Class: ClassBasic, BodySize: 1 << 63, Properties: raw}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v; want %+v", got, err, want)
	}
}

func TestMalformedHeaders(t *testing.T) {
	const plain = "\x00\x3c\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
	for _, test := range []struct {
		name, payload string
		want          FrameError
	}{
		{"cut", plain[:11], FrameError{Code: FrameFault, Text: "type 2, all octets = <<0,60,0,0,0,0,0,0,0,0,0>>: unknown_frame"}},
		{"weight", "\x00\x3c\x00\x01" + plain[4:] + "\x00\x00", FrameError{Code: UnexpectedFrame, Text: "expected content header for class 60, got non content header frame instead"}},
		{"other class", "\x00\x32" + plain[2:] + "\x00\x00", FrameError{Code: UnexpectedFrame, Text: "expected content header for class 60, got one for class 50 instead"}},
		{"no flags", plain, FrameError{Code: SyntaxError, Text: "0 bytes are left where 2 are announced"}},
		{"half the flags", plain + "\x00", FrameError{Code: SyntaxError, Text: "1 bytes are left where 2 are announced"}},
		{"bytes behind", plain + "\x00\x00\x00", FrameError{Code: SyntaxError, Text: "1 bytes follow the properties"}},
		{"flags that continue", plain + "\x00\x01\x00\x00", FrameError{Code: SyntaxError, Text: "2 bytes follow the properties"}},
		{"string past the end", plain + "\x80\x00\x05ab", FrameError{Code: SyntaxError, Text: "2 bytes are left where 5 are announced"}},
		{"headers past the end", plain + "\x20\x00\xff\xff\xff\xff", FrameError{Code: SyntaxError, Text: "0 bytes are left where 4294967295 are announced"}},
		{"malformed headers", plain + "\x20\x00\x00\x00\x00\x02\x00z", FrameError{Code: SyntaxError, Text: "a table has a field of unknown type 122"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := ParseHeader([]byte(test.payload))
			wantFault(t, err, test.want)
		})
	}
}

func TestUnknownFlagsAreIgnored(t *testing.T) {
	for _, flags := range []byte{1, 2, 3} {
		raw := []byte{0x10, flags, 2}
		if _, err := ParseHeader(headerPayload(raw, 0)); err != nil {
			t.Errorf("flags %d: got %v, want nil", flags, err)
		}
		got, err := ParseProperties(raw)
		want := Properties{Has: HasDeliveryMode, DeliveryMode: 2}
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("flags %d: got %+v, %v; want %+v", flags, got, err, want)
		}
	}
}

func TestScanProperties(t *testing.T) {
	for _, p := range []Properties{
		{},
		everyProperty,
		{Has: HasHeaders | HasPriority | HasExpiration | HasUserID | HasReplyTo},
		{Has: HasDeliveryMode, DeliveryMode: 1},
		{Has: HasHeaders, Headers: everyType},
	} {
		brief, err := ScanProperties(p.Append(nil))
		checkBrief(t, brief, err, p)
	}
	if _, err := ScanProperties([]byte{0x01, 0, 3, 'x'}); err == nil {
		t.Error("cut expiration: got no error")
	}
}

// checkBrief compares a brief with the properties from which it was scanned.
func checkBrief(t *testing.T, got Brief, err error, p Properties) {
	t.Helper()
	if err != nil {
		t.Fatalf("scan %+v: %v", p, err)
	}
	if got.DeliveryMode != p.DeliveryMode || got.Priority != p.Priority || got.HasPriority != (p.Has&HasPriority != 0) {
		t.Fatalf("got %+v of %+v", got, p)
	}
	for _, text := range []struct {
		got  []byte
		want string
		has  PropertySet
	}{
		{got.ReplyTo, p.ReplyTo, HasReplyTo},
		{got.Expiration, p.Expiration, HasExpiration},
		{got.UserID, p.UserID, HasUserID},
	} {
		if string(text.got) != text.want || (text.got != nil) != (p.Has&text.has != 0) {
			t.Fatalf("got %q (nil: %v), want %q of %+v", text.got, text.got == nil, text.want, p)
		}
	}
	if has := p.Has&HasHeaders != 0; got.HasHeaders != has || (got.Headers != nil) != has {
		t.Fatalf("headers: got %v, % x; want %v", got.HasHeaders, got.Headers, has)
	}
	if got.HasHeaders {
		if headers, err := ParseTable(got.Headers); err != nil || !reflect.DeepEqual(headers, p.Headers) {
			t.Fatalf("headers: got %v, %v; want %v", headers, err, p.Headers)
		}
	}
}

func FuzzHeader(f *testing.F) {
	f.Add(headerPayload(everyProperty.Append(nil), 5))
	f.Add(headerPayload(Properties{Headers: everyType}.Append(nil), 1<<63))
	f.Add(headerPayload([]byte{0, 1}, 0))
	f.Fuzz(func(t *testing.T, payload []byte) {
		h, err := ParseHeader(payload)
		if err != nil {
			return
		}
		if got := headerPayload(h.Properties, h.BodySize); !bytes.Equal(got, payload) {
			t.Fatalf("got % x, want % x", got, payload)
		}
		if _, err := ScanProperties(h.Properties); err != nil {
			t.Fatalf("a checked header cannot be scanned: %v", err)
		}
	})
}
