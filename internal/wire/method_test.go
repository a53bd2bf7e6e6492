package wire

import (
	"encoding/hex"
	"errors"
	"reflect"
	"strings"
	"testing"
)

// encodings has each method with its arguments as RabbitMQ 3.10.8 encodes them.
var encodings = []struct {
	name      string
	method    Method
	arguments string
}{
	{"connection.start", &ConnectionStart{VersionMajor: 0x1, VersionMinor: 0x2, ServerProperties: Table{{"k", int32(-2)}}, Mechanisms: "mec", Locales: "loc"}, "010200000007016b49fffffffe000000036d6563000000036c6f63"},
	{"connection.start-ok", &ConnectionStartOK{ClientProperties: Table{{"k", int32(-2)}}, Mechanism: "mec", Response: []byte("res"), Locale: "loc"}, "00000007016b49fffffffe036d656300000003726573036c6f63"},
	{"connection.secure", &ConnectionSecure{Challenge: []byte("cha")}, "00000003636861"},
	{"connection.secure-ok", &ConnectionSecureOK{Response: []byte("res")}, "00000003726573"},
	{"connection.tune", &ConnectionTune{ChannelMax: 0x101, FrameMax: 0x1020302, Heartbeat: 0x103}, "0101010203020103"},
	{"connection.tune-ok", &ConnectionTuneOK{ChannelMax: 0x101, FrameMax: 0x1020302, Heartbeat: 0x103}, "0101010203020103"},
	{"connection.open", &ConnectionOpen{VirtualHost: "vir"}, "037669720000"},
	{"connection.open-ok", &ConnectionOpenOK{}, "00"},
	{"connection.close", &ConnectionClose{ReplyCode: 0x101, ReplyText: "rep", ClassID: 0x103, MethodID: 0x104}, "01010372657001030104"},
	{"connection.close-ok", &ConnectionCloseOK{}, ""},
	{"connection.blocked", &ConnectionBlocked{Reason: "rea"}, "03726561"},
	{"connection.unblocked", &ConnectionUnblocked{}, ""},
	{"connection.update-secret", &ConnectionUpdateSecret{NewSecret: []byte("new"), Reason: "rea"}, "000000036e657703726561"},
	{"connection.update-secret-ok", &ConnectionUpdateSecretOK{}, ""},
	{"channel.open", &ChannelOpen{}, "00"},
	{"channel.open-ok", &ChannelOpenOK{}, "00000000"},
	{"channel.flow", &ChannelFlow{Active: true}, "01"},
	{"channel.flow-ok", &ChannelFlowOK{Active: true}, "01"},
	{"channel.close", &ChannelClose{ReplyCode: 0x101, ReplyText: "rep", ClassID: 0x103, MethodID: 0x104}, "01010372657001030104"},
	{"channel.close-ok", &ChannelCloseOK{}, ""},
	{"access.request", &AccessRequest{Realm: "rea", Exclusive: true, Active: true, Read: true}, "0372656115"},
	{"access.request-ok", &AccessRequestOK{Ticket: 0x101}, "0101"},
	{"exchange.declare", &ExchangeDeclare{Exchange: "exc", Type: "typ", Passive: true, AutoDelete: true, NoWait: true, Arguments: Table{{"k", int32(-2)}}}, "000003657863037479701500000007016b49fffffffe"},
	{"exchange.declare-ok", &ExchangeDeclareOK{}, ""},
	{"exchange.delete", &ExchangeDelete{Exchange: "exc", IfUnused: true}, "00000365786301"},
	{"exchange.delete-ok", &ExchangeDeleteOK{}, ""},
	{"exchange.bind", &ExchangeBind{Destination: "des", Source: "sou", RoutingKey: "rou", NoWait: true, Arguments: Table{{"k", int32(-2)}}}, "00000364657303736f7503726f750100000007016b49fffffffe"},
	{"exchange.bind-ok", &ExchangeBindOK{}, ""},
	{"exchange.unbind", &ExchangeUnbind{Destination: "des", Source: "sou", RoutingKey: "rou", NoWait: true, Arguments: Table{{"k", int32(-2)}}}, "00000364657303736f7503726f750100000007016b49fffffffe"},
	{"exchange.unbind-ok", &ExchangeUnbindOK{}, ""},
	{"queue.declare", &QueueDeclare{Queue: "que", Passive: true, Exclusive: true, NoWait: true, Arguments: Table{{"k", int32(-2)}}}, "0000037175651500000007016b49fffffffe"},
	{"queue.declare-ok", &QueueDeclareOK{Queue: "que", MessageCount: 0x1020302, ConsumerCount: 0x1020303}, "037175650102030201020303"},
	{"queue.bind", &QueueBind{Queue: "que", Exchange: "exc", RoutingKey: "rou", NoWait: true, Arguments: Table{{"k", int32(-2)}}}, "0000037175650365786303726f750100000007016b49fffffffe"},
	{"queue.bind-ok", &QueueBindOK{}, ""},
	{"queue.purge", &QueuePurge{Queue: "que", NoWait: true}, "00000371756501"},
	{"queue.purge-ok", &QueuePurgeOK{MessageCount: 0x1020301}, "01020301"},
	{"queue.delete", &QueueDelete{Queue: "que", IfUnused: true, NoWait: true}, "00000371756505"},
	{"queue.delete-ok", &QueueDeleteOK{MessageCount: 0x1020301}, "01020301"},
	{"queue.unbind", &QueueUnbind{Queue: "que", Exchange: "exc", RoutingKey: "rou", Arguments: Table{{"k", int32(-2)}}}, "0000037175650365786303726f7500000007016b49fffffffe"},
	{"queue.unbind-ok", &QueueUnbindOK{}, ""},
	{"basic.qos", &BasicQos{PrefetchSize: 0x1020301, PrefetchCount: 0x102, Global: true}, "01020301010201"},
	{"basic.qos-ok", &BasicQosOK{}, ""},
	{"basic.consume", &BasicConsume{Queue: "que", ConsumerTag: "con", NoLocal: true, Exclusive: true, Arguments: Table{{"k", int32(-2)}}}, "00000371756503636f6e0500000007016b49fffffffe"},
	{"basic.consume-ok", &BasicConsumeOK{ConsumerTag: "con"}, "03636f6e"},
	{"basic.cancel", &BasicCancel{ConsumerTag: "con", NoWait: true}, "03636f6e01"},
	{"basic.cancel-ok", &BasicCancelOK{ConsumerTag: "con"}, "03636f6e"},
	{"basic.publish", &BasicPublish{Exchange: "exc", RoutingKey: "rou", Mandatory: true}, "00000365786303726f7501"},
	{"basic.return", &BasicReturn{ReplyCode: 0x101, ReplyText: "rep", Exchange: "exc", RoutingKey: "rou"}, "0101037265700365786303726f75"},
	{"basic.deliver", &BasicDeliver{ConsumerTag: "con", DeliveryTag: 0x102030405060702, Redelivered: true, Exchange: "exc", RoutingKey: "rou"}, "03636f6e0102030405060702010365786303726f75"},
	{"basic.get", &BasicGet{Queue: "que", NoAck: true}, "00000371756501"},
	{"basic.get-ok", &BasicGetOK{DeliveryTag: 0x102030405060701, Redelivered: true, Exchange: "exc", RoutingKey: "rou", MessageCount: 0x1020305}, "0102030405060701010365786303726f7501020305"},
	{"basic.get-empty", &BasicGetEmpty{}, "00"},
	{"basic.ack", &BasicAck{DeliveryTag: 0x102030405060701, Multiple: true}, "010203040506070101"},
	{"basic.reject", &BasicReject{DeliveryTag: 0x102030405060701, Requeue: true}, "010203040506070101"},
	{"basic.recover-async", &BasicRecoverAsync{Requeue: true}, "01"},
	{"basic.recover", &BasicRecover{Requeue: true}, "01"},
	{"basic.recover-ok", &BasicRecoverOK{}, ""},
	{"basic.nack", &BasicNack{DeliveryTag: 0x102030405060701, Multiple: true}, "010203040506070101"},
	{"confirm.select", &ConfirmSelect{NoWait: true}, "01"},
	{"confirm.select-ok", &ConfirmSelectOK{}, ""},
	{"tx.select", &TxSelect{}, ""},
	{"tx.select-ok", &TxSelectOK{}, ""},
	{"tx.commit", &TxCommit{}, ""},
	{"tx.commit-ok", &TxCommitOK{}, ""},
	{"tx.rollback", &TxRollback{}, ""},
	{"tx.rollback-ok", &TxRollbackOK{}, ""},
}

func TestMethodsOnTheWire(t *testing.T) {
	for _, e := range encodings {
		t.Run(e.name, func(t *testing.T) {
			if got := e.method.ID().String(); got != e.name {
				t.Errorf("name: got %s, want %s", got, e.name)
			}
			payload := methodPayload(t, e.method)
			if got := hex.EncodeToString(payload[methodIDSize:]); got != e.arguments {
				t.Errorf("arguments:\n got %s\nwant %s", got, e.arguments)
			}
			got, err := ParseMethod(payload)
			if err != nil || !reflect.DeepEqual(got, e.method) {
				t.Errorf("parsed: got %+v, %v; want %+v", got, err, e.method)
			}
			if err := Check(e.method); err != nil {
				t.Errorf("check: got %v, want nil", err)
			}
		})
	}
	if len(encodings) != len(methods) {
		t.Errorf("got %d encodings, want one for each of %d methods", len(encodings), len(methods))
	}
}

// Each field is tested alone, to find fields that are swapped or forgotten.
func TestEveryFieldOfEveryMethodRoundTrips(t *testing.T) {
	for id, kind := range methods {
		fields := reflect.TypeOf(kind.empty()).Elem()
		for i := range fields.NumField() {
			m := kind.empty()
			field := reflect.ValueOf(m).Elem().Field(i)
			if !field.CanSet() { // reserved
				continue
			}
			switch field.Interface().(type) {
			case bool:
				field.SetBool(true)
			case string:
				field.SetString(strings.Repeat("é", MaxShort/2))
			case []byte:
				field.SetBytes([]byte{0, FrameEnd})
			case uint8, uint16, uint32, uint64:
				field.SetUint(1<<field.Type().Bits() - 2)
			case Table:
				field.Set(reflect.ValueOf(everyType))
			default:
				t.Fatalf("%s.%s has type %s, which this test does not know", id, fields.Field(i).Name, field.Type())
			}
			got, err := ParseMethod(methodPayload(t, m))
			if err != nil || !reflect.DeepEqual(got, m) {
				t.Errorf("%s with %s: got %+v, %v; want %+v", id, fields.Field(i).Name, got, err, m)
			}
		}
	}
}

func TestMalformedMethods(t *testing.T) {
	for _, test := range []struct {
		name    string
		payload string
		want    FrameError
	}{
		{"no id", "\x00\x32\x00", FrameError{FrameFault, 0, "type 1, all octets = <<0,50,0>>: unknown_frame"}},
		{"unknown method", "\x00\x32\x00\x63", FrameError{NotImplemented, 50<<16 | 99, "no method has the id 99 of class 50"}},
		{"unknown class", "\x00\x63\x00\x0a", FrameError{NotImplemented, 99<<16 | 10, "no method has the id 10 of class 99"}},
		{"cut string", "\x00\x32\x00\x0a\x00\x00\x05ab", FrameError{FrameFault, IDQueueDeclare, "cannot decode <<0,0,5,97,98>>"}},
		{"no arguments", "\x00\x3c\x00\x50", FrameError{FrameFault, IDBasicAck, "cannot decode <<>>"}},
		{"more bytes", "\x00\x14\x00\x14\x01\x00", FrameError{FrameFault, IDChannelFlow, "cannot decode <<1,0>>"}},
		{"more bytes than arguments", "\x00\x5a\x00\x0a\x00", FrameError{FrameFault, IDTxSelect, "cannot decode <<0>>"}},
		{"table past the end", "\x00\x32\x00\x0a\x00\x00\x00\x00\xff\xff\xff\xff", FrameError{FrameFault, IDQueueDeclare, "cannot decode <<0,0,0,0,255,255,255,255>>"}},
		{"not UTF-8", "\x00\x3c\x00\x1e\x01\xff\x00", FrameError{FrameFault, 0, "Malformed UTF-8 in shortstr"}},
		{"malformed table", "\x00\x32\x00\x0a\x00\x00\x00\x00\x00\x00\x00\x03\x01aZ", FrameError{SyntaxError, IDQueueDeclare, "a table has a field of unknown type 90"}},
		{"cut table", "\x00\x32\x00\x0a\x00\x00\x00\x00\x00\x00\x00\x03\x09aZ", FrameError{SyntaxError, IDQueueDeclare, "2 bytes are left where 9 are announced"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			m, err := ParseMethod([]byte(test.payload))
			if m != nil {
				t.Errorf("method: got %+v, want none", m)
			}
			wantFault(t, err, test.want)
		})
	}
}

// RabbitMQ checks that strings are UTF-8, except in methods with content.
func TestContentMethodsTakeAnyBytes(t *testing.T) {
	for _, want := range []Method{
		&BasicPublish{Exchange: "\xff", RoutingKey: "\xfe"},
		&BasicReturn{ReplyText: "\xff", Exchange: "\xff", RoutingKey: "\xfe"},
		&BasicDeliver{ConsumerTag: "\xff", Exchange: "\xff", RoutingKey: "\xfe"},
		&BasicGetOK{Exchange: "\xff", RoutingKey: "\xfe"},
	} {
		got, err := ParseMethod(methodPayload(t, want))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, %v; want %+v", got, err, want)
		}
	}
}

func TestMethodThatDoesNotFitIsNotWritten(t *testing.T) {
	long := strings.Repeat("x", MaxShort+1)
	before := []byte("before")
	for _, test := range []struct {
		method Method
		want   string
	}{
		{&QueueDeclare{Queue: long}, "write queue.declare: a short string has 256 bytes, at most 255 fit"},
		{&QueueDeclare{Arguments: Table{{long, nil}}}, "write queue.declare: a short string has 256 bytes, at most 255 fit"},
		{&QueueBind{Arguments: Table{{"k", 1}}}, "write queue.bind: a value of type int has no type on the wire"},
		{&ConnectionClose{ReplyText: long}, "write connection.close: a short string has 256 bytes, at most 255 fit"},
	} {
		if err := Check(test.method); err == nil || err.Error() != test.want {
			t.Errorf("check: got %v, want %s", err, test.want)
		}
		if got := AppendMethod(before, 1, test.method); string(got) != "before" {
			t.Errorf("%+v: got %q, want nothing added", test.method, got)
		}
	}
}

func FuzzMethod(f *testing.F) {
	for _, e := range encodings {
		f.Add(methodPayload(f, e.method))
	}
	f.Add(methodPayload(f, &QueueDeclare{Queue: "q", Arguments: everyType}))
	f.Fuzz(func(t *testing.T, payload []byte) {
		m, err := ParseMethod(payload)
		checkPublish(t, payload, m, err)
		checkAck(t, payload, m, err)
		if err != nil {
			if fault := new(*FrameError); !errors.As(err, fault) {
				t.Fatalf("got error %T, want *FrameError", err)
			}
			return
		}
		if err := Check(m); err != nil {
			t.Fatalf("%+v was read but cannot be written: %v", m, err)
		}
		again, err := ParseMethod(methodPayload(t, m))
		if err != nil || !reflect.DeepEqual(again, m) {
			t.Fatalf("got %+v, %v; want %+v", again, err, m)
		}
	})
}

// methodPayload returns the payload of a method frame for m.
func methodPayload(t testing.TB, m Method) []byte {
	t.Helper()
	frame := AppendMethod(nil, 0x102, m)
	if len(frame) < FrameOverhead+methodIDSize {
		t.Fatalf("%s: got a frame of %d bytes", m.ID(), len(frame))
	}
	wantPrefix := []byte{FrameMethod, 1, 2, 0, 0, byte((len(frame) - FrameOverhead) >> 8), byte(len(frame) - FrameOverhead)}
	if got := frame[:prefixSize]; len(frame) < 1<<16 && !reflect.DeepEqual(got, wantPrefix) {
		t.Fatalf("%s: frame begins %v, want %v", m.ID(), got, wantPrefix)
	}
	return frame[prefixSize : len(frame)-1]
}

func wantFault(t *testing.T, err error, want FrameError) {
	t.Helper()
	var got *FrameError
	if !errors.As(err, &got) || *got != want {
		t.Errorf("got error %v (%T), want %v", err, err, &want)
	}
}
