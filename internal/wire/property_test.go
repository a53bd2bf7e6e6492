package wire

import (
	"encoding/hex"
	"reflect"
	"strings"
	"testing"
)

var everyProperty = Properties{
	Has: allProperties, ContentType: "ct", ContentEncoding: "ce", Headers: Table{{"k", "v"}}, DeliveryMode: 2, Priority: 9,
	CorrelationID: "ci", ReplyTo: "rt", Expiration: "60", MessageID: "mi", Timestamp: 1700000000,
	Type: "ty", UserID: "ui", AppID: "ai", ClusterID: "cl",
}

// The bytes are those of RabbitMQ.
func TestPropertiesOnTheWire(t *testing.T) {
	for _, test := range []struct {
		name       string
		properties Properties
		want       string
	}{
		{"all", everyProperty, "fffc02637402636500000008016b5300000001760209026369027274023630026d69000000006553f10002747902756902616902636c"},
		{"present but empty", Properties{Has: HasHeaders | HasDeliveryMode | HasPriority | HasExpiration, DeliveryMode: 2}, "390000000000020000"},
		{"none", Properties{}, "0000"},
	} {
		raw := test.properties.Append(nil)
		if got := hex.EncodeToString(raw); got != test.want {
			t.Errorf("%s:\n got %s\nwant %s", test.name, got, test.want)
		}
		got, err := ParseProperties(raw)
		if err != nil || !reflect.DeepEqual(got, test.properties) {
			t.Errorf("%s: got %+v, %v; want %+v", test.name, got, err, test.properties)
		}
	}
}

func TestPropertyIsPresentByValueAlone(t *testing.T) {
	all := everyProperty
	all.Has = 0
	if got, want := hex.EncodeToString(all.Append(nil)), hex.EncodeToString(everyProperty.Append(nil)); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	fields := reflect.TypeOf(all)
	for i := 1; i < fields.NumField(); i++ {
		var one Properties
		reflect.ValueOf(&one).Elem().Field(i).Set(reflect.ValueOf(all).Field(i))
		got, err := ParseProperties(one.Append(nil))
		one.Has = 1 << (16 - i)
		if err != nil || !reflect.DeepEqual(got, one) {
			t.Errorf("%s: got %+v, %v; want %+v", fields.Field(i).Name, got, err, one)
		}
	}
}

func TestPropertiesThatDoNotFitAreNotWritten(t *testing.T) {
	for _, test := range []struct {
		properties Properties
		want       string
	}{
		{Properties{MessageID: strings.Repeat("x", 256)}, "write properties: a short string has 256 bytes, at most 255 fit"},
		{Properties{Headers: Table{{"k", 1}}}, "write properties: a value of type int has no type on the wire"},
	} {
		if err := test.properties.Check(); err == nil || err.Error() != test.want {
			t.Errorf("got %v, want %s", err, test.want)
		}
		if got := test.properties.Append([]byte("before")); string(got) != "before" {
			t.Errorf("got %q, want nothing added", got)
		}
	}
	if err := everyProperty.Check(); err != nil {
		t.Errorf("got %v, want nil", err)
	}
}

func FuzzProperties(f *testing.F) {
	f.Add(everyProperty.Append(nil))
	f.Add(Properties{Headers: everyType}.Append(nil))
	f.Add([]byte{0, 1})
	f.Fuzz(func(t *testing.T, raw []byte) {
		p, err := ParseProperties(raw)
		h, headerErr := ParseHeader(headerPayload(raw, 1))
		if (err == nil) != (headerErr == nil) {
			t.Fatalf("ParseProperties: %v, but ParseHeader: %v", err, headerErr)
		}
		brief, briefErr := ScanProperties(raw)
		if err != nil {
			return
		}
		if string(h.Properties) != string(raw) {
			t.Fatalf("header's properties: got % x, want % x", h.Properties, raw)
		}
		checkBrief(t, brief, briefErr, p)
		again, err := ParseProperties(p.Append(nil))
		if err != nil || !reflect.DeepEqual(again, p) {
			t.Fatalf("got %+v, %v; want %+v", again, err, p)
		}
	})
}
