package wire

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
)

// checkPublish compares ParsePublish with the given result of ParseMethod.
func checkPublish(t *testing.T, payload []byte, m Method, err error) {
	t.Helper()
	if id, _ := PeekMethod(payload); id != IDBasicPublish {
		return
	}
	got, gotErr := ParsePublish(payload)
	if err != nil {
		if !reflect.DeepEqual(gotErr, err) {
			t.Fatalf("ParsePublish: got error %v, want %v", gotErr, err)
		}
		return
	}
	want := m.(*BasicPublish)
	if gotErr != nil || string(got.Exchange) != want.Exchange || string(got.RoutingKey) != want.RoutingKey ||
		got.Mandatory != want.Mandatory || got.Immediate != want.Immediate {
		t.Fatalf("ParsePublish: got %+v, %v; want %+v", got, gotErr, want)
	}
}

// checkAck compares ParseAck with the given result of ParseMethod.
func checkAck(t *testing.T, payload []byte, m Method, err error) {
	t.Helper()
	if id, _ := PeekMethod(payload); id != IDBasicAck {
		return
	}
	got, gotErr := ParseAck(payload)
	if err != nil {
		if !reflect.DeepEqual(gotErr, err) {
			t.Fatalf("ParseAck: got error %v, want %v", gotErr, err)
		}
		return
	}
	want := m.(*BasicAck)
	if gotErr != nil || got != (AckArgs{want.DeliveryTag, want.Multiple}) {
		t.Fatalf("ParseAck: got %+v, %v; want %+v", got, gotErr, want)
	}
}

func TestParsePublishAndAck(t *testing.T) {
	for _, e := range encodings {
		payload := methodPayload(t, e.method)
		checkPublish(t, payload, e.method, nil)
		checkAck(t, payload, e.method, nil)
	}
	for _, cut := range []Method{&BasicPublish{Exchange: "e", RoutingKey: "k"}, &BasicAck{}} {
		payload := methodPayload(t, cut)
		for n := methodIDSize; n < len(payload); n++ {
			m, err := ParseMethod(payload[:n])
			if err == nil {
				t.Fatalf("%s cut to %d bytes: got no error", cut.ID(), n)
			}
			checkPublish(t, payload[:n], m, err)
			checkAck(t, payload[:n], m, err)
		}
	}
	other := methodPayload(t, &TxSelect{})
	_, err := ParsePublish(other)
	wantFault(t, err, FrameError{UnexpectedFrame, 0, "type 1, all octets = <<0,90,0,10>>"})
	_, err = ParseAck(nil)
	wantFault(t, err, FrameError{UnexpectedFrame, 0, "type 1, all octets = <<>>"})
}

func TestAppendsOfHotMethodsEqualAppendMethod(t *testing.T) {
	for _, test := range []struct {
		got  []byte
		want Method
	}{
		{AppendDeliver(nil, 7, "tag", 1<<40, true, "e", "k"), &BasicDeliver{"tag", 1 << 40, true, "e", "k"}},
		{AppendDeliver(nil, 7, "", 1, false, "", ""), &BasicDeliver{DeliveryTag: 1}},
		{AppendAck(nil, 7, 1<<63, true), &BasicAck{1 << 63, true}},
		{AppendAck(nil, 7, 1, false), &BasicAck{DeliveryTag: 1}},
		{AppendNack(nil, 7, 5, true, false), &BasicNack{5, true, false}},
		{AppendNack(nil, 7, 5, false, true), &BasicNack{5, false, true}},
	} {
		if want := AppendMethod(nil, 7, test.want); !bytes.Equal(test.got, want) {
			t.Errorf("%s: got % x, want % x", test.want.ID(), test.got, want)
		}
	}
}

func TestAppendDeliverWithTooLongANameAddsNothing(t *testing.T) {
	long := strings.Repeat("x", MaxShort+1)
	for _, got := range [][]byte{
		AppendDeliver([]byte("before"), 1, long, 1, false, "", ""),
		AppendDeliver([]byte("before"), 1, "", 1, false, long, ""),
		AppendDeliver([]byte("before"), 1, "", 1, false, "", long),
	} {
		if string(got) != "before" {
			t.Errorf("got %q, want nothing added", got)
		}
	}
}

func TestHotPathDoesNotAllocate(t *testing.T) {
	publish := methodPayload(t, &BasicPublish{Exchange: "orders", RoutingKey: "eu.paid"})
	ack := methodPayload(t, &BasicAck{DeliveryTag: 9})
	header := headerPayload(Properties{DeliveryMode: 2, Expiration: "60000", Headers: everyType}.Append(nil), 256)
	raw := header[headerSize:]
	dst := make([]byte, 0, 4096)
	body := make([]byte, 256)
	for _, test := range []struct {
		name string
		run  func()
	}{
		{"ParsePublish", func() { ParsePublish(publish) }},
		{"ParseAck", func() { ParseAck(ack) }},
		{"ParseHeader", func() { ParseHeader(header) }},
		{"ScanProperties", func() { ScanProperties(raw) }},
		{"AppendDeliver", func() { AppendDeliver(dst, 1, "tag", 1, false, "orders", "eu.paid") }},
		{"AppendAck", func() { AppendAck(dst, 1, 1, true) }},
		{"AppendNack", func() { AppendNack(dst, 1, 1, true, false) }},
		{"AppendContent", func() { AppendContent(dst, 1, ClassBasic, raw, body, 0) }},
	} {
		if got := testing.AllocsPerRun(100, test.run); got != 0 {
			t.Errorf("%s: got %v allocations, want 0", test.name, got)
		}
	}
}

func BenchmarkParsePublish(b *testing.B) {
	payload := methodPayload(b, &BasicPublish{Exchange: "orders", RoutingKey: "eu.paid"})
	b.ReportAllocs()
	for b.Loop() {
		ParsePublish(payload)
	}
}

func BenchmarkAppendDeliver(b *testing.B) {
	dst := make([]byte, 0, 4096)
	b.ReportAllocs()
	for b.Loop() {
		AppendDeliver(dst, 1, "ctag-1", 77, false, "orders", "eu.paid")
	}
}
