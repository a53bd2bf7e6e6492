package exchange

import (
	"math"

	"github.com/rehop/rehop/broker/internal/erlang"
	"github.com/rehop/rehop/internal/wire"
)

// equal compares as RabbitMQ compares a header with a binding's argument: by value, so that 1 equals 1.0. Only within tables and
// arrays do types count.
func equal(a, b any) bool {
	switch a := a.(type) {
	case nil:
		return b == nil
	case bool:
		b, ok := b.(bool)
		return ok && a == b
	case string:
		switch b := b.(type) {
		case string:
			return a == b
		case []byte:
			return a == string(b)
		}
		return false
	case []byte:
		switch b := b.(type) {
		case string:
			return string(a) == b
		case []byte:
			return string(a) == string(b)
		}
		return false
	case wire.Decimal:
		b, ok := b.(wire.Decimal)
		return ok && a == b
	case wire.Table:
		switch b := b.(type) {
		case wire.Table:
			return equalTables(a, b)
		case wire.Array: // both are lists to RabbitMQ
			return len(a) == 0 && len(b) == 0
		}
		return false
	case wire.Array:
		switch b := b.(type) {
		case wire.Array:
			return equalArrays(a, b)
		case wire.Table:
			return len(a) == 0 && len(b) == 0
		}
		return false
	}
	return equalNumbers(a, b)
}

// identical compares an argument of a binding with a header as RabbitMQ does from 4.0 on: no integer is the same as a number with a fraction, and
// the time in a header is in milliseconds, while that in an argument is in seconds.
func identical(argument, header any) bool {
	if t, ok := header.(wire.Timestamp); ok {
		header = wire.Timestamp(uint64(t) * 1000)
	}
	_, ofFloat := float(argument)
	_, isFloat := float(header)
	return ofFloat == isFloat && equal(argument, header)
}

func equalTables(a, b wire.Table) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].Key != b[i].Key || erlang.Type(a[i].Value) != erlang.Type(b[i].Value) || !equal(a[i].Value, b[i].Value) {
			return false
		}
	}
	return true
}

func equalArrays(a, b wire.Array) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if erlang.Type(a[i]) != erlang.Type(b[i]) || !equal(a[i], b[i]) {
			return false
		}
	}
	return true
}

func equalNumbers(a, b any) bool {
	x, xIsInteger := integer(a)
	y, yIsInteger := integer(b)
	if xIsInteger && yIsInteger {
		return x == y
	}
	f, aIsFloat := float(a)
	g, bIsFloat := float(b)
	switch {
	case aIsFloat && bIsFloat:
		return f == g
	case xIsInteger && bIsFloat:
		return x.equals(g)
	case aIsFloat && yIsInteger:
		return y.equals(f)
	}
	return false
}

// whole is an integer of any field type: a timestamp exceeds int64.
type whole struct {
	negative  bool
	magnitude uint64
}

func signed(v int64) whole {
	if v < 0 {
		return whole{true, -uint64(v)}
	}
	return whole{false, uint64(v)}
}

// equals is exact: no integer is rounded to a float.
func (w whole) equals(f float64) bool {
	magnitude := math.Abs(f)
	return magnitude < 1<<64 && magnitude == math.Trunc(magnitude) && w == whole{f < 0, uint64(magnitude)}
}

func integer(v any) (whole, bool) {
	if i, ok := wire.Integer(v); ok {
		return signed(i), true
	}
	t, ok := v.(wire.Timestamp)
	return whole{false, uint64(t)}, ok
}

func float(v any) (float64, bool) {
	switch v := v.(type) {
	case float32:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}
