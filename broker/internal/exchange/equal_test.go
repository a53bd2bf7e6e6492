package exchange

import (
	"math"
	"testing"

	"github.com/rehop/rehop/internal/wire"
)

func TestEqual(t *testing.T) {
	for _, test := range []struct {
		a, b any
		want bool
	}{
		{nil, nil, true},
		{nil, false, false},
		{nil, wire.Table{}, false},
		{true, true, true},
		{true, false, false},
		{true, "true", false},
		{false, int8(0), false},
		{"a", "a", true},
		{"a", "A", false},
		{"a", []byte("a"), true},
		{[]byte("a"), []byte("a"), true},
		{[]byte("a"), []byte("b"), false},
		{"", wire.Array{}, false},
		{"1", int32(1), false},

		{int8(1), uint8(1), true},
		{int8(1), int16(1), true},
		{uint16(1), int32(1), true},
		{uint32(1), int64(1), true},
		{int64(1), uint64(1), true},
		{int64(1), wire.Timestamp(1), true},
		{int64(-1), uint64(math.MaxUint64), true}, // signed to RabbitMQ
		{int64(-1), wire.Timestamp(math.MaxUint64), false},
		{int64(1), int64(-1), false},
		{int64(math.MinInt64), float64(math.MinInt64), true},
		{int32(1), 1.0, true},
		{int32(1), float32(1), true},
		{int32(1), 1.5, false},
		{int32(-1), 1.0, false},
		{int32(0), math.Copysign(0, -1), true},
		{0.0, math.Copysign(0, -1), true},
		{float32(1.5), 1.5, true},
		{float32(0.1), 0.1, false},
		{int64(1<<53 + 1), float64(1 << 53), false},
		{int64(1 << 53), float64(1 << 53), true},
		{wire.Timestamp(math.MaxUint64), math.Pow(2, 64), false},
		{int32(1), math.NaN(), false},
		{int32(1), math.Inf(1), false},

		{wire.Decimal{Scale: 2, Value: 314}, wire.Decimal{Scale: 2, Value: 314}, true},
		{wire.Decimal{Scale: 1, Value: 10}, wire.Decimal{Scale: 0, Value: 1}, false},
		{wire.Decimal{Scale: 0, Value: 1}, int32(1), false},

		{wire.Table{}, wire.Array{}, true}, // the empty list to RabbitMQ
		{fields("a", int32(1)), fields("a", int32(1)), true},
		{fields("a", int32(1)), fields("a", int64(1)), false}, // types are compared within
		{fields("a", int64(1)), fields("a", uint64(1)), true},
		{fields("a", int32(1)), fields("b", int32(1)), false},
		{fields("a", int32(1)), fields("a", int32(2)), false},
		{fields("a", "1", "b", "2"), fields("b", "2", "a", "1"), false}, // and so is the order
		{fields("a", "1"), fields("a", "1", "b", "2"), false},
		{fields("a", "1"), wire.Array{"1"}, false},
		{fields("a", "1"), "1", false},
		{fields("a", fields("b", true)), fields("a", fields("b", true)), true},
		{wire.Array{"1", nil}, wire.Array{"1", nil}, true},
		{wire.Array{"1"}, wire.Array{[]byte("1")}, false},
		{wire.Array{"1"}, wire.Array{"1", "1"}, false},
		{wire.Array{"1"}, "1", false},
	} {
		if got := equal(test.a, test.b); got != test.want {
			t.Errorf("equal(%T %v, %T %v): got %t, want %t", test.a, test.a, test.b, test.b, got, test.want)
		}
		if got := equal(test.b, test.a); got != test.want {
			t.Errorf("equal(%T %v, %T %v): got %t, want %t", test.b, test.b, test.a, test.a, got, test.want)
		}
	}
}
