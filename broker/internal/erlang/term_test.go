package erlang

import (
	"testing"

	"github.com/rehop/rehop/internal/wire"
)

// TestTerm has what Erlang 25 prints.
func TestTerm(t *testing.T) {
	for _, test := range []struct {
		value          any
		wantType, want string
	}{
		{nil, "void", "undefined"},
		{true, "bool", "true"},
		{int8(-1), "byte", "-1"},
		{uint8(1), "unsignedbyte", "1"},
		{int16(-1), "short", "-1"},
		{uint16(1), "unsignedshort", "1"},
		{int32(-1), "signedint", "-1"},
		{uint32(1), "unsignedint", "1"},
		{int64(-1), "long", "-1"},
		{uint64(1<<64 - 1), "long", "-1"},
		{float32(1), "float", "1.0"},
		{float32(1.1), "float", "1.100000023841858"},
		{0.1, "double", "0.1"},
		{-0.25, "double", "-0.25"},
		{123456789.0, "double", "123456789.0"},
		{1e20, "double", "1.0e20"},
		{0.00001, "double", "1.0e-5"},
		{wire.Decimal{Scale: 2, Value: 314}, "decimal", "{2,314}"},
		{wire.Timestamp(1<<64 - 1), "timestamp", "18446744073709551615"},
		{"", "longstr", "<<>>"},
		{"foo", "longstr", `<<"foo">>`},
		{"a\"b\\c\n\t\r\x1b\v\b\f", "longstr", `<<"a\"b\\c\n\t\r\e\v\b\f">>`},
		{"a\xa0\xc8", "longstr", "<<\"a\xa0\xc8\">>"},
		{"a\x7f", "longstr", "<<97,127>>"},
		{"\x00\xff", "longstr", "<<0,255>>"},
		{[]byte("a"), "binary", `<<"a">>`},
		{[]byte{1, 2, 3}, "binary", "<<1,2,3>>"},
		{wire.Table{}, "table", "[]"},
		{
			wire.Table{{Key: "a", Value: "b"}, {Key: "c", Value: wire.Array{int32(5), true, nil}}}, "table",
			`[{<<"a">>,longstr,<<"b">>},{<<"c">>,array,[{signedint,5},{bool,true},{void,undefined}]}]`,
		},
		{wire.Array{"a", nil}, "array", `[{longstr,<<"a">>},{void,undefined}]`},
	} {
		if got := Type(test.value); got != test.wantType {
			t.Errorf("Type(%#v): got %s, want %s", test.value, got, test.wantType)
		}
		if got := Term(test.value); got != test.want {
			t.Errorf("Term(%#v): got %s, want %s", test.value, got, test.want)
		}
	}
}

func TestTermOfJSON(t *testing.T) {
	value := map[string]any{"b": []any{int64(1), "x"}, "a": []any{}}
	if got, want := Term(value), `#{<<"a">> => [],<<"b">> => [1,<<"x">>]}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestString(t *testing.T) {
	for s, want := range map[string]string{"": `""`, "plain": `"plain"`, "a\\\n": `"a\\\n"`, "\x01b": "[1,98]"} {
		if got := String(s); got != want {
			t.Errorf("String(%q): got %s, want %s", s, got, want)
		}
	}
}

func TestList(t *testing.T) {
	if got, want := List([]string{"a", "\x00"}, Binary), `[<<"a">>,<<0>>]`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := List(nil, Binary), "[]"; got != want {
		t.Errorf("of nothing: got %s, want %s", got, want)
	}
}
