package node

import (
	"testing"

	"github.com/rehop/rehop/internal/wire"
)

func TestErlangTerm(t *testing.T) {
	for _, c := range []struct {
		value       any
		term, field string
	}{
		{nil, "undefined", "void"},
		{true, "true", "bool"},
		{int8(-1), "-1", "byte"},
		{uint8(1), "1", "unsignedbyte"},
		{int16(1), "1", "short"},
		{uint16(1), "1", "unsignedshort"},
		{int32(1), "1", "signedint"},
		{uint32(1), "1", "unsignedint"},
		{int64(1), "1", "long"},
		{uint64(1<<64 - 1), "-1", "long"},
		{float32(1.5), "1.5", "float"},
		{float32(1.1), "1.100000023841858", "float"},
		{2.0, "2.0", "double"},
		{1e20, "1.0e20", "double"},
		{0.00001, "1.0e-5", "double"},
		{-0.25, "-0.25", "double"},
		{"", "<<>>", "longstr"},
		{"a\"b", `<<"a\"b">>`, "longstr"},
		{"\x00\xff", "<<0,255>>", "longstr"},
		{[]byte("a"), `<<"a">>`, "binary"},
		{wire.Timestamp(5), "5", "timestamp"},
		{wire.Decimal{Scale: 2, Value: 15}, "{2,15}", "decimal"},
		{wire.Table{{Key: "k", Value: int32(1)}}, `[{<<"k">>,signedint,1}]`, "table"},
		{wire.Array{"a", nil}, `[{longstr,<<"a">>},{void,undefined}]`, "array"},
	} {
		if got := erlangTerm(c.value); got != c.term {
			t.Errorf("erlangTerm(%#v): got %s, want %s", c.value, got, c.term)
		}
		if got := fieldType(c.value); got != c.field {
			t.Errorf("fieldType(%#v): got %s, want %s", c.value, got, c.field)
		}
	}
}

func TestErlangTermOfJSON(t *testing.T) {
	value := map[string]any{"b": []any{int64(1), "x"}, "a": []any{}}
	if got, want := erlangTerm(value), `#{<<"a">> => [],<<"b">> => [1,<<"x">>]}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestErlangString(t *testing.T) {
	for s, want := range map[string]string{"plain": `"plain"`, "a\\\n": `"a\\\n"`, "\x01": "[1]"} {
		if got := erlangString(s); got != want {
			t.Errorf("erlangString(%q): got %s, want %s", s, got, want)
		}
	}
}
