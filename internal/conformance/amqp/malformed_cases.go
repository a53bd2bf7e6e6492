package amqp

import (
	"bytes"
	"testing"

	"github.com/rehop/rehop/internal/wire"
)

const (
	framesSection  = "specification 4.2.3, General Frame Format"
	methodsSection = "specification 4.2.4, Method Payloads"
	fieldsSection  = "specification 4.2.5, AMQP Data Fields"
	contentSection = "specification 4.2.6, Content Framing"
	errataPage     = "AMQP 0-9-1 Errata: Field types"
)

func malformedCases() []Case {
	return []Case{
		{"FrameEnd", framesSection, frameEnd},
		{"FrameType", framesSection, refuses(func(*Raw) []byte { return wire.AppendFrame(nil, 7, 0, nil) },
			501, "FRAME_ERROR - type 7, all octets = <<>>: unknown_frame", 0)},
		{"FrameTypeOnChannel", framesSection, refuses(func(*Raw) []byte { return wire.AppendFrame(nil, 4, 1, []byte("seventeen letters")) },
			501, "FRAME_ERROR - type 4, first 16 octets = <<\"seventeen letter\">>: unknown_frame", 0)},
		{"FrameTooLarge", framesSection, frameTooLarge},
		{"FrameTooLargeByItsOverhead", framesSection, frameTooLargeByOverhead},
		{"FrameTooLargeBeforeTune", framesSection, frameTooLargeBeforeTune},
		{"FrameInPieces", framesSection, frameInPieces},
		{"HeartbeatOnChannel", "specification 4.2.7, Heartbeat Frames", refuses(func(*Raw) []byte { return wire.AppendFrame(nil, wire.FrameHeartbeat, 1, nil) },
			505, "UNEXPECTED_FRAME - type 8, all octets = <<>>", 0)},
		{"HeartbeatWithPayload", "specification 4.2.7, Heartbeat Frames", refuses(func(*Raw) []byte { return wire.AppendFrame(nil, wire.FrameHeartbeat, 0, []byte{1}) },
			501, "FRAME_ERROR - type 8, all octets = <<1>>: unknown_frame", 0)},
		{"MethodTooShort", methodsSection, refuses(func(*Raw) []byte { return wire.AppendFrame(nil, wire.FrameMethod, 1, []byte{0, 50, 0}) },
			501, "FRAME_ERROR - type 1, all octets = <<0,50,0>>: unknown_frame", 0)},
		{"MethodCut", methodsSection, refuses(func(*Raw) []byte { return wire.AppendFrame(nil, wire.FrameMethod, 1, []byte{0, 50, 0, 10, 0, 0}) },
			501, "FRAME_ERROR - cannot decode <<0,0>>", wire.IDQueueDeclare)},
		{"MethodTooLong", methodsSection, refuses(func(r *Raw) []byte {
			return wire.AppendFrame(nil, wire.FrameMethod, 1, []byte{0, 60, 0, 80, 0, 0, 0, 0, 0, 0, 0, 1, 0, 99})
		}, 501, "FRAME_ERROR - cannot decode <<0,0,0,0,0,0,0,1,0,99>>", wire.IDBasicAck)},
		{"MethodLengthLies", methodsSection, refuses(func(*Raw) []byte {
			return wire.AppendFrame(nil, wire.FrameMethod, 1, []byte{0, 50, 0, 10, 0, 0, 200, 'q'})
		}, 501, "FRAME_ERROR - cannot decode <<0,0,200,113>>", wire.IDQueueDeclare)},
		{"MethodTableLengthLies", methodsSection, refuses(func(*Raw) []byte {
			return wire.AppendFrame(nil, wire.FrameMethod, 1, []byte{0, 50, 0, 10, 0, 0, 1, 'q', 0, 255, 255, 255, 255})
		}, 501, "FRAME_ERROR - cannot decode <<0,0,1,113,0,255,255,255,255>>", wire.IDQueueDeclare)},
		{"MethodNotUTF8", methodsSection, refuses(func(*Raw) []byte {
			return wire.AppendFrame(nil, wire.FrameMethod, 1, []byte{0, 50, 0, 10, 0, 0, 1, 0xff, 0, 0, 0, 0, 0})
		}, 501, "FRAME_ERROR - Malformed UTF-8 in shortstr", 0)},
		{"MethodFieldTypeUnknown", methodsSection, givesUp(wire.AppendFrame(nil, wire.FrameMethod, 1, []byte{0, 50, 0, 10, 0, 0, 1, 'q', 0, 0, 0, 0, 3, 1, 'k', 'Z'}))},
		{"MethodUnknown", methodsSection, givesUp(wire.AppendFrame(nil, wire.FrameMethod, 1, []byte{0, 60, 3, 231}))},
		{"ClassUnknown", methodsSection, givesUp(wire.AppendFrame(nil, wire.FrameMethod, 1, []byte{3, 231, 0, 10}))},
		{"MethodOnChannel0", "specification 4.2.3, channel 0", refuses(func(r *Raw) []byte { return r.encode(0, &wire.QueueDeclare{Queue: "q"}) },
			504, "CHANNEL_ERROR - unexpected method in connection state running", wire.IDQueueDeclare)},
		{"ContentOnChannel0", "specification 4.2.3, channel 0", refuses(func(*Raw) []byte { return wire.AppendFrame(nil, wire.FrameBody, 0, []byte("body")) },
			505, "UNEXPECTED_FRAME - type 3, all octets = <<\"body\">>", 0)},
		{"HeaderUnasked", contentSection, refuses(func(*Raw) []byte { return contentHeader(wire.ClassBasic, 0, 0) },
			505, "UNEXPECTED_FRAME - expected method frame, got non method frame instead", 0)},
		{"BodyUnasked", contentSection, refuses(func(*Raw) []byte { return wire.AppendFrame(nil, wire.FrameBody, 1, []byte("body")) },
			505, "UNEXPECTED_FRAME - expected method frame, got non method frame instead", 0)},
		{"BodyBeforeHeader", contentSection, refuses(func(r *Raw) []byte {
			return wire.AppendFrame(r.encode(1, &wire.BasicPublish{}), wire.FrameBody, 1, []byte("body"))
		}, 505, "UNEXPECTED_FRAME - expected content header for class 60, got non content header frame instead", wire.IDBasicPublish)},
		{"MethodBeforeHeader", contentSection, refuses(func(r *Raw) []byte {
			return r.encode(1, &wire.BasicPublish{}, &wire.QueueDeclare{Queue: "q"})
		}, 505, "UNEXPECTED_FRAME - expected content header for class 60, got non content header frame instead", wire.IDBasicPublish)},
		{"MethodBeforeBody", contentSection, refuses(func(r *Raw) []byte {
			return append(append(r.encode(1, &wire.BasicPublish{}), contentHeader(wire.ClassBasic, 0, 4)...), r.encode(1, &wire.QueueDeclare{Queue: "q"})...)
		}, 505, "UNEXPECTED_FRAME - expected content body, got non content body frame instead", wire.IDBasicPublish)},
		{"HeaderOfOtherClass", contentSection, refuses(func(r *Raw) []byte {
			return append(r.encode(1, &wire.BasicPublish{}), contentHeader(50, 0, 0)...)
		}, 505, "UNEXPECTED_FRAME - expected content header for class 60, got one for class 50 instead", wire.IDBasicPublish)},
		{"HeaderWithWeight", contentSection, refuses(func(r *Raw) []byte {
			return append(r.encode(1, &wire.BasicPublish{}), contentHeader(wire.ClassBasic, 1, 0)...)
		}, 505, "UNEXPECTED_FRAME - expected content header for class 60, got non content header frame instead", wire.IDBasicPublish)},
		{"HeaderTooShort", contentSection, refuses(func(r *Raw) []byte {
			return wire.AppendFrame(r.encode(1, &wire.BasicPublish{}), wire.FrameHeader, 1, []byte{0, 60, 0, 0})
		}, 501, "FRAME_ERROR - type 2, all octets = <<0,60,0,0>>: unknown_frame", 0)},
		{"PropertiesMissing", contentSection, givesUp(withProperties())},
		{"PropertiesCut", contentSection, givesUp(withProperties(0x80, 0, 9, 'a'))},
		{"PropertiesTooLong", contentSection, givesUp(withProperties(0x80, 0, 1, 'a', 99))},
		{"PropertiesTableLengthLies", contentSection, givesUp(withProperties(0x20, 0, 0, 0, 0, 99, 1, 'k', 't', 1))},
		{"PropertiesFieldLengthLies", contentSection, givesUp(withProperties(0x20, 0, 0, 0, 0, 7, 1, 'k', 'S', 0, 0, 0, 9))},
		{"PropertiesFieldTypeUnknown", contentSection, givesUp(withProperties(0x20, 0, 0, 0, 0, 3, 1, 'k', 'Z'))},
		{"PropertiesFlagsContinued", contentSection, flagsContinued},
		{"PropertiesNotUTF8", contentSection, propertiesNotUTF8},
		{"RoutingKeyNotUTF8", contentSection, routingKeyNotUTF8},
		{"EmptyBodyFrames", contentSection, emptyBodyFrames},
		{"BodyInManyFrames", contentSection, bodyInManyFrames},
		{"CutInTheBody", contentSection, cutInTheBody},
		{"FieldTypes", errataPage, fieldTypes},
		{"FieldTypesInArguments", errataPage, fieldTypesInArguments},
		{"FieldOrderAndDuplicates", fieldsSection, fieldOrder},
		{"FieldNesting", fieldsSection, fieldNesting},
	}
}

// refuses is a case in which the broker closes the connection because of what comes on an open channel 1.
func refuses(frames func(r *Raw) []byte, code uint16, text string, about wire.MethodID) func(*testing.T, *Bench) {
	return func(_ *testing.T, b *Bench) {
		r := b.RawChannel()
		r.Write(frames(r))
		r.WantConnectionClose(code, text, about)
	}
}

// givesUp is a case in which the broker ends the connection because of what comes on an open channel 1. What
// it answers then is not defined: RabbitMQ's reader or channel crashes, so that it answers 541 or nothing.
func givesUp(frames []byte) func(*testing.T, *Bench) {
	return func(t *testing.T, b *Bench) {
		r := b.RawChannel()
		r.Write(frames)
		f, err := r.reader.Next()
		if hungUp(err) {
			return
		}
		b.Must(err)
		if id, _ := wire.PeekMethod(f.Payload); f.Channel != 0 || id != wire.IDConnectionClose {
			t.Fatalf("got %s on channel %d, want the end of the connection", id, f.Channel)
		}
		r.Send(0, &wire.ConnectionCloseOK{})
		r.WantEnd()
	}
}

// withProperties is a message on channel 1 with these bytes for its properties.
func withProperties(properties ...byte) []byte {
	frames := wire.AppendMethod(nil, 1, &wire.BasicPublish{Exchange: "amq.fanout"})
	return wire.AppendContent(frames, 1, wire.ClassBasic, properties, nil, frameMax)
}

// contentHeader is a content header on channel 1 without properties.
func contentHeader(class, weight uint16, size uint8) []byte {
	return wire.AppendFrame(nil, wire.FrameHeader, 1, []byte{
		byte(class >> 8), byte(class), byte(weight >> 8), byte(weight), 0, 0, 0, 0, 0, 0, 0, size, 0, 0,
	})
}

func frameEnd(_ *testing.T, b *Bench) {
	r := b.RawChannel()
	frame := r.encode(1, &wire.ChannelFlow{Active: true})
	frame[len(frame)-1] = 0
	r.Write(frame)
	r.WantConnectionClose(501, "FRAME_ERROR - type 1, all octets = <<0,20,0,20,1>>: {invalid_frame_end_marker,0}", 0)
}

func frameTooLarge(_ *testing.T, b *Bench) {
	r := b.RawChannel()
	// Only what announces its size: the broker reads no further.
	r.Write([]byte{wire.FrameBody, 0, 1, 0, 2, 0, 1})
	r.WantConnectionClose(501, "FRAME_ERROR - type 3, all octets = <<>>: {frame_too_large,131073,131064}", 0)
}

// frameTooLargeByOverhead shows that clients are forgiven who count a frame without its 8 bytes of
// type, channel, size and end.
func frameTooLargeByOverhead(_ *testing.T, b *Bench) {
	r := b.RawChannel()
	r.Queue("q")
	body := bytes.Repeat([]byte{'x'}, frameMax)
	r.Write(wire.AppendContent(r.encode(1, &wire.BasicPublish{RoutingKey: "q"}), 1, wire.ClassBasic, wire.Properties{}.Append(nil), body, frameMax+wire.FrameOverhead))
	_, got := r.Get("q")
	Equal(b, "size of the body", len(got), len(body))
}

func frameTooLargeBeforeTune(t *testing.T, b *Bench) {
	long := string(bytes.Repeat([]byte{'x'}, smallestFrameMax(b)))
	hangsUpAt(wire.ConnectionStartOK{ClientProperties: wire.Table{{Key: "long", Value: long}}, Mechanism: "PLAIN", Response: plain(b.User, b.Password)})(t, b)
}

func frameInPieces(_ *testing.T, b *Bench) {
	r := b.RawChannel()
	frames := wire.AppendHeartbeat(r.encode(1, &wire.QueueDeclare{Queue: "q", Durable: true}))
	for _, piece := range append(frames, r.encode(1, &wire.QueueDeclare{Queue: "q", Passive: true})...) {
		r.Write([]byte{piece})
	}
	Expect[*wire.QueueDeclareOK](r, 1)
	Expect[*wire.QueueDeclareOK](r, 1)
}

func emptyBodyFrames(_ *testing.T, b *Bench) {
	r := b.RawChannel()
	r.Queue("q")
	frames := append(r.encode(1, &wire.BasicPublish{RoutingKey: "q"}), contentHeader(wire.ClassBasic, 0, 2)...)
	for _, part := range []string{"", "a", "", "", "b"} {
		frames = wire.AppendFrame(frames, wire.FrameBody, 1, []byte(part))
	}
	r.Write(frames)
	_, body := r.Get("q")
	Equal(b, "body", string(body), "ab")
}

func bodyInManyFrames(_ *testing.T, b *Bench) {
	r := b.RawChannel()
	r.Queue("q")
	frames := append(r.encode(1, &wire.BasicPublish{RoutingKey: "q"}), contentHeader(wire.ClassBasic, 0, 200)...)
	for i := range 200 {
		frames = wire.AppendFrame(frames, wire.FrameBody, 1, []byte{byte(i)})
	}
	r.Write(frames)
	_, body := r.Get("q")
	for i, got := range body {
		Equal(b, "byte", got, byte(i))
	}
}

func cutInTheBody(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.Queue("q", nil)
	r := b.RawChannel()
	r.Send(1, &wire.QueueDeclare{Queue: "mine", Exclusive: true})
	Expect[*wire.QueueDeclareOK](r, 1)
	r.Write(wire.AppendFrame(append(r.encode(1, &wire.BasicPublish{RoutingKey: "q"}), contentHeader(wire.ClassBasic, 0, 8)...), wire.FrameBody, 1, []byte("half")))
	b.Must(r.conn.Close())
	// The broker has dealt with the cut when what the connection owned is gone.
	b.QueueGone("mine")
	ch.WantBodies("q")
}

// allTypes has a field of each type.
func allTypes() wire.Table {
	return wire.Table{
		{Key: "bool", Value: true},
		{Key: "int8", Value: int8(-8)},
		{Key: "uint8", Value: uint8(200)},
		{Key: "int16", Value: int16(-16000)},
		{Key: "uint16", Value: uint16(60000)},
		{Key: "int32", Value: int32(-2000000000)},
		{Key: "uint32", Value: uint32(4000000000)},
		{Key: "int64", Value: int64(-1 << 62)},
		{Key: "float", Value: float32(1.5)},
		{Key: "double", Value: float64(-2.25)},
		{Key: "decimal", Value: wire.Decimal{Scale: 2, Value: 12345}},
		{Key: "string", Value: "text \x00\xff"},
		{Key: "bytes", Value: []byte{0, 1, 254, 255}},
		{Key: "time", Value: wire.Timestamp(1700000000)},
		{Key: "table", Value: wire.Table{{Key: "inner", Value: "value"}, {Key: "", Value: wire.Table{}}}},
		{Key: "array", Value: wire.Array{int32(1), "two", wire.Array{}, wire.Table{{Key: "three", Value: true}}, nil}},
		{Key: "void", Value: nil},
	}
}

func roundTrip(b *Bench, headers wire.Table) {
	b.t.Helper()
	roundTripProperties(b, wire.Properties{Headers: headers})
}

// roundTripProperties sends properties through a queue and compares them byte by byte.
func roundTripProperties(b *Bench, sent wire.Properties) {
	b.t.Helper()
	r := b.RawChannel()
	r.Queue("q")
	r.Publish(1, &wire.BasicPublish{RoutingKey: "q"}, sent, []byte("body"))
	header, _ := r.Get("q")
	sent.Headers = delivered(b, sent.Headers)
	if want := sent.Append(nil); !bytes.Equal(header.Properties, want) {
		b.t.Errorf("got properties %q\nwant           %q", header.Properties, want)
	}
}

func fieldTypes(_ *testing.T, b *Bench) {
	roundTrip(b, allTypes())
}

// flagsContinued shows that the flag which announces more flags is ignored.
func flagsContinued(_ *testing.T, b *Bench) {
	r := b.RawChannel()
	r.Queue("q")
	r.Send(1, &wire.QueueBind{Queue: "q", Exchange: "amq.fanout"})
	Expect[*wire.QueueBindOK](r, 1)
	r.Write(withProperties(0x80, 1, 4, 't', 'e', 'x', 't'))
	header, _ := r.Get("q")
	properties, err := wire.ParseProperties(header.Properties)
	b.Must(err)
	Equal(b, "content type", properties.ContentType, "text")
}

func propertiesNotUTF8(_ *testing.T, b *Bench) {
	roundTripProperties(b, wire.Properties{ContentType: "\xff", MessageID: "\x80\x00"})
}

func routingKeyNotUTF8(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.Queue("q", nil)
	ch.Bind("q", "", "amq.fanout", nil)
	ch.Send("amq.fanout", "\xff", "through")
	Equal(b, "routing key", ch.Take("q").RoutingKey, "\xff")
}

func fieldTypesInArguments(_ *testing.T, b *Bench) {
	r := b.RawChannel()
	r.Send(1, &wire.QueueDeclare{Queue: "q", Durable: true, Arguments: allTypes()})
	Expect[*wire.QueueDeclareOK](r, 1)
	r.Send(1, &wire.QueueBind{Queue: "q", Exchange: "amq.direct", Arguments: allTypes()})
	Expect[*wire.QueueBindOK](r, 1)
}

func fieldOrder(_ *testing.T, b *Bench) {
	roundTrip(b, wire.Table{{Key: "z", Value: int32(1)}, {Key: "a", Value: int32(2)}, {Key: "z", Value: "again"}, {Key: "m", Value: nil}})
}

func fieldNesting(_ *testing.T, b *Bench) {
	var nested any = "core"
	for range 14 {
		nested = wire.Array{wire.Table{{Key: "in", Value: nested}}}
	}
	roundTrip(b, wire.Table{{Key: "out", Value: nested}})
}
