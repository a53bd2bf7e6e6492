package session

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/rehop/rehop/broker/internal/node"
	"github.com/rehop/rehop/internal/wire"
)

func headerFrame(size uint64, properties []byte) wire.Frame {
	payload := binary.BigEndian.AppendUint16(nil, wire.ClassBasic)
	payload = binary.BigEndian.AppendUint16(payload, 0)
	payload = binary.BigEndian.AppendUint64(payload, size)
	return wire.Frame{Type: wire.FrameHeader, Channel: 1, Payload: append(payload, properties...)}
}

func bodyFrame(body string) wire.Frame {
	return wire.Frame{Type: wire.FrameBody, Channel: 1, Payload: []byte(body)}
}

// receive passes frames until one is refused or the message is complete.
func (in *incoming) receive(frames ...wire.Frame) (done bool, err error) {
	for _, f := range frames {
		if f.Type == wire.FrameHeader {
			done, err = in.header(f, 100, node.RabbitMQ310)
		} else {
			done, err = in.body(f)
		}
		if done || err != nil {
			return done, err
		}
	}
	return false, nil
}

func TestIncoming(t *testing.T) {
	plain := wire.Properties{}.Append(nil)
	for _, c := range []struct {
		name   string
		frames []wire.Frame
		done   bool
		body   string
		fault  string
	}{
		{"empty", []wire.Frame{headerFrame(0, plain)}, true, "", ""},
		{"in one part", []wire.Frame{headerFrame(4, plain), bodyFrame("body")}, true, "body", ""},
		{"in parts", []wire.Frame{headerFrame(4, plain), bodyFrame("bo"), bodyFrame(""), bodyFrame("dy")}, true, "body", ""},
		{"not all", []wire.Frame{headerFrame(4, plain), bodyFrame("bod")}, false, "bod", ""},
		{"too much", []wire.Frame{headerFrame(4, plain), bodyFrame("bodies")}, false, "", "FRAME_ERROR - the body has more than the 4 bytes of its header"},
		{"too much later", []wire.Frame{headerFrame(4, plain), bodyFrame("bod"), bodyFrame("ies")}, false, "bod", "FRAME_ERROR - the body has more than the 4 bytes of its header"},
		{"too large", []wire.Frame{headerFrame(101, plain)}, false, "", "PRECONDITION_FAILED - message size 101 is larger than configured max size 100"},
		{"larger than any", []wire.Frame{headerFrame(1<<64-1, plain)}, false, "", "PRECONDITION_FAILED - message size 18446744073709551615 is larger than configured max size 100"},
		{"a body first", []wire.Frame{bodyFrame("body")}, false, "", "UNEXPECTED_FRAME - expected content header for class 60, got non content header frame instead"},
		{"two headers", []wire.Frame{headerFrame(4, plain), headerFrame(4, plain)}, false, "", "UNEXPECTED_FRAME - expected content body, got non content body frame instead"},
		{"properties cut off", []wire.Frame{headerFrame(0, []byte{0x80, 0, 5, 'a'})}, false, "", "SYNTAX_ERROR"},
		{"no properties", []wire.Frame{headerFrame(0, nil)}, false, "", "SYNTAX_ERROR"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var in incoming
			in.begin(&route{}, true)
			done, err := in.receive(c.frames...)
			if done != c.done {
				t.Errorf("done: got %t, want %t", done, c.done)
			}
			if got := replyText(err); got != c.fault && (c.fault != "SYNTAX_ERROR" || err == nil) {
				t.Errorf("fault: got %q, want %q", got, c.fault)
			}
			if got := string(in.buf[in.split:]); got != c.body {
				t.Errorf("body: got %q, want %q", got, c.body)
			}
		})
	}
}

func TestIncomingUnannounced(t *testing.T) {
	var in incoming
	for _, f := range []wire.Frame{headerFrame(0, wire.Properties{}.Append(nil)), bodyFrame("a")} {
		if _, err := in.receive(f); err != error(errNotAMethod) {
			t.Errorf("frame of type %d: got %v, want %v", f.Type, err, errNotAMethod)
		}
	}
	in.begin(&route{}, false)
	in.reset()
	if _, err := in.receive(bodyFrame("a")); err != error(errNotAMethod) {
		t.Errorf("after reset: got %v, want %v", err, errNotAMethod)
	}
}

// TestIncomingProperties: they are unchanged, except for the broker's flags, and outlive the frame.
func TestIncomingProperties(t *testing.T) {
	properties := wire.Properties{DeliveryMode: 2, Priority: 7, Expiration: "10", Headers: wire.Table{{Key: "k", Value: "v"}}}.Append(nil)
	frame := headerFrame(3, node.SetFlag(bytes.Clone(properties), node.DeathFlag))
	var in incoming
	in.begin(&route{}, true)
	if _, err := in.receive(frame); err != nil {
		t.Fatal(err)
	}
	clear(frame.Payload)
	if done, err := in.receive(bodyFrame("abc")); !done || err != nil {
		t.Fatalf("got %t, %v, want a whole message", done, err)
	}
	if got := in.buf[:in.split]; !bytes.Equal(got, properties) {
		t.Errorf("properties: got %x, want %x", got, properties)
	}
	if b := in.brief; b.DeliveryMode != 2 || b.Priority != 7 || string(b.Expiration) != "10" || !b.HasHeaders {
		t.Errorf("brief: got %+v", b)
	}
	if !in.mandatory || in.route == nil {
		t.Error("what the method said is forgotten")
	}
}

// TestIncomingMemory: the size in a header costs nothing before the client sends the body.
func TestIncomingMemory(t *testing.T) {
	var in incoming
	in.begin(&route{}, false)
	if _, err := in.header(headerFrame(1<<30, wire.Properties{}.Append(nil)), 1<<30, node.RabbitMQ310); err != nil {
		t.Fatal(err)
	}
	if got := cap(in.buf); got > firstBody+1024 {
		t.Errorf("set aside: got %d bytes, want about %d", got, firstBody)
	}
}
