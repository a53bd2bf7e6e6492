package headerjson

import (
	"math"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestRoundTrip(t *testing.T) {
	for _, c := range []struct {
		name      string
		give, get any // get: nil if it is what was given
	}{
		{"nil", nil, nil},
		{"bool", true, nil},
		{"string", "größe \x00", nil},
		{"string that is not UTF-8", "a\xffb", nil},
		{"bytes", []byte{0, 255}, nil},
		{"no bytes", []byte{}, nil},
		{"time", time.Unix(1700000000, 0), nil},
		{"int", 7, int64(7)},
		{"int8", int8(-8), nil},
		{"int16", int16(-16), nil},
		{"int32", int32(-32), nil},
		{"int64", int64(math.MaxInt64), nil},
		{"uint", uint(9), int64(9)},
		{"uint8", uint8(8), nil},
		{"uint16", uint16(16), nil},
		{"uint32", uint32(32), nil},
		{"uint64", uint64(math.MaxInt64), int64(math.MaxInt64)},
		{"float32", float32(0.1), nil},
		{"float64", 0.1, nil},
		{"infinity", math.Inf(-1), nil},
		{"list", []any{int64(1), "a", []byte("b"), []any{}}, nil},
		{"strings", []string{"a", "b"}, []any{"a", "b"}},
		{"table", map[string]any{"a": int8(1), "b": map[string]any{"c": nil}}, nil},
		{"names that are not UTF-8", map[string]any{"\xff": "a", "\xfe": "b"}, nil},
		{"name like ours", map[string]any{"$name:eA==": "a", "x": "b"}, nil},
		{"empty table", map[string]any{}, nil},
		{"table like ours", map[string]any{"$type": "int8", "$value": "5"}, nil},
		{"table with our type", map[string]any{"$type": int16(3), "other": "5", "third": true}, nil},
		{"table like ours within", map[string]any{"$type": "table", "$value": map[string]any{"$type": "x", "$value": "y"}}, nil},
	} {
		want := c.get
		if want == nil {
			want = c.give
		}
		text, err := Marshal(map[string]any{"h": c.give})
		if err != nil {
			t.Errorf("%s: marshal: %v", c.name, err)
			continue
		}
		got, err := Unmarshal(text)
		if err != nil {
			t.Errorf("%s: unmarshal %s: %v", c.name, text, err)
			continue
		}
		if !reflect.DeepEqual(got["h"], want) {
			t.Errorf("%s: got %#v, want %#v, by way of %s", c.name, got["h"], want, text)
		}
	}
}

func TestNoHeaders(t *testing.T) {
	text, err := Marshal(nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := Unmarshal(text); err != nil || len(got) != 0 {
		t.Errorf("got %v and %v, want no headers", got, err)
	}
}

func TestMarshalRefuses(t *testing.T) {
	endless := map[string]any{}
	endless["again"] = endless
	for _, c := range []struct {
		value any
		want  string
	}{
		{struct{}{}, `header "h": AMQP has no type for a struct {}`},
		{uint64(math.MaxUint64), "larger than AMQP can carry"},
		{map[string]any{"a": []any{make(chan int)}}, `"a": AMQP has no type for a chan int`},
		{endless, "nested more than 40 deep"},
	} {
		if _, err := Marshal(map[string]any{"h": c.value}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got error %v, want one with %q", err, c.want)
		}
	}
}

func TestUnmarshalRefuses(t *testing.T) {
	for text, want := range map[string]string{
		`{"h": 1.5}`: "not a whole number",
		`{"h": {"$type": "decimal", "$value": "1"}}`: `cannot read a value of type "decimal"`,
		`{"h": {"$type": "int8", "$value": "300"}}`:  "out of range",
		`[`: "read headers",
	} {
		if _, err := Unmarshal([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got error %v, want one with %q", text, err, want)
		}
	}
}
